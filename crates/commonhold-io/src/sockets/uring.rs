//! The driver over io_uring: the kernel waits and makes the calls.
//!
//! An operation is noted as a task. `wait` makes entries of all tasks and gives them to the kernel
//! with the same call that waits. A receive's buffer and a send's payload stay in the table
//! meanwhile.
//!
//! Invariant: a side is `running` from its task until its last completion, and its data stays where
//! it is for that time: also when the socket was shut, for the kernel answers a cancelled operation
//! too. Dropping waits for all of them.
//!
//! Tasks are carried out in order. So a cancellation finds the operations before it, and because
//! the descriptor stays open until the cancellation has completed, it finds nothing else.
//!
//! # Safety
//! Lending the kernel a buffer and a payload is unsafe, and so is trusting its count of received
//! bytes; the invariant is the reason why both are sound.
//! invariant is the reason.
#![allow(unsafe_code)]

use super::calls::{flags, is_passed_over, send_file};
use super::choose::Options;
use super::deadline::Deadline;
use super::driver::{Done, Driver, SocketId};
use super::outgoing::Outgoing;
use super::ring::{Completion, Ring, Task};
use super::table::{Socket, Table, failed};
use super::waker::Waker;
use commonhold::raw::process_number;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// io_uring, one call per turn. It stays in the thread that made it: the kernel takes entries from
/// no other thread. A forked child shares the queues and must not use it; dropping it there closes
/// the child's copies of the descriptors and nothing else.
pub struct Uring<P: Outgoing> {
    ring: Ring,
    table: Table<P>,
    waker: Waker,
    /// The tasks that will become entries, in order.
    tasks: VecDeque<Task>,
    completions: Vec<Completion>,
    /// The error of listening to the waker, until `wait` returns it: it would come again at once.
    deaf: Option<io::Error>,
    /// The process that owns the operations.
    process: u32,
}

impl<P: Outgoing> Uring<P> {
    /// A driver without sockets, on two descriptors.
    ///
    /// # Errors
    /// Those of `eventfd` and `io_uring_setup`. If io_uring is not available, the message contains
    /// the reason: the kernel was built without it or is older than 5.19, or a sysctl or a seccomp
    /// filter forbids it.
    pub fn new(options: &Options) -> io::Result<Uring<P>> {
        let (ring, waker) = (Ring::new(options.ring_entries)?, Waker::new()?);
        let (table, tasks) = (Table::default(), VecDeque::from([Task::Wake]));
        let (completions, deaf, process) = (Vec::new(), None, process_number());
        Ok(Uring { ring, table, waker, tasks, completions, deaf, process })
    }

    /// Makes entries of the tasks; makes extra calls only if the tasks exceed the queue.
    fn fill(&mut self) -> io::Result<()> {
        while let Some(&task) = self.tasks.front() {
            self.ring.make_room()?;
            self.tasks.pop_front();
            self.push(task);
        }
        Ok(())
    }

    fn push(&mut self, task: Task) {
        let Uring { ring, table, waker, .. } = self;
        match task {
            Task::Wake => ring.watch(waker.as_fd()),
            Task::Accept(place) => {
                at(table, place).inspect(|(_, socket)| ring.accept(place, socket.fd.as_raw_fd()));
            }
            Task::Receive(place) => {
                let Some((_, socket)) = at(table, place) else { return };
                let Some(receive) = &mut socket.receive.given else { return };
                // SAFETY: the table keeps the buffer while the side is running, and no code touches
                // it.
                unsafe { ring.receive(place, socket.fd.as_raw_fd(), receive.space()) }
            }
            Task::Send(place) => {
                let Some((_, socket)) = at(table, place) else { return };
                let Some(payload) = &socket.send.given else { return };
                let fd = socket.fd.as_raw_fd();
                match payload.file() {
                    Some(_) => ring.watch_room(place, fd),
                    // SAFETY: the table keeps the payload while the side is running, and its parts
                    // are readable for that time.
                    None => unsafe { ring.send(place, fd, payload.parts(), flags(payload)) },
                }
            }
            Task::Pause(place) => ring.pause(place),
            Task::Cancel(place) => {
                at(table, place).inspect(|(_, socket)| ring.cancel(place, socket.fd.as_raw_fd()));
            }
            Task::CancelAll => {}
        }
    }

