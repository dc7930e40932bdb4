//! The schedule: the times at which processes are stopped and killed, and the output meanwhile.
//!
//! | share of the time | what happens |
//! |---|---|
//! | 0.30 | writer 2 is stopped (SIGSTOP) |
//! | 0.45 | writer 3 is killed (SIGKILL), while writer 2 is stopped |
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

/// The writer that is stopped for a while.
pub const STOPPED: u32 = 2;
/// The writer that is killed.
pub const KILLED: u32 = 3;
/// The writer that is neither stopped nor killed.
pub const SPARED: u32 = 1;

/// How often the reports of the processes are read.
const TICK: Duration = Duration::from_millis(100);

/// Readers without a report for this long count as hung.
const SILENCE_SECONDS: f64 = 60.0;

type Act = fn(&mut Play) -> Result<String>;

const ACTS: [(f64, Act); 3] = [(0.30, stop), (0.45, kill), (0.60, go_on)];

/// The findings about the writers.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// How long the stopped writer was stopped, in nanoseconds.
    pub stopped_ns: u64,
    /// Edits that the spared writer made in that time.
    pub spared_edits: u64,
    /// How long the spared writer had made no edit when that time was over.
    pub spared_waited_ns: u64,
}

/// The show while it is on.
pub struct Play<'a> {
    board: &'a Board,
    processes: &'a mut Processes,
    outcome: Outcome,
    part: Part,
    stopped_at_ns: u64,
    spared_at_stop: u64,
    spared_last: (u64, u64),
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
        play.watch_the_spared();
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
            stopped_at_ns: 0,
            spared_at_stop: 0,
            spared_last: (0, 0),
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

    /// Records since when the spared writer has made no edit: it waits if it needs a segment in
    /// which the stopped one was writing.
    fn watch_the_spared(&mut self) {
        let done = self.processes.writer(SPARED).done;
        if done != self.spared_last.0 {
            self.spared_last = (done, clock::now_ns());
        }
    }

    fn end(mut self) -> Result<Outcome> {
        self.processes.listen(self.board)?;
        self.begin_part(Part::Over)?;
        self.processes.finish()?;
        Ok(self.outcome)
    }
}

fn stop(play: &mut Play) -> Result<String> {
    play.processes.listen(play.board)?;
    play.spared_at_stop = play.processes.writer(SPARED).done;
    let writer = play.processes.writer(STOPPED);
    writer.stop()?;
    let pid = writer.worker.pid();
    play.stopped_at_ns = clock::now_ns();
    play.begin_part(Part::During)?;
    Ok(format!("writer {STOPPED} (pid {pid}) is stopped in the middle of its work: SIGSTOP"))
}

fn kill(play: &mut Play) -> Result<String> {
    let writer = play.processes.writer(KILLED);
    writer.kill()?;
    let pid = writer.worker.pid();
    Ok(format!("writer {KILLED} (pid {pid}) is killed in the middle of its work: SIGKILL"))
}

fn go_on(play: &mut Play) -> Result<String> {
    play.processes.listen(play.board)?;
    play.watch_the_spared();
    // Only a wait that the stop may have caused: one that lasted until the end of the stop.
    let since_ns = play.spared_last.1.max(play.stopped_at_ns);
    play.outcome.spared_waited_ns = clock::now_ns().saturating_sub(since_ns);
    play.outcome.spared_edits = play.processes.writer(SPARED).done - play.spared_at_stop;
    play.outcome.stopped_ns = clock::now_ns() - play.stopped_at_ns;
    play.begin_part(Part::After)?;
    play.processes.writer(STOPPED).go_on()?;
    Ok(format!("writer {STOPPED} continues where it stopped: SIGCONT"))
}
