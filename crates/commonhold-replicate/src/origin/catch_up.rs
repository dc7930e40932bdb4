//! Replicas that catch up from the journal of the map: one thread reads its files for all of them,
//! so that a slow disk delays nobody else.
//!
//! Each such replica has a *job*. The thread works for the jobs in turn, and puts the next changes
//! into the job's slot. The serving thread takes them from there when the replica has taken the
//! ones before. So there is at most one piece of each job in memory.
//!
//! A full sync needs no journal, so it is the answer to every difficulty: there are at most
//! [`MOST`] jobs, other replicas get the whole map at once; a job whose files have no changes, or
//! do not answer in time, fails, and its replica gets the whole map when it connects again
//! ([`Hopeless`]).

use crate::delivery::{Earlier, EarlierChanges};
use crate::journal::backlog::{Backlog, Part};
use crate::origin::limits::FREE_BYTES;
use commonhold::raw::{Proof, limit_thread_patience};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Result, fault};
use commonhold_io::owned_threads::OwnedThreads;
use commonhold_io::sockets::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most jobs.
const MOST: usize = 64;
/// How long a replica waits for the next changes, and how long it begins with the whole map after
/// the journal did not help.
const LONGEST: Duration = Duration::from_secs(60);
/// A thread that has been reading for this long gets no more jobs.
const STUCK: Duration = Duration::from_secs(5);
/// The most failures that are remembered. As long as there are that many, nobody catches up.
const MOST_HOPELESS: usize = 4096;
/// How long the thread waits for a stopped process that changes the journal's notes.
const PATIENCE: Duration = Duration::from_millis(100);

/// A position, and the change that ends there, as a replica states them.
pub(super) type Place = (StreamPosition, Proof);

/// See the module.
#[derive(Default)]
pub(crate) struct CatchUps {
    work: Mutex<Work>,
    changed: Condvar,
    threads: Mutex<OwnedThreads>,
}

#[derive(Default)]
struct Work {
    /// Those that wait for the thread.
    jobs: VecDeque<Job>,
    /// Replicas with a job.
    active: usize,
    /// Since when the thread has been reading for one of them.
    reading: Option<Instant>,
    hopeless: Hopeless,
    /// Replicas that have caught up.
    caught_up: u64,
    /// Why there is no thread, once there is none.
    over: Option<&'static str>,
}

/// Where the journal did not help, and when.
#[derive(Default)]
struct Hopeless(VecDeque<(Place, Instant)>);

struct Job {
    backlog: Backlog,
    slot: Arc<Mutex<Slot>>,
    /// That of the serving thread.
    waker: Waker,
}

/// The next part for a replica.
#[derive(Debug)]
enum Slot {
    Empty,
    Full(Earlier),
    Failed(Error),
    /// Nobody wants it.
    Given,
}

/// The changes for one replica.
struct Changes {
    catch_ups: Arc<CatchUps>,
    slot: Arc<Mutex<Slot>>,
    begin: Place,
    /// When the last part came.
    progress: Instant,
    has_any: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hopeless {
    fn add(&mut self, place: Place, now: Instant) {
        self.forget_old(now);
        if self.0.len() < MOST_HOPELESS && !self.has(place) {
            self.0.push_back((place, now));
        }
    }

    fn has(&self, place: Place) -> bool {
        self.0.len() >= MOST_HOPELESS || self.0.iter().any(|(one, _)| *one == place)
    }

    fn forget_old(&mut self, now: Instant) {
        while self.0.front().is_some_and(|(_, since)| now.duration_since(*since) > LONGEST) {
            self.0.pop_front();
        }
    }
}

impl CatchUps {
    /// Whether a replica at this place may catch up.
    pub(super) fn has_place_for(&self, place: Place) -> bool {
        let (mut work, now) = (lock(&self.work), Instant::now());
        work.hopeless.forget_old(now);
        let is_stuck = work.reading.is_some_and(|since| now.duration_since(since) > STUCK);
        work.active < MOST && work.over.is_none() && !is_stuck && !work.hopeless.has(place)
    }

    /// The number of replicas that have caught up.
    pub(crate) fn caught_up(&self) -> u64 {
        lock(&self.work).caught_up
    }

    /// Begins to read changes for a replica at a place.
    ///
    /// # Errors
    /// `Io` if there is no thread for that.
    pub(super) fn begin(
        self: &Arc<Self>,
        backlog: Backlog,
        place: Place,
        waker: Waker,
    ) -> Result<impl EarlierChanges + use<>> {
        self.ensure_thread()?;
        let slot = Arc::new(Mutex::new(Slot::Empty));
        let mut work = lock(&self.work);
        work.active += 1;
        work.jobs.push_back(Job { backlog, slot: Arc::clone(&slot), waker });
        drop(work);
        self.changed.notify_one();
        let (catch_ups, progress) = (Arc::clone(self), Instant::now());
        Ok(Changes { catch_ups, slot, begin: place, progress, has_any: false })
    }

    fn ensure_thread(self: &Arc<Self>) -> Result<()> {
        let mut threads = lock(&self.threads);
        if !threads.is_empty() {
            return Ok(());
        }
        let this = Arc::clone(self);
        let named = std::thread::Builder::new().name("origin journal".into());
        let thread = fault!("origin.journal-thread")
            .and_then(|()| named.spawn(move || this.run()))
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        threads.push(thread);
        Ok(())
    }

    /// Ends the thread, and waits for it at most for `time`. If a file does not answer, it ends
    /// later.
    pub(crate) fn end(&self, time: Duration) {
        self.close("the origin ends");
        lock(&self.threads).join_for(time);
    }

