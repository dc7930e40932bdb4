//! One connection: requests that go out, answers that come in, in the same order.
//!
//! Invariant: a request on a connection is answered once, or the run ends with an error. Only where
//! a server may end a kept connection (it announced that, or no byte of the answer has come) is the
//! request repeated, on a new one.

use super::ask::{Request, Requests};
use super::incoming::{Complete, Incoming};
use super::protocol::Protocol;
use super::target::Target;
use commonhold_terminal::sizes::things;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A request in flight.
#[derive(Clone, Copy)]
pub struct Asked {
    /// Its number.
    pub request: usize,
    /// When it was due.
    pub due_ns: u64,
    /// When the connection took it.
    pub asked_ns: u64,
}

/// An event on a connection.
#[derive(Clone, Copy)]
pub enum News {
    /// A request was answered, with this number of bytes.
    Answered(Asked, u64),
    /// There is room for another request.
    Room,
}

/// The environment of a connection.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The address to connect to.
    pub target: &'a Target,
    /// The source of events.
    pub poll: BorrowedFd<'a>,
    /// The requests.
    pub requests: &'a Requests,
    /// Whether a connection serves more than one request.
    pub keeps_alive: bool,
}

/// The error, for people.
pub type Fault = String;

/// One connection.
pub struct Connection {
    /// Its number in events.
    token: u64,
    socket: Option<OwnedFd>,
    /// The bytes to send, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether it waits for room to send.
    waits_for_room: bool,
    /// The requests that are not answered yet.
    waiting: VecDeque<Asked>,
    incoming: Incoming,
    /// The last request over this socket, which was answered; only the end of the connection has
    /// not come.
    ends: Option<Asked>,
    /// Answers that came over this socket, and to which request the last one was.
    answered: u64,
    last: usize,
    /// How often a kept connection had to be opened again.
    pub reopened: u64,
}

impl Connection {
    /// Not connected yet.
    pub fn new(token: u64, protocol: Protocol) -> Connection {
        Connection {
            token,
            socket: None,
            outgoing: Vec::new(),
            sent: 0,
            waits_for_room: false,
            waiting: VecDeque::new(),
            incoming: Incoming::new(protocol),
            ends: None,
            answered: 0,
            last: 0,
            reopened: 0,
        }
    }

    /// Takes a request, to be sent with the next [`Connection::send`].
    pub fn ask(&mut self, asked: Asked, request: &Request) {
        self.waiting.push_back(asked);
        self.outgoing.extend_from_slice(&request.wire);
    }

