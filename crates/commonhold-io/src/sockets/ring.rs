//! The two queues between a thread and the kernel: operations go in as entries, completions come
//! out.
//!
//! Each entry carries its [`Task`], which names the socket by its place: a place is not taken again
//! while any of its entries is on the way. An operation is *on the way* from its entry until its
//! last completion.
//!
//! A send's message (which contains the addresses of the bytes) is needed only until the kernel has
//! taken the entry, by `IORING_FEAT_SUBMIT_STABLE`. So there are as many messages as entries, and
//! they go round as the entries do.
//!
//! # Safety
//! Giving the kernel addresses is unsafe. The caller keeps the memory until the operation is no
//! longer on the way. That includes a socket that was shut and a dropped ring ([`Ring::drain`]).
#![allow(unsafe_code)]

use super::calls::{MOST, clipped, message};
use super::table::{failed, reset};
use commonhold::{fault, shortened};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// The room for completions, per entry; the kernel keeps those beyond.
const COMPLETIONS: u32 = 4;
/// How often, and how long each time, dropping waits for the end of all operations.
const DRAINS: (usize, Duration) = (100, Duration::from_millis(100));
/// The pause after a call that failed meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

/// The task of an entry, with the place of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Wake,
    Accept(u32),
    Receive(u32),
    Send(u32),
    /// Cancels the accept.
    Pause(u32),
    /// Cancels all operations of a socket.
    Cancel(u32),
    /// Cancels all operations.
    CancelAll,
}

impl Task {
    /// Bits 0-7 the kind, bits 8-39 the place.
    fn to_bits(self) -> u64 {
        let (kind, place) = match self {
            Task::Wake => (0, 0),
            Task::Accept(place) => (1, place),
            Task::Receive(place) => (2, place),
            Task::Send(place) => (3, place),
            Task::Pause(place) => (4, place),
            Task::Cancel(place) => (5, place),
            Task::CancelAll => (6, 0),
        };
        u64::from(place) << 8 | kind
    }

    fn from_bits(bits: u64) -> Task {
        let place = (bits >> 8) as u32;
        match bits & 0xff {
            0 => Task::Wake,
            1 => Task::Accept(place),
            2 => Task::Receive(place),
            3 => Task::Send(place),
            4 => Task::Pause(place),
            5 => Task::Cancel(place),
            _ => Task::CancelAll,
        }
    }
}

/// The kernel's result of a task.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) task: Task,
    /// The number of bytes of a receive or a send.
    pub(super) result: io::Result<usize>,
    /// The connection of an accept that succeeded.
    pub(super) connection: Option<OwnedFd>,
    /// More completions of the same entry will follow.
    pub(super) more: bool,
}

struct Message {
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

/// An io_uring of one thread: the addresses in its messages keep it there.
pub(super) struct Ring {
    ring: IoUring,
    /// As many as the queue has entries; the n-th entry ever made has the n-th, modulo their
    /// number.
    messages: Vec<Message>,
    entries_ever: usize,
    in_flight: usize,
}

impl Ring {
    /// # Errors
    /// Those of `io_uring_setup`; `Unsupported` if the kernel's io_uring lacks something. The
    /// message names the way out.
    pub(super) fn new(entries: u32) -> io::Result<Ring> {
        let ring = build(entries.clamp(1, 32_768)).and_then(checked).map_err(|error| {
            io::Error::new(error.kind(), format!("io_uring is not available: {}", cause(&error)))
        })?;
        let none = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut messages = Vec::new();
        messages.resize_with(ring.params().sq_entries() as usize, || Message {
            header: message(ptr::null_mut()),
            parts: [none; 2],
        });
        Ok(Ring { ring, messages, entries_ever: 0, in_flight: 0 })
    }

