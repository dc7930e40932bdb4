//! A thread that sends requests: many connections, one event loop, every answer checked.
//!
//! A connection has room for as many requests as are pipelined. Room that is free takes the next
//! request that is due; room that is not free, or that sleeps, does not. So a closed loop has as
//! many requests in flight as there is room. At a rate the requests that find no room wait, and
//! their latency counts from their due time.

use super::ask::Requests;
use super::connection::{Around, Asked, Connection, Fault, News};
use super::load::Plan;
use super::pause::Pause;
use super::schedule::Schedule;
use super::target::Target;
use super::timer::Timer;
use crate::bench::timeline::Timeline;
use crate::workload::{
    Result, RunError,
    clock::{now_ns, spin_until},
};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes that are read at once.
const SCRATCH: usize = 256 << 10;
/// Events taken at once.
const EVENTS: usize = 256;
/// How often, at least, to check for overdue answers and for the end.
const LOOK_NS: u64 = 50_000_000;
/// The delay before a connection that the server had no room for is retried.
const RETRY_NS: u64 = 1_000_000;

/// The results of a thread.
pub struct Done {
    /// The answers over time, and their latencies.
    pub timeline: Timeline,
    /// Bytes of the bodies of counted answers.
    pub bytes: u64,
    /// Unknown ids among counted answers.
    pub unknown: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Kept connections that had to be opened again.
    pub reopened: u64,
    /// When the last answer came.
    pub last_ns: u64,
}

/// An action that becomes due at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Later {
    /// Room on a connection, after a sleep.
    Room(usize),
    /// Another attempt to connect.
    Attempt(usize),
}

/// The orders of a thread.
pub struct Job<'a> {
    /// Its number, from 0 on.
    pub number: u64,
    /// The job of all threads.
    pub plan: &'a Plan,
    /// The server.
    pub target: &'a Target,
    /// The requests.
    pub requests: &'a Requests,
    /// Set when all threads must end.
    pub stop: &'a AtomicBool,
}

/// One thread's connections and their requests.
pub struct Requestor<'a> {
    job: Job<'a>,
    start_ns: u64,
    poll: OwnedFd,
    timer: Timer,
    schedule: Schedule,
    pause: Option<Pause>,
    rng: fastrand::Rng,
    connections: Vec<Connection>,
    /// Connections with room, once for each request that there is room for.
    room: VecDeque<usize>,
    later: BinaryHeap<Reverse<(u64, Later)>>,
    on_their_way: u64,
    /// The time of the next check.
    look_ns: u64,
    done: Done,
}

impl<'a> Requestor<'a> {
    /// Ready to begin: all memory is there.
    pub fn new(job: Job<'a>) -> Result<Requestor<'a>> {
        let plan = job.plan;
        let poll = epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let timer = Timer::new(poll.as_fd())?;
        let new = |token| Connection::new(token, plan.asking.protocol);
        let connections: Vec<Connection> = (0..plan.connections).map(new).collect();
        let each = 0..connections.len();
        let room = each.flat_map(|number| std::iter::repeat_n(number, plan.pipeline)).collect();
        let done = Done {
            timeline: Timeline::new(plan.span),
            bytes: 0,
            unknown: 0,
            unsent: 0,
            reopened: 0,
            last_ns: 0,
        };
        Ok(Requestor {
            start_ns: 0,
            schedule: plan.schedule(job.number, 0),
            pause: plan.pause,
            rng: fastrand::Rng::with_seed(plan.seed(job.number)),
            later: BinaryHeap::new(),
            on_their_way: 0,
            look_ns: 0,
            poll,
            timer,
            connections,
            room,
            done,
            job,
        })
    }

    /// Runs the thread, from the common start on.
    pub fn run(mut self, start_ns: u64) -> Result<Done> {
        self.start_ns = start_ns;
        self.schedule = self.job.plan.schedule(self.job.number, start_ns);
        spin_until(start_ns);
        self.perform()?;
        self.done.unsent = self.schedule.unsent();
        self.done.reopened = self.connections.iter().map(|c| c.reopened).sum();
        Ok(self.done)
    }

    fn perform(&mut self) -> Result<()> {
        let (mut scratch, mut news) = (vec![0; SCRATCH], Vec::new());
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let now = now_ns();
            self.wake(now)?;
            self.ask()?;
            if self.on_their_way == 0 && self.schedule.is_over(now) {
                return Ok(());
            }
            if now >= self.look_ns {
                self.look(now)?;
            }
            if self.job.stop.load(Ordering::Relaxed) {
                // Relaxed: a lone flag that orders nothing else.
                return Err(RunError::Interrupted);
            }
            self.wait(now, &mut events)?;
            for event in events.drain(..) {
                self.handle(event, &mut scratch, &mut news)?;
            }
        }
    }

    /// Ends sleeps that are over.
    fn wake(&mut self, now: u64) -> Result<()> {
        while let Some(Reverse((instant, later))) = self.later.peek().copied() {
            if instant > now {
                break;
            }
            self.later.pop();
            match later {
                Later::Room(number) => self.room.push_back(number),
                Later::Attempt(number) => self.send(number)?,
            }
        }
        Ok(())
    }