    /// Takes the completions; returns their number.
    fn collect(&mut self, done: &mut Vec<Done<P>>) -> usize {
        let mut completions = mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        let count = completions.len();
        for completion in completions.drain(..) {
            self.complete(completion, done);
        }
        self.completions = completions;
        count
    }

    fn complete(&mut self, completion: Completion, done: &mut Vec<Done<P>>) {
        let Completion { task, result, connection, more } = completion;
        let place = match task {
            Task::Wake => {
                self.waker.clear();
                match result {
                    Ok(_) => done.push(Done::Woken),
                    Err(error) => self.deaf = Some(error),
                }
                return self.tasks.push_back(Task::Wake);
            }
            Task::CancelAll => return,
            Task::Accept(place) | Task::Receive(place) | Task::Send(place) => place,
            Task::Pause(place) | Task::Cancel(place) => place,
        };
        // A socket with a task is in the table.
        let Some((id, socket)) = at(&mut self.table, place) else { return };
        let again = match task {
            Task::Accept(_) => accepted(socket, id, result.map(|_| connection), more, done),
            Task::Receive(_) => received(socket, id, result, done),
            Task::Send(_) => sent(socket, id, result, done),
            _ => {
                socket.cancels -= 1;
                false
            }
        };
        match again {
            true => self.tasks.push_back(task),
            false => self.table.close_if_idle(id),
        }
    }
}

/// The socket in a place, with its id.
fn at<P>(table: &mut Table<P>, place: u32) -> Option<(SocketId, &mut Socket<P>)> {
    let id = table.id(place)?;
    table.get(id).map(|socket| (id, socket))
}

/// True if a signal ended the operation before it had an effect, and it may be repeated.
fn is_repeated<P>(result: &io::Result<usize>, socket: &Socket<P>) -> bool {
    let interrupted = matches!(result, Err(error) if error.kind() == io::ErrorKind::Interrupted);
    interrupted && !socket.shut
}

/// Notes the completion of a receive; returns whether it is to be repeated.
fn received<P>(
    socket: &mut Socket<P>,
    id: SocketId,
    result: io::Result<usize>,
    done: &mut Vec<Done<P>>,
) -> bool {
    if is_repeated(&result, socket) {
        return true;
    }
    socket.receive.running = false;
    if let Some(mut receive) = socket.receive.given.take() {
        if let Ok(len) = result {
            // SAFETY: the kernel wrote `len` bytes to the space that the entry named.
            unsafe { receive.received(len) };
        }
        done.push(Done::Received { socket: id, buffer: receive.into_buffer(), result });
    }
    false
}

/// Notes the completion of a send; returns whether it is to be repeated. A file is sent only now.
fn sent<P: Outgoing>(
    socket: &mut Socket<P>,
    id: SocketId,
    result: io::Result<usize>,
    done: &mut Vec<Done<P>>,
) -> bool {
    if is_repeated(&result, socket) {
        return true;
    }
    let file = socket.send.given.as_ref().and_then(Outgoing::file);
    let result = match file.filter(|_| result.is_ok() && !socket.shut) {
        Some(part) => send_file(socket.fd.as_fd(), part),
        None => result,
    };
    if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) && !socket.shut {
        return true;
    }
    socket.send.running = false;
    let payload = socket.send.given.take();
    socket.finish_if_due();
    done.extend(payload.map(|payload| Done::Sent { socket: id, payload, result }));
    false
}

