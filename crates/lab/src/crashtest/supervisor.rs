//! The supervisor: it kills and stops processes at random instants, and between rounds compares
//! everything while no process works.
//!
//! Instants are drawn on a logarithmic scale from a fraction of a process's start to tens of
//! milliseconds, so that processes die while they open the hold, claim their slot, recover after
//! their predecessor, or work, and recovering processes die like all others.

use super::audit;
use super::crew::{Crew, Member, PATIENCE, Paths};
use super::faults;
use super::plan::{GROWING, Ledger, Maps, grown};
use super::report::Report;
use crate::workload::{Result, RunError, clock::now_ns, random::log_uniform};
use commonhold::Hold;
use commonhold_terminal::interrupt::Interrupt;
use std::time::{Duration, Instant};

/// Pauses between two kills or suspensions, in microseconds.
const PAUSE_US: std::ops::Range<u64> = 50..40_000;
/// How long a process is stopped at most, in microseconds.
const STILL_US: std::ops::Range<u64> = 20..8_000;
/// How long a process is stopped, in microseconds, while another one dies and the others' patience
/// ends.
const LONG_US: std::ops::Range<u64> = 1_000..400_000;
/// How long calls fail, in microseconds.
const FAULT_US: std::ops::Range<u64> = 500..60_000;
/// Reads that every reader must finish while a writer is stopped.
const READS: u64 = 20;
/// The length of a round, unless the whole test is shorter.
const ROUND: Duration = Duration::from_secs(4);

/// The options of the test.
pub struct Settings {
    /// Seconds in all.
    pub seconds: f64,
    /// Writing processes.
    pub writers: u32,
    /// Reading processes.
    pub readers: u32,
}

/// The supervisor and what it watches over.
pub struct Supervisor<'a> {
    /// The shared hold.
    pub hold: &'a Hold,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Where everything is.
    pub paths: Paths<'a>,
    /// The counts so far.
    pub report: &'a mut Report,
    /// Whether the run must end early.
    pub interrupt: &'a Interrupt,
    rng: fastrand::Rng,
    /// Calls that failed at named faults.
    failed_before: u64,
}