    fn close(&self, why: &'static str) {
        let mut work = lock(&self.work);
        work.over.get_or_insert(why);
        let jobs = std::mem::take(&mut work.jobs);
        drop(work);
        self.changed.notify_all();
        // Closing a file may take long.
        jobs.into_iter().for_each(|job| job.waker.wake());
    }

    fn run(&self) {
        let _ending = Ending(self);
        limit_thread_patience(PATIENCE);
        while let Some(mut job) = self.next_job() {
            let next = job.backlog.next();
            self.put(job, next);
        }
    }

    /// Waits for a job whose slot is empty, and takes it out; `None` when all is over.
    fn next_job(&self) -> Option<Job> {
        let mut unwanted = Vec::new();
        let mut work = lock(&self.work);
        work.reading = None;
        loop {
            if work.over.is_some() {
                return None;
            }
            for _ in 0..work.jobs.len() {
                let Some(job) = work.jobs.pop_front() else { break };
                let (is_empty, is_given) = match *lock(&job.slot) {
                    Slot::Empty => (true, false),
                    Slot::Given => (false, true),
                    _ => (false, false),
                };
                match (is_empty, is_given) {
                    (true, _) => {
                        work.reading = Some(Instant::now());
                        drop(work);
                        return Some(job);
                    }
                    (_, true) => unwanted.push(job),
                    _ => work.jobs.push_back(job),
                }
            }
            if unwanted.is_empty() {
                work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
            } else {
                // Closing a file may take long.
                drop(work);
                unwanted.clear();
                work = lock(&self.work);
            }
        }
    }

    /// Puts a part into the slot of its job, which stays if there will be more.
    fn put(&self, job: Job, next: Result<Part>) {
        let (slot, stays) = match next {
            Ok(Part::Nothing) => (Slot::Empty, true),
            Ok(Part::Changes(frames, end)) => (Slot::Full(Earlier::Changes(frames, end)), true),
            Ok(Part::InStream) => (Slot::Full(Earlier::InStream), false),
            Err(error) => (Slot::Failed(error), false),
        };
        let mut there = lock(&job.slot);
        if matches!(*there, Slot::Given) {
            return;
        }
        let wakes = !matches!(slot, Slot::Empty);
        *there = slot;
        drop(there);
        if wakes {
            job.waker.wake();
        }
        let mut work = lock(&self.work);
        if stays && work.over.is_none() {
            work.jobs.push_back(job);
        }
    }

    /// Wakes the thread, which either waits already or has not looked at the slots yet.
    fn notify(&self) {
        drop(lock(&self.work));
        self.changed.notify_one();
    }
}

impl Changes {
    /// The replica has to begin with the whole map.
    fn failed(&self, error: Error) -> Result<Earlier> {
        // After some changes, it may continue from where it is.
        if !self.has_any {
            lock(&self.catch_ups.work).hopeless.add(self.begin, Instant::now());
        }
        Err(error)
    }

    fn waits(&self) -> Result<Earlier> {
        let over = lock(&self.catch_ups.work).over;
        if over.is_none() && self.progress.elapsed() <= LONGEST {
            return Ok(Earlier::Later);
        }
        let seconds = LONGEST.as_secs();
        let late = format!("the journal's files were not read within {seconds} s");
        self.failed(Error::new(ErrorKind::TimedOut, over.map_or(late, str::to_owned)))
    }
}

impl EarlierChanges for Changes {
    fn next(&mut self, has_room: bool) -> Result<Earlier> {
        let mut slot = lock(&self.slot);
        let has_part = match &*slot {
            Slot::Full(Earlier::Changes(frames, _)) => has_room || frames.len() <= FREE_BYTES,
            Slot::Full(_) | Slot::Failed(_) => true,
            Slot::Empty | Slot::Given => false,
        };
        let taken = if has_part { std::mem::replace(&mut *slot, Slot::Empty) } else { Slot::Empty };
        let waits_for_room = matches!(*slot, Slot::Full(_));
        drop(slot);
        match taken {
            Slot::Full(part) => {
                (self.progress, self.has_any) = (Instant::now(), true);
                if matches!(part, Earlier::InStream) {
                    lock(&self.catch_ups.work).caught_up += 1;
                }
                self.catch_ups.notify();
                Ok(part)
            }
            Slot::Failed(error) => self.failed(error),
            Slot::Empty | Slot::Given if waits_for_room => Ok(Earlier::Later),
            Slot::Empty | Slot::Given => self.waits(),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // The part that nobody took may be large.
        drop(std::mem::replace(&mut *lock(&self.slot), Slot::Given));
        lock(&self.catch_ups.work).active -= 1;
        self.catch_ups.changed.notify_one();
    }
}

/// Ends all jobs with the thread, also if it panics.
struct Ending<'a>(&'a CatchUps);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close("the thread that reads the journal has ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_remembered_for_a_while() {
        let (mut hopeless, now) = (Hopeless::default(), Instant::now());
        let place = |offset| {
            let at = StreamPosition { stream: 7, offset };
            (at, Proof { bytes: 48, sum: 9 })
        };
        hopeless.add(place(8), now);
        assert!(hopeless.has(place(8)) && !hopeless.has(place(16)));
        let other = (place(8).0, Proof { bytes: 48, sum: 10 });
        assert!(!hopeless.has(other), "another replica's claim");
        hopeless.forget_old(now + LONGEST);
        assert!(hopeless.has(place(8)));
        (0..2 * MOST_HOPELESS as u64).for_each(|number| hopeless.add(place(8 * number), now));
        assert_eq!(hopeless.0.len(), MOST_HOPELESS);
        assert!(hopeless.has(other), "while there are that many, nobody catches up");
        hopeless.forget_old(now + LONGEST + Duration::from_secs(1));
        assert!(hopeless.0.is_empty() && !hopeless.has(place(8)));
    }
}
