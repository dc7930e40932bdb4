//! The state of a participant's process, as the kernel reports it.
//!
//! A participant notes its process id as its own container numbers it. In another container, that
//! number may belong to no process or to a different one, so the program's name must match, too.

use serde::Serialize;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    /// It runs or could run.
    Running,
    /// It waits for something.
    Sleeping,
    /// It waits for a disk or the like, and no signal ends that.
    Uninterruptible,
    /// A signal (SIGSTOP, SIGTSTP) has suspended it.
    Stopped,
    /// A debugger has suspended it.
    Traced,
    /// It has ended, and its parent has not collected its exit code.
    Zombie,
}

impl ProcessState {
    /// The state of the process with this id if its program has this name; `None` if there is no
    /// such process here.
    pub fn of(pid: u32, program: &str) -> Option<ProcessState> {
        state(&std::fs::read(format!("/proc/{pid}/stat")).ok()?, program)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ProcessState::Running => "running",
            ProcessState::Sleeping => "sleeping",
            ProcessState::Uninterruptible => "uninterruptible",
            ProcessState::Stopped => "stopped",
            ProcessState::Traced => "traced",
            ProcessState::Zombie => "zombie",
        }
    }

    /// Whether the process cannot run until another process continues it.
    pub fn is_suspended(self) -> bool {
        matches!(self, ProcessState::Stopped | ProcessState::Traced)
    }
}

/// Reads `pid (name) letter ...`; the name may have any characters.
fn state(stat: &[u8], program: &str) -> Option<ProcessState> {
    let stat = String::from_utf8_lossy(stat);
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    if name != program {
        return None;
    }
    Some(match rest.chars().next()? {
        'R' => ProcessState::Running,
        'S' | 'I' => ProcessState::Sleeping,
        'D' => ProcessState::Uninterruptible,
        'T' => ProcessState::Stopped,
        't' => ProcessState::Traced,
        'Z' | 'X' => ProcessState::Zombie,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_follows_the_name_whatever_the_name_is() {
        let state = |text: &str, program| state(text.as_bytes(), program);
        assert_eq!(state("7 (a) T) R 1 2", "a) T"), Some(ProcessState::Running));
        assert_eq!(state("7 (hold) T 1 2", "hold"), Some(ProcessState::Stopped));
        assert_eq!(state("7 (hold) t 1 2", "hold").map(ProcessState::is_suspended), Some(true));
        assert_eq!(state("7 (hold) T 1 2", "redis"), None);
        for strange in ["", "7", "7 (hold)", "7 (hold) ", "7 (hold) ?", "(hold"] {
            assert_eq!(state(strange, "hold"), None, "{strange}");
        }
    }

    #[test]
    fn this_process_runs() {
        let comm = std::fs::read_to_string("/proc/self/comm").expect("a name");
        // The main thread, which waits for the tests.
        let state = ProcessState::of(std::process::id(), comm.trim_end());
        assert!(state.is_some_and(|state| !state.is_suspended()), "{state:?}");
        assert_eq!(ProcessState::of(std::process::id(), "another"), None);
    }
}
