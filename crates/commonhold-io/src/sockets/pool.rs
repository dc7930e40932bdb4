//! The driver in which one thread waits and others make the calls.
//!
//! It has two queues: new jobs for the threads, and done jobs on their way back. A thread takes its
//! share of the first at once, so that a batch costs it one lock. It wakes the waiting thread only
//! when it is the first to put something into the second.
//!
//! Invariant: while the second queue has jobs, the waker was used since the first of them came, or
//! is about to be.

use super::calls::Job;
use super::choose::Options;
use super::outgoing::Outgoing;
use super::polled::{Calls, Polled};
use super::waker::Waker;
use crate::owned_threads::OwnedThreads;
use commonhold::fault;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The largest number of jobs that a thread takes at once.
const SHARE: usize = 32;

/// Epoll, with threads that make the system calls on sockets.
pub type Pool<P> = Polled<P, Workers<P>>;

/// Threads that do jobs. When this is dropped, each thread ends after its current call. In a forked
/// child there are none.
pub struct Workers<P> {
    shared: Arc<Shared<P>>,
    threads: OwnedThreads,
}

struct Shared<P> {
    queue: Mutex<Queue<P>>,
    /// Signals that the queue has jobs, or that the threads must end.
    filled: Condvar,
    done: Mutex<Vec<Job<P>>>,
    waker: Waker,
    threads: usize,
}

struct Queue<P> {
    jobs: VecDeque<Job<P>>,
    over: bool,
}

impl<P: Outgoing> Pool<P> {
    /// A driver without sockets, on three descriptors, with its threads started.
    ///
    /// # Errors
    /// Those of `epoll_create`, `eventfd` and of starting threads: no descriptors, no memory, too
    /// many threads.
    pub fn new(options: &Options) -> io::Result<Pool<P>> {
        Polled::with(Workers::start(options.threads())?)
    }
}

impl<P: Outgoing> Workers<P> {
    fn start(threads: usize) -> io::Result<Workers<P>> {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), over: false });
        let (filled, done, waker) = (Condvar::new(), Mutex::default(), Waker::new()?);
        let shared = Arc::new(Shared { queue, filled, done, waker, threads });
        // If a thread does not start, dropping this ends the others.
        let mut workers = Workers { shared, threads: OwnedThreads::default() };
        for _ in 0..threads {
            let shared = Arc::clone(&workers.shared);
            let thread = thread::Builder::new().name("socket-calls".into());
            fault!("event.worker-thread")?;
            workers.threads.push(thread.spawn(move || work(&shared))?);
        }
        Ok(workers)
    }
}

/// The loop of a thread.
fn work<P: Outgoing>(shared: &Shared<P>) {
    let mut jobs = Vec::with_capacity(SHARE);
    while take(shared, &mut jobs) {
        jobs.iter_mut().for_each(Job::run);
        let mut done = locked(&shared.done);
        let first = done.is_empty();
        done.append(&mut jobs);
        drop(done);
        if first {
            shared.waker.wake();
        }
    }
}

/// Waits for jobs and takes this thread's share; `false` if the thread must end.
fn take<P>(shared: &Shared<P>, jobs: &mut Vec<Job<P>>) -> bool {
    let queue = locked(&shared.queue);
    let waited = shared.filled.wait_while(queue, |queue| queue.jobs.is_empty() && !queue.over);
    let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
    if queue.over {
        return false;
    }
    let share = (queue.jobs.len() / shared.threads).clamp(1, SHARE);
    jobs.extend(queue.jobs.drain(..share));
    true
}

/// The data under these locks is never half changed: a panic under one leaves it sound.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Outgoing> Calls<P> for Workers<P> {
    fn start(&mut self, jobs: &mut Vec<Job<P>>) {
        let awaited = jobs.len().min(self.threads.len());
        locked(&self.shared.queue).jobs.extend(jobs.drain(..));
        for _ in 0..awaited {
            self.shared.filled.notify_one();
        }
    }

    fn finished(&mut self, jobs: &mut Vec<Job<P>>) {
        jobs.append(&mut locked(&self.shared.done));
    }

    fn waker(&self) -> Option<&Waker> {
        Some(&self.shared.waker)
    }
}

impl<P> Drop for Workers<P> {
    fn drop(&mut self) {
        if self.threads.are_here() {
            locked(&self.shared.queue).over = true;
            self.shared.filled.notify_all();
            self.threads.join();
        }
    }
}

impl<P> fmt::Debug for Workers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}
