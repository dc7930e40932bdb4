//! Programs that end with the thread that starts them, even if it is killed.
//!
//! The kernel ends them, once `setpriv` has set PR_SET_PDEATHSIG. It would not notice a starter
//! that is killed before that, while its child becomes another program. So a shell checks
//! afterwards whether the starter is still the parent, and only then becomes the program. The shell
//! notices a starter that dies before this check, and the kernel notices one that dies later. The
//! process, and so its id, stays the same.
//!
//! Invariant: no program started here outlives its starter. The starter is a *thread*, which must
//! live as long as the program is needed. The rivals that are programs of their own call this
//! module.

use std::{
    ffi::OsStr,
    process::{self, Command},
};

use super::server::find;

/// Part of util-linux, which is essential in Debian, like the shell.
const LAUNCHER: &str = "setpriv";
const LOOK: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;

/// A command that runs `program`. The caller adds the arguments.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    command_of(process::id(), "KILL", program)
}

/// The same for a program that has children of its own, and ends them on SIGTERM. SIGKILL would
/// leave them behind.
pub fn family_command(program: impl AsRef<OsStr>) -> Command {
    command_of(process::id(), "TERM", program)
}

fn command_of(parent: u32, signal: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(LAUNCHER);
    command.args(["--pdeathsig", signal, "sh", "-c", LOOK, "sh", &parent.to_string()]);
    command.arg(program);
    command
}

/// The reason why no program can be started, and the remedy; `None` if it can.
pub fn missing() -> Option<String> {
    let missing = find(LAUNCHER).is_none();
    missing.then(|| format!("{LAUNCHER} is not installed: apt-get install util-linux"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::process::ExitStatusExt,
        process::{Child, Stdio},
        thread,
    };

    use super::*;

    /// Starts a program that prints a line, and then waits for the end of its input.
    fn started(mut command: Command) -> Child {
        command.args(["-c", "echo here; read _"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn the_program_has_its_arguments_and_the_id_of_the_child() {
        let mut command = command("sh");
        command.args(["-c", "echo $$ \"$1\"", "sh", "a b  'c'"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(said, format!("{} a b  'c'\n", child.id()));
    }

    #[test]
    fn a_starter_that_died_early_is_detected() {
        // The child cannot distinguish this case: its parent is not the one in its arguments.
        let mut child = started(command_of(process::id() + 1, "KILL", "sh"));
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "the program ran");
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut child = started(command("sh"));
            let mut first = [0];
            child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
            child
        };
        let mut child = thread::spawn(start).join().unwrap();
        // Its input is still open: only a signal can end it.
        let input = child.stdin.take();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        drop(input);
    }
}
