//! The report of a crash test, for people and as JSON.

use indicatif::HumanCount;
use serde::Serialize;

/// All counts.
#[derive(Serialize, Default, Debug)]
pub struct Report {
    /// Whether nothing was wrong.
    pub passed: bool,
    /// Whether it was interrupted before its end.
    pub interrupted: bool,
    /// Seconds that it took.
    pub seconds: f64,
    /// Quiet moments with everything compared.
    pub rounds: u64,
    /// Processes started.
    pub processes: u64,
    /// Processes killed (SIGKILL) at a random instant while working.
    pub kills: u64,
    /// Processes suspended (SIGSTOP) at a random instant.
    pub suspensions: u64,
    /// Suspensions of writers during which every reader was seen to make progress.
    pub readers_got_on: u64,
    /// Times that all processes were killed at once.
    pub massacres: u64,
    /// Operations acknowledged and compared.
    pub changes: u64,
    /// Changes that a killed process had committed without living to see the acknowledgement.
    pub unacknowledged: u64,
    /// Dead participants recovered by the sweeps between rounds.
    pub recovered: u64,
    /// Checks of the whole hold between rounds.
    pub checks: u64,
    /// Backups restored and compared.
    pub backups: u64,
    /// Calls that failed, with `--faults`.
    pub failures: u64,
    /// Cases of named faults, with `--faults` and the feature `steps`.
    pub fault_cases: u64,
    /// Times that a process could open no descriptor.
    pub without_descriptors: u64,
    /// Times that the hold had no room.
    pub without_room: u64,
    /// Suspensions that outlasted the others' patience; during most of them another process died.
    pub long_suspensions: u64,
    /// Cases of named steps, with the feature `steps`.
    pub step_cases: u64,
    /// The number of named steps that were passed.
    pub steps_met: u64,
    /// How many named steps there are; 0 without the feature.
    pub steps: u64,
    /// The error, in words.
    pub problems: Vec<String>,
    /// The seed, to draw the same choices again (instants still differ).
    pub seed: u64,
}

impl Report {
    /// The lines for people.
    pub fn lines(&self) -> Vec<String> {
        let count = count_of;
        let mut lines = vec![
            format!(
                "{:.0} s, {} rounds, {} processes started",
                self.seconds,
                self.rounds,
                count(self.processes)
            ),
            format!(
                "{} killed and {} suspended at random instants; {} times, all were killed at once",
                count(self.kills),
                count(self.suspensions),
                count(self.massacres)
            ),
            format!(
                "{} suspensions of writers, during each of which every reader continued",
                count(self.readers_got_on)
            ),
            format!(
                "{} changes acknowledged and compared; {} more were committed by processes that \
                 were killed before they could acknowledge them",
                count(self.changes),
                count(self.unacknowledged)
            ),
            format!(
                "{} complete checks (allocated = reachable), which recovered {} dead participants; \
                 {} backups restored",
                count(self.checks),
                count(self.recovered),
                count(self.backups)
            ),
        ];
        lines.extend(self.faults_line());
        lines.push(self.steps_line());
        lines.extend(self.problems.iter().map(|problem| format!("WRONG: {problem}")));
        lines.push(match (self.passed, self.interrupted) {
            (true, false) => "passed: nothing was lost or torn, and no process hung".to_owned(),
            (true, true) => "interrupted: no error so far".to_owned(),
            (false, _) => format!("FAILED (seed {})", self.seed),
        });
        lines
    }

    fn faults_line(&self) -> Option<String> {
        let count = count_of;
        (self.failures > 0).then(|| {
            format!(
                "{} calls failed and were retried; descriptors ran out {} times, room ran out {} \
                 times, and {} suspensions were long",
                count(self.failures),
                count(self.without_descriptors),
                count(self.without_room),
                count(self.long_suspensions)
            )
        })
    }

    fn steps_line(&self) -> String {
        if cfg!(not(feature = "steps")) {
            return "named steps: not in this build (build with the cargo feature `steps`)"
                .to_owned();
        }
        format!(
            "named steps: {} of {} reached, in {} kills and suspensions; {} named faults injected",
            self.steps_met,
            self.steps,
            count_of(self.step_cases),
            count_of(self.fault_cases)
        )
    }
}

fn count_of(number: u64) -> String {
    HumanCount(number).to_string()
}