/// Notes a connection, or the end of accepting; returns whether to begin it again.
fn accepted<P>(
    socket: &mut Socket<P>,
    listener: SocketId,
    result: io::Result<Option<OwnedFd>>,
    more: bool,
    done: &mut Vec<Done<P>>,
) -> bool {
    let side = &mut socket.accept;
    side.running = more;
    match result {
        Ok(connection) => {
            done.extend(connection.map(|fd| Done::Accepted { listener, result: Ok(fd) }));
        }
        // Paused, and perhaps requested again since; or shut.
        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
        Err(error) if is_passed_over(&error) => {}
        Err(error) => {
            let wanted = side.given.take();
            done.extend(wanted.map(|()| Done::Accepted { listener, result: Err(error) }));
        }
    }
    if more || side.given.is_none() {
        return false;
    }
    if socket.shut {
        side.given = None;
        done.push(Done::Accepted { listener, result: Err(failed(libc::ECANCELED)) });
    }
    side.running = !socket.shut;
    side.running
}

impl<P: Outgoing> Driver<P> for Uring<P> {
    fn add(&mut self, socket: OwnedFd) -> io::Result<SocketId> {
        self.table.add(socket)
    }

    fn accept(&mut self, listener: SocketId) {
        let wanted = self.table.begin_accept(listener);
        if let Some(socket) = self.table.open(listener).filter(|_| wanted)
            && !mem::replace(&mut socket.accept.running, true)
        {
            self.tasks.push_back(Task::Accept(listener.index));
        }
    }

    fn pause(&mut self, listener: SocketId) {
        let Some(socket) = self.table.open(listener) else { return };
        if socket.accept.given.take().is_some() && socket.accept.running {
            socket.cancels += 1;
            self.tasks.push_back(Task::Pause(listener.index));
        }
    }

    fn receive(&mut self, id: SocketId, buffer: Vec<u8>, at_most: usize) {
        let begun = self.table.begin_receive(id, buffer, at_most);
        if let Some(socket) = self.table.open(id).filter(|_| begun) {
            socket.receive.running = true;
            self.tasks.push_back(Task::Receive(id.index));
        }
    }

    fn send(&mut self, id: SocketId, payload: P) {
        let begun = self.table.begin_send(id, payload);
        if let Some(socket) = self.table.open(id).filter(|_| begun) {
            socket.send.running = true;
            self.tasks.push_back(Task::Send(id.index));
        }
    }

    fn finish(&mut self, socket: SocketId) {
        self.table.finish(socket);
    }

    fn shut(&mut self, id: SocketId) {
        let Some(socket) = self.table.open(id) else { return };
        socket.shut = true;
        if !socket.is_idle() {
            socket.cancels += 1;
            self.tasks.push_back(Task::Cancel(id.index));
        }
        self.table.close_if_idle(id);
    }

    fn release(&mut self, socket: SocketId) -> Option<OwnedFd> {
        self.table.release(socket)
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
            let filled = self.fill();
            let due = self.table.has_early() || filled.is_err();
            let entered = self.ring.enter(if due { Some(Duration::ZERO) } else { deadline.left() });
            self.table.take_early(done);
            let taken = self.collect(done);
            if done.len() > before {
                return Ok(());
            }
            if let Some(error) = self.deaf.take() {
                return Err(error);
            }
            // The kernel is short of memory; taking completions helps.
            if taken == 0 {
                filled.and(entered)?;
            }
            if deadline.has_passed() {
                return Ok(());
            }
        }
    }
}

impl<P: Outgoing> Drop for Uring<P> {
    fn drop(&mut self) {
        // In a forked child no operation uses this memory, and the queues are the parent's.
        if self.process == process_number() && !self.ring.drain() {
            // The kernel did not end all operations: it keeps the memory that it was lent.
            mem::take(&mut self.table).abandon();
        }
    }
}

impl<P: Outgoing> fmt::Debug for Uring<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}