    /// Sends what is due, as far as there is room.
    fn ask(&mut self) -> Result<()> {
        // All requests of one connection go out with one call.
        let mut last = None;
        loop {
            let now = now_ns();
            let Some(due_ns) = self.schedule.due(now) else { break };
            let Some(number) = self.room.pop_front() else { break };
            self.schedule.take();
            let request = self.job.requests.draw(&mut self.rng);
            let asked = Asked { request, due_ns, asked_ns: now };
            self.connections[number].ask(asked, self.job.requests.at(request));
            self.on_their_way += 1;
            if let Some(before) = last.replace(number).filter(|before| *before != number) {
                self.send(before)?;
            }
        }
        last.map_or(Ok(()), |number| self.send(number))
    }

    fn send(&mut self, number: usize) -> Result<()> {
        let around = around(&self.job, &self.poll);
        let sent = self.connections[number].send(around);
        sent.map_err(|what| self.job.error(&what))?;
        self.try_again(number);
        Ok(())
    }

    fn try_again(&mut self, number: usize) {
        if self.connections[number].is_stuck() {
            self.later.push(Reverse((now_ns() + RETRY_NS, Later::Attempt(number))));
        }
    }

    /// Waits for events, or until something is due.
    fn wait(&mut self, now: u64, events: &mut Vec<Event>) -> Result<()> {
        let sleeping = self.later.peek().map(|Reverse((instant, _))| *instant);
        let due = if self.room.is_empty() { None } else { self.schedule.instant(now) };
        let next = [sleeping, due].into_iter().flatten().min();
        if let Some(next) = next {
            self.timer.set(next)?;
        }
        let patience = Timespec { tv_sec: 0, tv_nsec: LOOK_NS as i64 };
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(RunError::new(format!("cannot wait for events: {error}"))),
        }
    }

    fn handle(&mut self, event: Event, scratch: &mut [u8], news: &mut Vec<News>) -> Result<()> {
        if event.data.u64() == Timer::TOKEN {
            return self.timer.clear();
        }
        let number = event.data.u64() as usize;
        let flags = { event.flags };
        let around = around(&self.job, &self.poll);
        let connection = &mut self.connections[number];
        let mut handled = Ok(());
        if flags.contains(EventFlags::OUT) {
            handled = connection.send(around);
        }
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if handled.is_ok() && flags.intersects(EventFlags::IN | ended) {
            handled = connection.receive(around, scratch, flags.intersects(ended), news);
        }
        handled.map_err(|what| self.job.error(&what))?;
        self.try_again(number);
        self.record(number, news);
        Ok(())
    }

    fn record(&mut self, number: usize, news: &mut Vec<News>) {
        let now = now_ns();
        for piece in news.drain(..) {
            match piece {
                News::Answered(asked, bytes) => self.answered(now, asked, bytes),
                News::Room => self.give_room(now, number),
            }
        }
    }

    fn answered(&mut self, now: u64, asked: Asked, bytes: u64) {
        let Job { plan, requests, .. } = &self.job;
        self.done.last_ns = now;
        let end_ns = plan.span.end_ns(self.start_ns);
        let Some(interval) = self.done.timeline.at(self.start_ns, now) else { return };
        interval.latencies.record(now - asked.due_ns);
        // Answers after the end were late, and do not count for this time.
        if now < end_ns {
            interval.count += 1;
            self.done.bytes += bytes;
            self.done.unknown += u64::from(requests.at(asked.request).content.is_none());
        }
    }

    fn give_room(&mut self, now: u64, number: usize) {
        self.on_their_way -= 1;
        match &self.pause {
            None => self.room.push_back(number),
            Some(pause) => {
                let instant = now + pause.draw(&mut self.rng);
                self.later.push(Reverse((instant, Later::Room(number))));
            }
        }
    }

    /// Looks for answers that take too long.
    fn look(&mut self, now: u64) -> Result<()> {
        self.look_ns = now + LOOK_NS;
        let timeout = self.job.plan.timeout;
        let since_ns = now.saturating_sub(timeout.as_nanos() as u64);
        let around = around(&self.job, &self.poll);
        let overdue = self.connections.iter().find_map(|c| c.overdue(around, since_ns));
        match overdue {
            None => Ok(()),
            Some(what) => {
                let long = humantime::format_duration(timeout);
                Err(self.job.error(&format!("{what} within {long} (--timeout)")))
            }
        }
    }
}

impl Job<'_> {
    fn error(&self, what: &Fault) -> RunError {
        RunError::new(format!("{}: {what}", self.plan.address))
    }
}

fn around<'a>(job: &Job<'a>, poll: &'a OwnedFd) -> Around<'a> {
    Around {
        target: job.target,
        poll: poll.as_fd(),
        requests: job.requests,
        keeps_alive: job.plan.asking.keeps_alive(),
    }
}
