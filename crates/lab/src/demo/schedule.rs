//! The schedule: the times at which processes are suspended and killed, and the output meanwhile.
//!
//! | share of the time | what happens |
//! |---|---|
//! | 0.30 | writer 2 is suspended (SIGSTOP) |
//! | 0.45 | writer 3 is killed (SIGKILL), while writer 2 is suspended |
//! | 0.60 | writer 2 continues (SIGCONT) |
//! | 1.00 | all processes finish |
//!
//! The signals come at whatever instruction the processes are: in the middle of a write, holding
//! a lock, or between two operations.

use super::processes::Processes;
use super::screen::{Frame, Screen};
use super::work::{PART, Part};
use crate::workload::{Result, RunError, board::Board, clock};
use commonhold_terminal::interrupt::Interrupt;
use std::time::Duration;

/// The writer that is suspended for a while.
pub const SUSPENDED: u32 = 2;
/// The writer that is killed.
pub const KILLED: u32 = 3;
/// The writer that is neither suspended nor killed.
pub const UNDISTURBED: u32 = 1;

/// How often the reports of the processes are read.
const TICK: Duration = Duration::from_millis(100);

/// Readers without a report for this long count as hung.
const SILENCE_SECONDS: f64 = 60.0;

type Act = fn(&mut Play) -> Result<String>;

const ACTS: [(f64, Act); 3] = [(0.30, suspend), (0.45, kill), (0.60, go_on)];

/// The findings about the writers.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// How long the suspended writer was suspended, in nanoseconds.
    pub suspended_ns: u64,
    /// Edits that the undisturbed writer made in that time.
    pub undisturbed_edits: u64,
    /// How long the undisturbed writer had made no edit when that time was over.
    pub undisturbed_waited_ns: u64,
}

/// The show while it is on.
pub struct Play<'a> {
    board: &'a Board,
    processes: &'a mut Processes,
    outcome: Outcome,
    part: Part,
    suspended_at_ns: u64,
    undisturbed_at_suspension: u64,
    undisturbed_last: (u64, u64),
}

/// Plays for `seconds` and ends the processes' work in order.
///
/// Every part lasts until its readers have reported it, however slow the machine is: a part without
/// reports would show nothing.
pub fn perform(
    processes: &mut Processes,
    board: &Board,
    screen: &mut Screen,
    interrupt: &Interrupt,
    seconds: f64,
) -> Result<Outcome> {
    let begin_ns = clock::now_ns();
    let mut play = Play::new(processes, board);
    let mut acts = ACTS.iter().peekable();
    loop {
        let elapsed = (clock::now_ns() - begin_ns) as f64 / 1e9;
        if interrupt.came() {
            return Err(RunError::new("interrupted; the hold was deleted"));
        }
        play.processes.listen(board)?;
        play.watch_the_undisturbed();
        screen.show(&Frame { elapsed, seconds, processes: play.processes })?;
        let due = acts.peek().map_or(1.0, |(share, _)| *share) * seconds;
        if elapsed < due || !play.was_seen() {
            play.pause(elapsed, due)?;
        } else if let Some((_, act)) = acts.next() {
            let happened = act(&mut play)?;
            screen.happened(elapsed, &happened)?;
        } else {
            break;
        }
    }
    let outcome = play.end()?;
    screen.show(&Frame { elapsed: seconds, seconds, processes })?;
    Ok(outcome)
}

impl<'a> Play<'a> {
    fn new(processes: &'a mut Processes, board: &'a Board) -> Play<'a> {
        Play {
            board,
            processes,
            outcome: Outcome::default(),
            part: Part::Before,
            suspended_at_ns: 0,
            undisturbed_at_suspension: 0,
            undisturbed_last: (0, 0),
        }
    }

    fn begin_part(&mut self, part: Part) -> Result<()> {
        self.part = part;
        self.board.put(PART, part as u64)
    }

    /// Whether the readers have reported the current part.
    fn was_seen(&self) -> bool {
        self.processes.seen.latencies[self.part as usize].count() > 0
    }

    /// Waits a little; fails if the readers have reported nothing for long after the part was due
    /// to end.
    fn pause(&self, elapsed: f64, due: f64) -> Result<()> {
        if elapsed > due + SILENCE_SECONDS {
            return Err(RunError::new(format!(
                "the readers have reported nothing for {SILENCE_SECONDS} s: they hang"
            )));
        }
        std::thread::sleep(TICK.min(Duration::from_secs_f64((due - elapsed).max(0.01))));
        Ok(())
    }

    /// Records since when the undisturbed writer has made no edit: it waits if it needs a segment in
    /// which the suspended one was writing.
    fn watch_the_undisturbed(&mut self) {
        let done = self.processes.writer(UNDISTURBED).done;
        if done != self.undisturbed_last.0 {
            self.undisturbed_last = (done, clock::now_ns());
        }
    }

    fn end(mut self) -> Result<Outcome> {
        self.processes.listen(self.board)?;
        self.begin_part(Part::Over)?;
        self.processes.finish()?;
        Ok(self.outcome)
    }
}

fn suspend(play: &mut Play) -> Result<String> {
    play.processes.listen(play.board)?;
    play.undisturbed_at_suspension = play.processes.writer(UNDISTURBED).done;
    let writer = play.processes.writer(SUSPENDED);
    writer.suspend()?;
    let pid = writer.worker.pid();
    play.suspended_at_ns = clock::now_ns();
    play.begin_part(Part::During)?;
    Ok(format!("writer {SUSPENDED} (pid {pid}) is suspended in the middle of its work: SIGSTOP"))
}

fn kill(play: &mut Play) -> Result<String> {
    let writer = play.processes.writer(KILLED);
    writer.kill()?;
    let pid = writer.worker.pid();
    Ok(format!("writer {KILLED} (pid {pid}) is killed in the middle of its work: SIGKILL"))
}

fn go_on(play: &mut Play) -> Result<String> {
    play.processes.listen(play.board)?;
    play.watch_the_undisturbed();
    // Only a wait that the suspension may have caused: one that lasted until its end.
    let since_ns = play.undisturbed_last.1.max(play.suspended_at_ns);
    play.outcome.undisturbed_waited_ns = clock::now_ns().saturating_sub(since_ns);
    play.outcome.undisturbed_edits =
        play.processes.writer(UNDISTURBED).done - play.undisturbed_at_suspension;
    play.outcome.suspended_ns = clock::now_ns() - play.suspended_at_ns;
    play.begin_part(Part::After)?;
    play.processes.writer(SUSPENDED).go_on()?;
    Ok(format!("writer {SUSPENDED} continues where it was suspended: SIGCONT"))
}