    /// Makes room for an entry, if necessary by giving the kernel all entries.
    ///
    /// # Errors
    /// Those of `io_uring_enter`; `EBUSY` if the kernel took none.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        if self.ring.submission().is_full() {
            fault!("ring.enter")?;
            self.ring.submit()?;
        }
        if self.ring.submission().is_full() { Err(failed(libc::EBUSY)) } else { Ok(()) }
    }

    /// Completes once when `fd` is readable. As for all operations here,
    /// [`make_room`](Self::make_room) was called before.
    pub(super) fn watch(&mut self, fd: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: no memory.
        unsafe { self.push(Task::Wake, entry) }
    }

    /// Completes for each connection.
    pub(super) fn accept(&mut self, place: u32, listener: RawFd) {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(Fd(listener)).flags(flags).build();
        // SAFETY: no memory.
        unsafe { self.push(Task::Accept(place), entry) }
    }

    /// # Safety
    /// `space` is writable for `most` bytes, and no other code uses it, while the operation is on
    /// the way.
    pub(super) unsafe fn receive(
        &mut self,
        place: u32,
        socket: RawFd,
        (space, most): (*mut u8, usize),
    ) {
        let most = shortened!("ring.receive-bytes", most);
        // At most `calls::MOST`, which fits.
        let entry = opcode::Recv::new(Fd(socket), space, most as u32).build();
        // SAFETY: the caller keeps the memory.
        unsafe { self.push(Task::Receive(place), entry) }
    }

    /// # Safety
    /// The parts are readable while the operation is on the way.
    pub(super) unsafe fn send(
        &mut self,
        place: u32,
        socket: RawFd,
        parts: [libc::iovec; 2],
        flags: i32,
    ) {
        let at = self.entries_ever % self.messages.len();
        let most = shortened!("ring.send-bytes", MOST);
        // SAFETY: within the vector. The kernel has taken the entry that had this message: since
        // then the ring has made as many entries as the queue holds. No reference to it: the kernel
        // has the addresses of other messages next to it.
        let header = unsafe {
            let slot = self.messages.as_mut_ptr().add(at);
            (&raw mut (*slot).parts).write(clipped(parts, most));
            (&raw mut (*slot).header).write(message(&raw mut (*slot).parts));
            &raw const (*slot).header
        };
        // Without MSG_DONTWAIT: the kernel does the waiting.
        let entry = opcode::SendMsg::new(Fd(socket), header).flags(flags as u32).build();
        // SAFETY: the message stays as it is until the entry is taken; the caller keeps the bytes.
        unsafe { self.push(Task::Send(place), entry) }
    }

    /// Completes the place's send when the socket takes bytes: io_uring itself cannot send files.
    pub(super) fn watch_room(&mut self, place: u32, socket: RawFd) {
        let entry = opcode::PollAdd::new(Fd(socket), libc::POLLOUT as u32).build();
        // SAFETY: no memory.
        unsafe { self.push(Task::Send(place), entry) }
    }

    /// Cancels the accept of a place.
    pub(super) fn pause(&mut self, place: u32) {
        self.cancel_by(Task::Pause(place), CancelBuilder::user_data(Task::Accept(place).to_bits()));
    }

    /// Cancels all operations of a socket that are on the way; it stays open until this has
    /// completed.
    pub(super) fn cancel(&mut self, place: u32, socket: RawFd) {
        self.cancel_by(Task::Cancel(place), CancelBuilder::fd(Fd(socket)).all());
    }

    fn cancel_by(&mut self, task: Task, which: CancelBuilder) {
        // SAFETY: no memory.
        unsafe { self.push(task, opcode::AsyncCancel2::new(which).build()) }
    }

    /// # Safety
    /// The memory that the entry points to is kept while the operation is on the way.
    unsafe fn push(&mut self, task: Task, entry: squeue::Entry) {
        let entry = entry.user_data(task.to_bits());
        // SAFETY: the caller keeps the memory.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "an operation without room for it");
        self.entries_ever = self.entries_ever.wrapping_add(1);
        self.in_flight += 1;
    }

    /// Gives the kernel the entries and waits for a completion, for `timeout` at most; a signal
    /// ends the wait earlier.
    ///
    /// # Errors
    /// Those of `io_uring_enter`, for lack of memory. Entries that the kernel did not take stay in
    /// the queue.
    pub(super) fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let entered = fault!("ring.enter").and_then(|()| match timeout {
            None => submitter.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        });
        match entered {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Appends the completions that are there.
    pub(super) fn completions(&mut self, into: &mut Vec<Completion>) {
        let before = into.len();
        into.extend(self.ring.completion().map(|entry| completion(&entry)));
        let last = into[before..].iter().filter(|completion| !completion.more).count();
        self.in_flight -= last;
    }

    /// Cancels all operations and waits until none is on the way. `false` if some still are: their
    /// memory must stay forever.
    #[must_use]
    pub(super) fn drain(&mut self) -> bool {
        let (rounds, patience) = DRAINS;
        let mut ended = Vec::new();
        for _ in 0..rounds {
            if self.in_flight == 0 {
                break;
            }
            if self.make_room().is_ok() {
                self.cancel_by(Task::CancelAll, CancelBuilder::any());
            }
            // If it fails, earlier completions make room for another try, or memory is free soon.
            if self.enter(Some(patience)).is_err() {
                std::thread::sleep(PAUSE);
            }
            self.completions(&mut ended);
            ended.clear();
        }
        self.in_flight == 0
    }
}