    /// Sends what there is to send, connecting before if need be.
    pub fn send(&mut self, around: Around) -> Result<(), Fault> {
        if self.ends.is_some() {
            return Ok(());
        }
        if self.socket.is_none() {
            self.open(around)?;
        }
        let Some(socket) = &self.socket else { return Ok(()) };
        while self.sent < self.outgoing.len() {
            match send(socket, &self.outgoing[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.wait_for_room(around, true),
                // The bytes that the server sent before it closed may still be readable, and tell
                // more.
                Err(Errno::PIPE | Errno::CONNRESET) if self.answered > 0 => break,
                Err(error) => return Err(self.fault(around, &said(error))),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        self.wait_for_room(around, false)
    }

    /// Reads what has come; `is_last` if the other end is known to have closed.
    pub fn receive(
        &mut self,
        around: Around,
        scratch: &mut [u8],
        is_last: bool,
        news: &mut Vec<News>,
    ) -> Result<(), Fault> {
        while let Some(socket) = &self.socket {
            match recv(socket, &mut *scratch, RecvFlags::empty()) {
                Ok((0, _)) => return self.closed(around, false, news),
                Err(Errno::CONNRESET) => return self.closed(around, true, news),
                Ok((count, _)) => {
                    self.take(around, &scratch[..count], news)?;
                    if count < scratch.len() && !is_last {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.fault(around, &said(error))),
            }
        }
        Ok(())
    }

    /// Drops the socket if too many connections wait already.
    fn open(&mut self, around: Around) -> Result<(), Fault> {
        let socket = match around.target.open() {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(self.fault(around, &said(error))),
        };
        let flags = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(around.poll, &socket, EventData::new_u64(self.token), flags)
            .map_err(|e| self.fault(around, &said(e)))?;
        self.socket = Some(socket);
        self.waits_for_room = false;
        self.answered = 0;
        Ok(())
    }

    fn wait_for_room(&mut self, around: Around, wanted: bool) -> Result<(), Fault> {
        if self.waits_for_room == wanted {
            return Ok(());
        }
        self.waits_for_room = wanted;
        let Some(socket) = &self.socket else { return Ok(()) };
        let room = if wanted { EventFlags::OUT } else { EventFlags::empty() };
        let flags = EventFlags::IN | EventFlags::RDHUP | room;
        epoll::modify(around.poll, socket, EventData::new_u64(self.token), flags)
            .map_err(|e| self.fault(around, &said(e)))
    }

    /// Answers, or parts of them.
    fn take(&mut self, around: Around, bytes: &[u8], news: &mut Vec<News>) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(asked) = self.waiting.front().copied().filter(|_| self.ends.is_none()) else {
                return Err(self.unasked(around, rest.len()));
            };
            let request = around.requests.at(asked.request);
            let taken = self.incoming.take(rest, request);
            let (count, complete) = taken.map_err(|what| self.fault(around, &what))?;
            rest = &rest[count..];
            if let Some(complete) = complete {
                self.complete(around, asked, complete, news)?;
            }
        }
        Ok(())
    }

    fn complete(
        &mut self,
        around: Around,
        asked: Asked,
        complete: Complete,
        news: &mut Vec<News>,
    ) -> Result<(), Fault> {
        self.waiting.pop_front();
        self.answered += 1;
        self.last = asked.request;
        news.push(News::Answered(asked, complete.bytes));
        if around.keeps_alive && !complete.closes {
            news.push(News::Room);
            return Ok(());
        }
        // The other side must close first: the side that does keeps the port for a minute.
        self.ends = Some(asked);
        Ok(())
    }

    /// The other end has closed, or has discarded unread bytes.
    fn closed(&mut self, around: Around, reset: bool, news: &mut Vec<News>) -> Result<(), Fault> {
        if self.ends.is_none()
            && let Some(asked) = self.waiting.front().copied()
        {
            // The server may close a connection that was open for long enough; the request is
            // repeated.
            let may_close = around.keeps_alive && self.answered > 0 && self.incoming.is_untouched();
            if !may_close {
                self.end_answer(around, asked, reset, news)?;
            }
        }
        self.socket = None;
        if self.ends.take().is_some() {
            news.push(News::Room);
        }
        if around.keeps_alive {
            self.reopened += 1;
        }
        self.ask_again(around)
    }

    /// The end of the connection ends an answer, too, where the protocol allows that.
    fn end_answer(
        &mut self,
        around: Around,
        asked: Asked,
        reset: bool,
        news: &mut Vec<News>,
    ) -> Result<(), Fault> {
        if reset {
            return Err(self.fault(around, "the connection was reset"));
        }
        let ended = self.incoming.end(around.requests.at(asked.request));
        let complete = ended.map_err(|what| self.fault(around, &what))?;
        self.complete(around, asked, complete, news)
    }

    /// Sends the unanswered requests again, on a new connection.
    fn ask_again(&mut self, around: Around) -> Result<(), Fault> {
        self.outgoing.clear();
        self.sent = 0;
        if self.waiting.is_empty() {
            return Ok(());
        }
        for asked in &self.waiting {
            self.outgoing.extend_from_slice(&around.requests.at(asked.request).wire);
        }
        self.send(around)
    }

    /// Whether there is something to send that needs only another attempt.
    pub fn is_stuck(&self) -> bool {
        self.socket.is_none() && !self.waiting.is_empty()
    }

    /// The error if nothing has happened since an instant.
    pub fn overdue(&self, around: Around, since_ns: u64) -> Option<Fault> {
        if let Some(asked) = self.ends.filter(|asked| asked.asked_ns < since_ns) {
            let id = &around.requests.at(asked.request).id;
            return Some(format!("'{id}': answered, but the connection was not closed"));
        }
        let asked = self.waiting.front().filter(|asked| asked.asked_ns < since_ns)?;
        let id = &around.requests.at(asked.request).id;
        let came = if self.incoming.is_untouched() { "no response" } else { "part of a response" };
        Some(format!("'{id}': {came}"))
    }

    /// The error for bytes after the last answer.
    fn unasked(&self, around: Around, bytes: usize) -> Fault {
        let things = things(bytes as u64, "byte", "bytes");
        match self.answered {
            0 => format!("{things} arrived without a request"),
            _ => {
                format!(
                    "'{}': {things} arrived after the response",
                    around.requests.at(self.last).id
                )
            }
        }
    }

    /// The error, with the id that it concerns.
    fn fault(&self, around: Around, what: &str) -> Fault {
        match self.waiting.front() {
            Some(asked) => format!("'{}': {what}", around.requests.at(asked.request).id),
            None => what.to_owned(),
        }
    }
}

fn said(error: Errno) -> String {
    let error = std::io::Error::from(error);
    match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            format!(
                "no local port is left for a new connection: {error}; send fewer requests, or use \
                 a unix socket"
            )
        }
        _ => error.to_string(),
    }
}
