//! The state of one connection.

use super::asked::Asked;
use super::payload::Payload;
use super::peers::Admission;
use super::reply::{Piece, Reply};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The longest time limit, which no clock exceeds.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The time limits for peers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a request, or from the connection's beginning, to the end of the
    /// request's head.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// Between requests, while the worker has no room for another connection.
    pub idle_if_full: Duration,
    /// Until the peer takes the next byte of an answer.
    pub send: Duration,
    /// From the end of the answer until the peer closes.
    pub close: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        let (head, idle, idle_if_full) = (seconds(10), seconds(60), seconds(1));
        Patience { head, idle, idle_if_full, send: seconds(60), close: seconds(5) }
    }
}

impl Patience {
    /// The same, each short enough to be added to the present time.
    pub(crate) fn limited(self) -> Patience {
        let Patience { head, idle, idle_if_full, send, close } = self;
        let [head, idle, send, close] = [head, idle, send, close].map(|time| time.min(LONGEST));
        Patience { head, idle, idle_if_full: idle_if_full.min(idle), send, close }
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No byte of the next request is there.
    Idle,
    /// A request is being received.
    Receiving,
    /// An answer is being sent.
    Sending,
    /// The answer is sent; the peer has not closed.
    Closing,
}

/// See the module.
pub(crate) struct Connection<H> {
    /// Received bytes, not processed from `taken` on. The driver has the buffer while it receives.
    pub(crate) input: Vec<u8>,
    pub(crate) taken: usize,
    pub(crate) is_receiving: bool,
    /// Bytes that came after the last answer.
    pub(crate) forgotten: usize,
    /// The peer sends nothing more.
    pub(crate) ended: bool,
    /// It has spoken HTTP before.
    pub(crate) is_http: bool,
    pub(crate) phase: Phase,
    /// When the connection times out.
    pub(crate) deadline: Instant,
    pieces: VecDeque<Piece<H>>,
    pub(crate) answer: Answer,
    /// Counts the connection, if its address has a limit.
    pub(crate) admission: Option<Admission>,
    /// For the log: the peer and its request. Empty if there is no log.
    pub(crate) peer: String,
    pub(crate) asked: Asked,
}

/// The facts of an answer that the log gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) began: Instant,
    pub(crate) status: u16,
    pub(crate) keep: bool,
    pub(crate) bytes: u64,
    /// The bytes of the head, which are among the others.
    pub(crate) head_bytes: u64,
}

impl<H> Connection<H> {
    pub(crate) fn new(now: Instant, patience: &Patience) -> Connection<H> {
        Connection {
            input: Vec::new(),
            taken: 0,
            is_receiving: false,
            forgotten: 0,
            ended: false,
            is_http: false,
            phase: Phase::Idle,
            deadline: now + patience.head,
            pieces: VecDeque::new(),
            answer: Answer { began: now, status: 0, keep: false, bytes: 0, head_bytes: 0 },
            admission: None,
            peer: String::new(),
            asked: Asked::default(),
        }
    }

    /// Whether its address has too many connections: it gets one answer, an error.
    pub(crate) fn is_excess(&self) -> bool {
        self.admission.as_ref().is_some_and(|admission| admission.is_excess)
    }

    /// The received bytes that are not processed.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.input[self.taken.min(self.input.len())..]
    }

    /// Notes that a request of `len` bytes was processed.
    pub(crate) fn take(&mut self, len: usize) {
        self.taken += len;
        if self.taken >= self.input.len() {
            self.input.clear();
            self.taken = 0;
        }
    }

    /// The buffer to receive more into, without the processed bytes.
    pub(crate) fn lend_input(&mut self) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.input);
        input.drain(..self.taken.min(input.len()));
        self.taken = 0;
        input
    }

    /// Begins an answer.
    pub(crate) fn begin(&mut self, reply: Reply<H>, now: Instant) {
        let Reply { status, keep, head_bytes, .. } = reply;
        self.answer = Answer { began: now, status, keep, bytes: 0, head_bytes };
        self.pieces = reply.pieces;
        self.phase = Phase::Sending;
    }

    /// The next piece of the answer.
    pub(crate) fn next_piece(&mut self) -> Option<Piece<H>> {
        self.pieces.pop_front()
    }

    /// Puts the rest of a piece back in front.
    pub(crate) fn put_back(&mut self, piece: Piece<H>) {
        self.pieces.push_front(piece);
    }
}

/// The result of making a payload from a piece.
pub(crate) type Made = std::io::Result<Option<Payload>>;
