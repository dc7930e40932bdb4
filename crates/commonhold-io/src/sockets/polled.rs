//! Drivers over epoll: readiness, turns, completions. [`Calls`] decides which threads make the
//! calls.
//!
//! Each socket is registered once, edge-triggered, for both directions. A side of it is *ready*
//! until a call reports that it would have to wait, and again when epoll reports an event. It is
//! *due* if it is ready and has an operation. In each round of `wait`, all due sides have their
//! turn: one call each. Sides that are still due then are in the next round, behind the events of
//! all others.
//!
//! Invariant: no edge is lost. Readiness is cleared before the call, so an edge that comes during
//! the call, in any thread, sets it again. A call that moved fewer bytes than it could have has met
//! the limit, and the next edge is still to come. The exception is the end of a stream, which has
//! one edge only.
//!
//! `wait` sleeps whenever no side is due. Level-triggered are only the waker and the waker of the
//! calls; both are cleared on sight.

use super::calls::{Job, Work, is_passed_over};
use super::deadline::Deadline;
use super::driver::{Done, Driver, SocketId};
use super::outgoing::Outgoing;
use super::table::{Operation, Socket, Table, failed, reset};
use super::waker::Waker;
use crate::fault_errno::errno;
use commonhold::fault;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

const WAKER: EventData = EventData::new_u64(u64::MAX);
const BELL: EventData = EventData::new_u64(u64::MAX - 1);
/// The number of events taken from the kernel at once; the others keep their place in its queue.
const EVENTS: usize = 1024;

/// The threads that make the system calls.
pub trait Calls<P> {
    /// Starts all jobs: does them at once and leaves them in `jobs`, or takes them for other
    /// threads.
    fn start(&mut self, jobs: &mut Vec<Job<P>>);

    /// Appends the jobs that other threads have done since the last call.
    fn finished(&mut self, jobs: &mut Vec<Job<P>>);

    /// The waker that other threads use when they have done jobs.
    fn waker(&self) -> Option<&Waker>;
}

/// A driver over epoll, used as [`Epoll`](super::Epoll) and [`Pool`](super::Pool).
pub struct Polled<P, C> {
    /// The first field: its threads have ended before a descriptor is closed.
    calls: C,
    table: Table<P>,
    poll: OwnedFd,
    waker: Waker,
    /// The due sides.
    turn: Vec<(SocketId, Operation)>,
    events: Vec<Event>,
    jobs: Vec<Job<P>>,
}

impl<P: Outgoing, C: Calls<P>> Polled<P, C> {
    pub(super) fn with(calls: C) -> io::Result<Polled<P, C>> {
        fault!("event.epoll-create")?;
        let (poll, waker) = (epoll::create(CreateFlags::CLOEXEC)?, Waker::new()?);
        fault!("event.epoll-add")?;
        epoll::add(&poll, &waker, WAKER, EventFlags::IN)?;
        if let Some(waker) = calls.waker() {
            epoll::add(&poll, waker, BELL, EventFlags::IN)?;
        }
        let (table, events) = (Table::default(), Vec::with_capacity(EVENTS));
        Ok(Polled { calls, table, poll, waker, turn: Vec::new(), events, jobs: Vec::new() })
    }

    /// Puts the side into the next turn if it is due.
    fn queue(&mut self, id: SocketId, operation: Operation) {
        let Some(socket) = self.table.open(id) else { return };
        let due = match operation {
            Operation::Accept => socket.accept.queue(),
            Operation::Receive => socket.receive.queue(),
            Operation::Send => socket.send.queue(),
        };
        if due {
            self.turn.push((id, operation));
        }
    }

    /// Takes epoll's events, after at most `timeout`.
    fn poll(&mut self, timeout: Option<Duration>, done: &mut Vec<Done<P>>) -> io::Result<()> {
        // A time too long for the kernel waits without limit.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        let waited = errno(fault!("event.epoll-wait")).and_then(|()| {
            epoll::wait(&self.poll, spare_capacity(&mut self.events), timeout.as_ref())
        });
        match waited {
            // A signal: the caller looks at the clock and calls again.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for at in 0..self.events.len() {
            let Event { flags, data } = self.events[at];
            if data == WAKER {
                self.waker.clear();
                done.push(Done::Woken);
            } else if data == BELL {
                self.calls.waker().inspect(|waker| waker.clear());
            } else {
                self.note(SocketId::from_bits(data.u64()), flags);
            }
        }
        Ok(())
    }

    /// Notes a socket's readiness.
    fn note(&mut self, id: SocketId, flags: EventFlags) {
        let Some(socket) = self.table.open(id) else { return };
        let over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        socket.ended |= over;
        if over || flags.contains(EventFlags::IN) {
            (socket.receive.ready, socket.accept.ready) = (true, true);
        }
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            socket.send.ready = true;
        }
        for operation in [Operation::Accept, Operation::Receive, Operation::Send] {
            self.queue(id, operation);
        }
    }

    /// Gives all due sides their turn.
    fn start(&mut self) {
        for (id, operation) in self.turn.drain(..) {
            // A side that was shut or paused meanwhile has nothing to do.
            let Some(socket) = self.table.open(id) else { continue };
            if let Some(work) = start(socket, operation) {
                self.jobs.push(Job::new(id, socket.fd.as_raw_fd(), work));
            }
        }
        if !self.jobs.is_empty() {
            self.calls.start(&mut self.jobs);
        }
    }

    /// Takes the results of the jobs that are done.
    fn complete(&mut self, done: &mut Vec<Done<P>>) {
        self.table.take_early(done);
        let mut jobs = mem::take(&mut self.jobs);
        self.calls.finished(&mut jobs);
        for job in jobs.drain(..) {
            let id = job.socket;
            // A socket with a job is in the table.
            let Some(socket) = self.table.get(id) else { continue };
            let operation = complete(socket, job, done);
            self.queue(id, operation);
            self.table.close_if_idle(id);
        }
        self.jobs = jobs;
    }
}