impl<'a> Supervisor<'a> {
    /// A supervisor whose choices come from `seed`.
    pub fn new(
        hold: &'a Hold,
        paths: Paths<'a>,
        report: &'a mut Report,
        interrupt: &'a Interrupt,
        seed: u64,
    ) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let failed_before = report.failures;
        Supervisor { hold, ledger: paths.ledger, paths, report, interrupt, rng, failed_before }
    }

    /// Runs rounds until the time is up; calls `after_round` after each.
    pub fn run(
        &mut self,
        settings: &Settings,
        after_round: &mut dyn FnMut(&Report) -> Result<()>,
    ) -> Result<()> {
        let end = Instant::now() + Duration::from_secs_f64(settings.seconds);
        while Instant::now() < end && !self.interrupt.came() {
            let left = end.saturating_duration_since(Instant::now());
            self.round(settings, left.min(ROUND))?;
            after_round(self.report)?;
        }
        Ok(())
    }

    fn round(&mut self, settings: &Settings, time: Duration) -> Result<()> {
        self.grow_from_empty()?;
        self.ledger.set_over(false)?;
        let Settings { writers, readers, .. } = *settings;
        let seed = self.rng.u64(..1 << 40);
        let mut crew = Crew::start(self.paths, writers, readers, seed, self.report)?;
        let end = Instant::now() + time;
        while Instant::now() < end && !self.interrupt.came() {
            let pause = log_uniform(&mut self.rng, PAUSE_US);
            std::thread::sleep(Duration::from_micros(pause));
            self.strike(&mut crew)?;
            crew.look_after(self.ledger)?;
        }
        if self.rng.u8(..3) == 0 {
            self.report.kills += crew.massacre()?;
            self.report.massacres += 1;
        } else {
            self.ledger.set_over(true)?;
            crew.finish()?;
        }
        audit::audit(self)?;
        self.report.failures = self.failed_before + self.ledger.failures()?;
        self.report.rounds += 1;
        Ok(())
    }

    /// Growing maps start empty, so that every round splits and doubles from the start.
    fn grow_from_empty(&mut self) -> Result<()> {
        for (which, name) in GROWING.into_iter().enumerate() {
            self.hold.maps().drop(name)?;
            for lane in 0..self.ledger.lanes() {
                self.ledger.set_head(lane, grown(which), 0)?;
            }
        }
        Maps::create(self.hold).map(drop)
    }

    /// Kills a process, or stops one for a while and perhaps kills it then.
    fn strike(&mut self, crew: &mut Crew) -> Result<()> {
        if self.paths.faults && self.rng.u8(..3) == 0 {
            return self.let_fail(crew);
        }
        self.strike_one(crew)
    }

    /// Makes calls fail for a while: no room in the hold, no descriptors for one process, or a lock
    /// that its owner keeps because it is stopped; meanwhile another process may be killed or
    /// stopped.
    fn let_fail(&mut self, crew: &mut Crew) -> Result<()> {
        let victim = self.rng.usize(..crew.members.len());
        match self.rng.u8(..8) {
            0 => {
                let time = log_uniform(&mut self.rng, FAULT_US);
                self.report.without_room += 1;
                let hold = self.hold;
                faults::without_room(hold, || {
                    std::thread::sleep(Duration::from_micros(time));
                    self.strike_one(crew)
                })
            }
            // A starting process needs descriptors for untested parts, such as the ledger.
            1..=4 if self.is_at_work(&crew.members[victim])? => {
                self.report.without_descriptors += 1;
                faults::limit_descriptors(&crew.members[victim].worker, true)?;
                let time = log_uniform(&mut self.rng, FAULT_US);
                std::thread::sleep(Duration::from_micros(time));
                self.strike_one(crew)?;
                // Another process may be there by now, which has the usual limit.
                faults::limit_descriptors(&crew.members[victim].worker, false)
            }
            _ => self.stop_for_long(crew, victim),
        }
    }

    /// Stops a process for longer than the others wait; perhaps another one dies.
    fn stop_for_long(&mut self, crew: &mut Crew, victim: usize) -> Result<()> {
        self.stop(crew, victim)?;
        let other = self.rng.usize(..crew.members.len());
        if other != victim {
            crew.replace(other, self.report)?;
        }
        let time = log_uniform(&mut self.rng, LONG_US);
        std::thread::sleep(Duration::from_micros(time));
        if !crew.members[victim].is_reader() {
            self.watch_readers(crew)?;
        }
        self.report.long_suspensions += 1;
        crew.members[victim].worker.go_on()
    }

    fn strike_one(&mut self, crew: &mut Crew) -> Result<()> {
        let victim = self.rng.usize(..crew.members.len());
        match self.rng.u8(..20) {
            0..=10 => crew.replace(victim, self.report),
            11..=15 => {
                self.stop(crew, victim)?;
                crew.members[victim].worker.go_on()
            }
            _ => {
                self.stop(crew, victim)?;
                crew.replace(victim, self.report)
            }
        }
    }

    fn stop(&mut self, crew: &mut Crew, victim: usize) -> Result<()> {
        if !crew.members[victim].worker.stop()? {
            return crew.look_after(self.ledger);
        }
        self.report.suspensions += 1;
        if crew.members[victim].is_reader() {
            let still = log_uniform(&mut self.rng, STILL_US);
            std::thread::sleep(Duration::from_micros(still));
            return Ok(());
        }
        self.watch_readers(crew)
    }

    fn is_at_work(&self, member: &Member) -> Result<bool> {
        Ok(self.ledger.ready(member.order.place)? == u64::from(member.worker.pid()))
    }

    /// Waits until each reader that was at work has finished some reads: a stopped writer, wherever
    /// it stopped, must not delay them.
    fn watch_readers(&mut self, crew: &mut Crew) -> Result<()> {
        let mut waited_for = Vec::new();
        for member in crew.members.iter().filter(|m| m.is_reader()) {
            let place = member.order.place;
            if self.is_at_work(member)? {
                waited_for.push((place, self.ledger.progress(place, 0)?));
            }
        }
        let deadline_ns = now_ns() + PATIENCE.as_nanos() as u64;
        while let Some((place, begin)) = waited_for.last().copied() {
            if self.ledger.progress(place, 0)? >= begin + READS {
                waited_for.pop();
            } else if now_ns() > deadline_ns {
                return Err(RunError::new(format!(
                    "the reader at place {place} makes no progress while a writer is suspended"
                )));
            } else {
                // A reader that found an error has ended: report that instead.
                crew.members[place as usize].listen()?;
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        self.report.readers_got_on += 1;
        Ok(())
    }
}