fn completion(entry: &cqueue::Entry) -> Completion {
    let task = Task::from_bits(entry.user_data());
    let result = usize::try_from(entry.result()).map_err(|_| failed(-entry.result()));
    let connection = match task {
        // SAFETY: the descriptor is new and has no other owner.
        Task::Accept(_) if result.is_ok() => Some(unsafe { OwnedFd::from_raw_fd(entry.result()) }),
        _ => None,
    };
    let more = cqueue::more(entry.flags());
    match struck(task) {
        Err(error) if result.is_ok() => {
            connection.iter().for_each(reset);
            Completion { task, result: Err(error), connection: None, more }
        }
        _ => Completion { task, result, connection, more },
    }
}

/// The error that a test sets for a task, as if the task had had no effect.
fn struck(task: Task) -> io::Result<()> {
    match task {
        Task::Wake => fault!("ring.wake"),
        Task::Accept(_) => fault!("ring.accept"),
        Task::Receive(_) => fault!("ring.receive"),
        Task::Send(_) => fault!("ring.send"),
        Task::Pause(_) | Task::Cancel(_) | Task::CancelAll => Ok(()),
    }
}

/// Prefers completions that are processed in `enter` alone (Linux 6.1); otherwise they are
/// processed at the end of any system call.
fn build(entries: u32) -> io::Result<IoUring> {
    fault!("ring.setup")?;
    let completions = entries * COMPLETIONS;
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(completions).setup_submit_all();
    let mut deferring = builder.clone();
    match deferring.setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            builder.setup_coop_taskrun().build(entries)
        }
        other => other,
    }
}

/// # Errors
/// `Unsupported` if something is missing.
fn checked(ring: IoUring) -> io::Result<IoUring> {
    let params = ring.params();
    let features = params.is_feature_nodrop()
        && params.is_feature_submit_stable()
        && params.is_feature_fast_poll()
        && params.is_feature_ext_arg();
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let codes = [
        opcode::PollAdd::CODE,
        opcode::Recv::CODE,
        opcode::SendMsg::CODE,
        opcode::AcceptMulti::CODE,
        opcode::AsyncCancel2::CODE,
        // Not used: it came with accepting more than once and cancelling by descriptor, which no
        // call reports.
        opcode::Socket::CODE,
    ];
    match features && codes.iter().all(|&code| probe.is_supported(code)) {
        true => Ok(ring),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn cause(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel was built without it",
        Some(libc::EPERM | libc::EACCES) => {
            "forbidden by the sysctl kernel.io_uring_disabled or by a seccomp filter"
        }
        Some(libc::ENOMEM) => "no memory, or RLIMIT_MEMLOCK is too low",
        _ => "Linux 5.19 or later is needed",
    };
    format!("{error} ({hint})")
}
