//! Replicas that catch up from the journal of the map: one thread reads its files for all of them,
//! so that a slow disk delays nobody else.
//!
//! Each such replica has a *job*. The thread works for the jobs in turn, and puts the next changes
//! into the job's slot. The serving thread takes them from there when the replica has taken the
//! ones before. So there is at most one piece of each job in memory, and at most [`MOST`] jobs are
//! worked on at a time.

use crate::delivery::{Earlier, EarlierChanges};
use crate::journal::backlog::{Backlog, Part};
use commonhold::raw::limit_thread_patience;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Result, fault};
use commonhold_io::owned_threads::{JOIN_TIMEOUT, OwnedThreads};
use commonhold_io::sockets::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most jobs that the thread works on at a time. Others wait for their turn.
const MOST: usize = 64;
/// The most positions that are remembered as hopeless.
const MOST_HOPELESS: usize = 1024;
/// How long the thread waits for a stopped process that changes the journal's notes.
const PATIENCE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Default)]
pub(crate) struct CatchUps {
    work: Mutex<Work>,
    changed: Condvar,
    threads: Mutex<OwnedThreads>,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    /// Where the journal did not help: the next attempt there begins with the whole map.
    hopeless: VecDeque<StreamPosition>,
    /// Replicas that have caught up.
    caught_up: u64,
    /// Why there is no thread, once there is none.
    over: Option<String>,
}

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
    at: StreamPosition,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CatchUps {
    /// Whether a journal did not help a replica at this position before.
    pub(crate) fn is_hopeless(&self, at: StreamPosition) -> bool {
        lock(&self.work).hopeless.contains(&at)
    }

    /// The number of replicas that have caught up.
    pub(crate) fn caught_up(&self) -> u64 {
        lock(&self.work).caught_up
    }

    /// Begins to read changes for a replica at a position.
    ///
    /// # Errors
    /// `Io` if there is no thread for that.
    pub(crate) fn begin(
        self: &Arc<Self>,
        backlog: Backlog,
        at: StreamPosition,
        waker: Waker,
    ) -> Result<impl EarlierChanges + use<>> {
        self.ensure_thread()?;
        let slot = Arc::new(Mutex::new(Slot::Empty));
        lock(&self.work).jobs.push_back(Job { backlog, slot: Arc::clone(&slot), waker });
        self.notify();
        Ok(Changes { catch_ups: Arc::clone(self), slot, at })
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

    /// Ends the thread. If a file does not answer, it ends later.
    pub(crate) fn end(&self) {
        self.close("the origin ends");
        lock(&self.threads).join_for(JOIN_TIMEOUT);
    }

    fn close(&self, why: &str) {
        let mut work = lock(&self.work);
        work.over.get_or_insert_with(|| why.to_owned());
        work.jobs.drain(..).for_each(|job| job.waker.wake());
        drop(work);
        self.changed.notify_all();
    }

    fn run(&self) {
        let _ending = Ending(self);
        limit_thread_patience(PATIENCE);
        while let Some(mut job) = self.next_job() {
            let next = loop {
                // A job that has found nothing yet goes on, unless others wait.
                match job.backlog.next() {
                    Ok(Part::Nothing) if !self.is_wanted_elsewhere(&job) => {}
                    next => break next,
                }
            };
            self.put(job, next);
        }
    }

    /// True if other jobs have to be worked on, or this one no longer.
    fn is_wanted_elsewhere(&self, job: &Job) -> bool {
        let work = lock(&self.work);
        work.over.is_some() || !work.jobs.is_empty() || matches!(*lock(&job.slot), Slot::Given)
    }

    /// Waits for a job whose slot is empty, and takes it out; `None` when all is over.
    fn next_job(&self) -> Option<Job> {
        let mut work = lock(&self.work);
        loop {
            if work.over.is_some() {
                return None;
            }
            work.jobs.retain(|job| !matches!(*lock(&job.slot), Slot::Given));
            let is_empty = |job: &Job| matches!(*lock(&job.slot), Slot::Empty);
            if let Some(found) = work.jobs.iter().take(MOST).position(is_empty) {
                return work.jobs.remove(found);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
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
        *there = slot;
        drop(there);
        job.waker.wake();
        if stays {
            lock(&self.work).jobs.push_back(job);
        }
    }

    /// Wakes the thread, which either waits already or has not looked at the slots yet.
    fn notify(&self) {
        drop(lock(&self.work));
        self.changed.notify_one();
    }

    fn note_hopeless(&self, at: StreamPosition) {
        let mut work = lock(&self.work);
        if work.hopeless.len() >= MOST_HOPELESS {
            work.hopeless.pop_front();
        }
        work.hopeless.push_back(at);
    }
}

impl EarlierChanges for Changes {
    fn next(&mut self) -> Result<Earlier> {
        let taken = std::mem::replace(&mut *lock(&self.slot), Slot::Empty);
        match taken {
            Slot::Full(part) => {
                match part {
                    Earlier::Changes(_, end) => self.at.offset = end,
                    _ => lock(&self.catch_ups.work).caught_up += 1,
                }
                self.catch_ups.notify();
                Ok(part)
            }
            Slot::Failed(error) => {
                self.catch_ups.note_hopeless(self.at);
                Err(error)
            }
            Slot::Empty | Slot::Given => match &lock(&self.catch_ups.work).over {
                Some(why) => Err(Error::new(ErrorKind::Io, why.clone())),
                None => Ok(Earlier::Later),
            },
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        *lock(&self.slot) = Slot::Given;
        self.catch_ups.notify();
    }
}

/// Ends all jobs with the thread, also if it panics.
struct Ending<'a>(&'a CatchUps);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close("the thread that reads the journal has ended");
    }
}