/// Takes the data of a call from the socket. `None` if there is nothing to do.
fn start<P>(socket: &mut Socket<P>, operation: Operation) -> Option<Work<P>> {
    match operation {
        Operation::Accept => {
            socket.accept.queued = false;
            socket.accept.given?;
            socket.accept.start();
            Some(Work::Accept(None))
        }
        Operation::Receive => {
            socket.receive.queued = false;
            let receive = socket.receive.given.take()?;
            socket.receive.start();
            Some(Work::Receive(receive))
        }
        Operation::Send => {
            socket.send.queued = false;
            let payload = socket.send.given.take()?;
            socket.send.start();
            Some(Work::Send(payload))
        }
    }
}

/// Takes the result of a job: it completes the operation, or the operation waits for readiness.
fn complete<P>(socket: &mut Socket<P>, job: Job<P>, done: &mut Vec<Done<P>>) -> Operation {
    let Job { socket: id, work, result, short, .. } = job;
    match work {
        Work::Accept(connection) => {
            complete_accept(socket, id, result.map(|_| connection), done);
            Operation::Accept
        }
        Work::Receive(receive) => {
            let more = !short || socket.ended;
            if let Some((receive, result)) = socket.receive.stop(receive, result, more, socket.shut)
            {
                let buffer = receive.into_buffer();
                done.push(Done::Received { socket: id, buffer, result });
            }
            Operation::Receive
        }
        Work::Send(payload) => {
            if let Some((payload, result)) = socket.send.stop(payload, result, !short, socket.shut)
            {
                socket.finish_if_due();
                done.push(Done::Sent { socket: id, payload, result });
            }
            Operation::Send
        }
    }
}

fn complete_accept<P>(
    socket: &mut Socket<P>,
    listener: SocketId,
    result: io::Result<Option<OwnedFd>>,
    done: &mut Vec<Done<P>>,
) {
    let side = &mut socket.accept;
    side.running = false;
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => {
            side.ready = true;
            if !is_passed_over(&error) && side.given.take().is_some() {
                done.push(Done::Accepted { listener, result: Err(error) });
            }
        }
        Ok(connection) => {
            side.ready = true;
            done.extend(connection.map(|fd| Done::Accepted { listener, result: Ok(fd) }));
        }
    }
    if socket.shut && side.given.take().is_some() {
        done.push(Done::Accepted { listener, result: Err(failed(libc::ECANCELED)) });
    }
}

impl<P: Outgoing, C: Calls<P>> Driver<P> for Polled<P, C> {
    fn add(&mut self, socket: OwnedFd) -> io::Result<SocketId> {
        let id = self.table.add(socket)?;
        let Some(socket) = self.table.open(id) else { return Err(failed(libc::EBADF)) };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(id.to_bits());
        let added = errno(fault!("event.epoll-add"))
            .and_then(|()| epoll::add(&self.poll, &socket.fd, data, interest));
        match added {
            Ok(()) => Ok(id),
            Err(error) => {
                self.table.release(id).inspect(reset);
                Err(error.into())
            }
        }
    }

    fn accept(&mut self, listener: SocketId) {
        if self.table.begin_accept(listener) {
            self.queue(listener, Operation::Accept);
        }
    }

    fn pause(&mut self, listener: SocketId) {
        if let Some(socket) = self.table.open(listener) {
            socket.accept.given = None;
        }
    }

    fn receive(&mut self, socket: SocketId, buffer: Vec<u8>, at_most: usize) {
        if self.table.begin_receive(socket, buffer, at_most) {
            self.queue(socket, Operation::Receive);
        }
    }

    fn send(&mut self, socket: SocketId, payload: P) {
        if self.table.begin_send(socket, payload) {
            self.queue(socket, Operation::Send);
        }
    }

    fn finish(&mut self, socket: SocketId) {
        self.table.finish(socket);
    }

    fn shut(&mut self, id: SocketId) {
        let Some(socket) = self.table.open(id) else { return };
        // Explicitly: a duplicate in another process would keep it registered. Deleting fails only
        // if it is not registered.
        let _ = epoll::delete(&self.poll, &socket.fd);
        socket.shut = true;
        self.table.cancel(id);
    }

    fn release(&mut self, socket: SocketId) -> Option<OwnedFd> {
        let fd = self.table.release(socket)?;
        let _ = epoll::delete(&self.poll, &fd);
        Some(fd)
    }

    fn descriptor(&mut self, socket: SocketId) -> Option<BorrowedFd<'_>> {
        self.table.open(socket).map(|socket| socket.fd.as_fd())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done<P>>) -> io::Result<()> {
        let (deadline, before) = (Deadline::after(timeout), done.len());
        loop {
            let due = !self.turn.is_empty() || self.table.has_early();
            self.poll(if due { Some(Duration::ZERO) } else { deadline.left() }, done)?;
            self.start();
            self.complete(done);
            if done.len() > before || deadline.has_passed() {
                return Ok(());
            }
        }
    }
}

impl<P, C: fmt::Debug> fmt::Debug for Polled<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Polled");
        text.field("calls", &self.calls).field("due", &self.turn.len()).finish_non_exhaustive()
    }
}
