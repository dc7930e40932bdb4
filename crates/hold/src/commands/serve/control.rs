//! The messages between a supervisor and a worker, over a socket that is the worker's standard
//! input.
//!
//! The supervisor sends the listening sockets; the worker sends a byte once it serves. In the end
//! the supervisor sends a [`Word`]. If the supervisor's end is gone, that counts as a word, too:
//! the worker finishes and ends, so none is left behind, whatever happens to its supervisor.

use commonhold_terminal::failure::{Failure, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The most sockets.
pub const MOST_SOCKETS: usize = 64;

/// A command to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Finish all responses, however long clients take, then end: other workers serve now, or none
    /// does.
    Finish = 1,
    /// The same, within the time limit of the shutdown.
    End = 2,
}

fn failed(doing: &str, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot {doing}: {error}"))
}

/// A pair: the supervisor's end, and the worker's standard input.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let pair = UnixStream::pair().map_err(|error| failed("create a socket for a worker", error))?;
    Ok((pair.0.into(), pair.1.into()))
}

/// Sends a worker its sockets.
pub fn hand_over(to: &OwnedFd, sockets: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(sockets));
    let count = [sockets.len() as u8];
    let sent =
        retry_on_intr(|| sendmsg(to, &[IoSlice::new(&count)], &mut ancillary, SendFlags::NOSIGNAL));
    sent.map(drop).map_err(|error| failed("pass the sockets to a worker", error))
}

/// The worker's end.
pub struct Supervisor(OwnedFd);

impl Supervisor {
    /// The socket at standard input.
    pub fn at_stdin() -> Result<Supervisor> {
        let end = std::io::stdin().as_fd().try_clone_to_owned();
        end.map(Supervisor).map_err(|error| failed("reach the supervisor", error))
    }

    /// The sockets that the supervisor sends.
    pub fn sockets(&self) -> Result<Vec<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut count = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            let mut parts = [IoSliceMut::new(&mut count)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        got.map_err(|error| failed("receive the sockets from the supervisor", error))?;
        let mut sockets = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                sockets.extend(fds);
            }
        }
        match sockets.is_empty() || sockets.len() != usize::from(count[0]) {
            true => Err(Failure::usage("--as-worker is internal to 'hold serve'")),
            false => Ok(sockets),
        }
    }

    /// Reports that this worker serves.
    pub fn tell_ready(&self) -> Result<()> {
        let sent = retry_on_intr(|| rustix::net::send(&self.0, &[1], SendFlags::NOSIGNAL));
        sent.map(drop).map_err(|error| failed("report to the supervisor", error))
    }

    /// The supervisor's word, with a wait of at most `time`. Once the supervisor is gone, always
    /// `Finish`.
    pub fn says_within(&self, time: Duration) -> Option<Word> {
        is_readable(&self.0, time).then(|| match byte_of(&self.0) {
            Some(byte) if byte == Word::End as u8 => Word::End,
            _ => Word::Finish,
        })
    }
}

/// Whether the other side sends something, or is gone, within `time`. A signal does not end the
/// wait: one comes whenever a worker ends.
pub fn is_readable(end: &OwnedFd, time: Duration) -> bool {
    let late = Instant::now() + time;
    loop {
        let mut fds = [PollFd::new(end, PollFlags::IN)];
        let timeout = Timespec::try_from(late.saturating_duration_since(Instant::now())).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            other => return matches!(other, Ok(1..)),
        }
    }
}

/// Whether a worker has reported that it serves; false: it is gone.
pub fn is_ready(end: &OwnedFd) -> bool {
    byte_of(end).is_some()
}

/// Sends a worker a word.
pub fn tell(end: &OwnedFd, word: Word) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // A worker that cannot be reached has ended.
    let _ = retry_on_intr(|| rustix::net::send(end, &[word as u8], flags));
}

/// The next byte of the other side; `None`: it is gone.
fn byte_of(end: &OwnedFd) -> Option<u8> {
    let mut byte = [0u8];
    let got = retry_on_intr(|| rustix::net::recv(end, &mut byte, RecvFlags::empty()));
    matches!(got, Ok((1, _))).then_some(byte[0])
}
