//! A worker: one thread that serves connections from one driver.
//!
//! | event | reaction |
//! |---|---|
//! | a connection | its first receive is given to the driver |
//! | bytes of a complete request | its answer is made, and its first piece is given to the driver |
//! | other bytes | more is received |
//! | a piece is sent | the next piece; after the last the next request, or the end |
//! | half a second has passed | slow connections are closed; paused listeners accept again |
//!
//! Requests of one connection are answered one after the other, in order. After the last answer the
//! peer gets the end of the stream, and its further bytes are read and discarded until it closes.
//! Closing at once would make the system discard bytes that the peer has not read yet.

mod deadlines;

use super::access_log::{AccessLogs, peer_of};
use super::asked::Asked;
use super::connection::{Connection, Made, Patience, Phase};
use super::counts::{Counts, Latency, ServerReport};
use super::fresh_contents::{FreshContents, Origin};
use super::http::head::{self, Method};
use super::payload::Payload;
use super::peers::{Admission, EXCESS_PATIENCE, Peers, address_of};
use super::protocol::{Beginning, ProtocolKind, begin};
use super::reply::{Piece, Reply, Responder, next};
use super::requests::Requests;
use super::source::Source;
use super::store::Store;
use commonhold::log::LogLevel;
use commonhold_io::sockets::{Done, Driver, ErrorBackoff, SocketId, stop_pacing};
use rustix::net::sockopt::set_socket_linger;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The number of bytes that are received at once.
const RECEIVE: usize = 8 << 10;
/// The most bytes that a peer may send after its last answer.
const MOST_FORGOTTEN: usize = 1 << 20;
/// How often deadlines are checked.
const TICK: Duration = Duration::from_millis(500);
/// A full worker closes at most this fraction of its connections at each check.
const FRACTION: usize = 16;
/// How long a connection may still send a request when the worker has to end.
const LAST_MOMENT: Duration = Duration::from_millis(300);

/// The signal for all workers of a server.
#[derive(Debug, Default)]
pub(crate) struct Signal(AtomicU8);

impl Signal {
    const DRAIN: u8 = 1;
    const STOP: u8 = 2;

    /// Requests that the workers answer the received requests, then end.
    pub(crate) fn drain(&self) {
        // Relaxed, here and below: a system call after it wakes the waiting threads.
        self.0.fetch_max(Self::DRAIN, Ordering::Relaxed);
    }

    /// Requests that the workers end at once.
    pub(crate) fn stop(&self) {
        self.0.fetch_max(Self::STOP, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Self::DRAIN
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Self::STOP
    }
}

/// The rules of a worker.
pub(crate) struct Rules {
    pub(crate) spoken: ProtocolKind,
    pub(crate) patience: Patience,
    /// The most connections; further ones wait to be accepted.
    pub(crate) most_connections: usize,
    /// The limit of connections from one address.
    pub(crate) peers: Option<Arc<Peers>>,
    /// The logs of requests.
    pub(crate) logs: AccessLogs,
}

/// Takes reports when they are due: a report is made only then.
pub(crate) type Reports<'a> = dyn FnMut(&dyn Fn() -> ServerReport) + 'a;

/// See the module.
pub(crate) struct Worker<D, R, S, F: Source> {
    driver: D,
    connections: R,
    contents: FreshContents<S, F>,
    responder: Responder,
    rules: Rules,
    signal: Arc<Signal>,
    listeners: Vec<SocketId>,
    accepting: bool,
    counts: Counts,
    latency: Latency,
    /// The errors of the driver.
    backoff: ErrorBackoff,
    began: Instant,
}

impl<D, R, S, F> Worker<D, R, S, F>
where
    D: Driver<Payload>,
    R: Requests<Connection<F::Handle>>,
    S: Store,
    F: Source,
{
    pub(crate) fn new(
        driver: D,
        contents: FreshContents<S, F>,
        responder: Responder,
        rules: Rules,
        signal: Arc<Signal>,
    ) -> Worker<D, R, S, F> {
        Worker {
            driver,
            connections: R::default(),
            contents,
            responder,
            rules,
            signal,
            listeners: Vec::new(),
            accepting: false,
            counts: Counts::default(),
            latency: Latency::new(),
            backoff: ErrorBackoff::default(),
            began: Instant::now(),
        }
    }

    /// Accepts from a socket that listens.
    pub(crate) fn listen(&mut self, socket: OwnedFd) -> io::Result<()> {
        stop_pacing(&socket);
        // In the simple protocol, the end of the stream is the end of the contents. Accepted
        // connections inherit this option, which makes the system reset the connections of a
        // process that dies. When an answer is complete, the worker removes the option from the
        // connection.
        let resets = self.rules.spoken != ProtocolKind::Http;
        set_socket_linger(&socket, resets.then_some(Duration::ZERO))?;
        let listener = self.driver.add(socket)?;
        self.listeners.push(listener);
        self.driver.accept(listener);
        self.accepting = true;
        Ok(())
    }

    /// Serves until the signal ends it. Calls `report` about twice a second, with a function that
    /// makes a report.
    pub(crate) fn run(mut self, report: &mut Reports<'_>) {
        let (mut done, mut due) = (Vec::new(), Instant::now() + TICK);
        while !self.is_over() {
            let left = due.saturating_duration_since(Instant::now());
            match self.driver.wait(Some(left), &mut done) {
                Ok(()) => self.backoff.succeeded(),
                Err(error) => self.cope(&error),
            }
            (self.responder.now, self.responder.wall) = (Instant::now(), SystemTime::now());
            for event in done.drain(..) {
                self.handle(event);
            }
            if self.signal.is_draining() && !self.responder.closing {
                self.drain();
            }
            if self.responder.now >= due {
                due = self.responder.now + TICK;
                self.tick();
                report(&|| self.report());
            }
            self.rules.logs.flush();
        }
        report(&|| self.report());
    }

    /// Waiting for the sockets failed: for lack of memory, which may be over soon.
    #[cold]
    fn cope(&mut self, error: &io::Error) {
        let is_news = self.backoff.failed(&error.to_string(), Instant::now());
        if let Some(log) = self.rules.logs.ring.as_ref().filter(|_| is_news) {
            let text = format_args!("cannot wait for its sockets: {error}; retrying");
            let _ = log.print(LogLevel::Error, text);
        }
        std::thread::sleep(self.backoff.pause());
    }

    fn is_over(&self) -> bool {
        let is_idle = self.listeners.is_empty() && self.connections.count() == 0;
        self.signal.is_over() || (self.responder.closing && is_idle)
    }

    fn report(&self) -> ServerReport {
        ServerReport {
            pid: std::process::id(),
            running_ms: self.began.elapsed().as_millis() as u64,
            counts: Counts { open: self.connections.count() as u64, ..self.counts },
            store: self.contents.store().stat(),
            latency_us: self.latency.occurred(),
            ..ServerReport::default()
        }
    }

    fn handle(&mut self, event: Done<Payload>) {
        match event {
            Done::Accepted { result: Ok(socket), .. } => self.accepted(socket),
            // It was the last event of this listener.
            Done::Accepted { listener, result: Err(_) } if self.responder.closing => {
                self.listeners.retain(|&other| other != listener);
            }
            // Descriptors have run out, or memory: the next tick tries again.
            Done::Accepted { result: Err(_), .. } => self.accepting = false,
            Done::Received { socket, buffer, result } => self.received(socket, buffer, result),
            Done::Sent { socket, payload, result } => self.sent(socket, payload, result),
            Done::Woken => {}
        }
    }

    fn accepted(&mut self, socket: OwnedFd) {
        let peer = match self.rules.logs.is_on() {
            true => peer_of(&socket),
            false => String::new(),
        };
        let Some(admission) = self.admission(&socket) else { return self.refuse(socket) };
        let Ok(id) = self.driver.add(socket) else { return };
        self.counts.accepted += 1;
        let mut connection = Connection::new(self.responder.now, &self.rules.patience);
        connection.peer = peer;
        if admission.as_ref().is_some_and(|admission| admission.is_excess) {
            connection.deadline = connection.deadline.min(self.responder.now + EXCESS_PATIENCE);
        }
        connection.admission = admission;
        if self.responder.closing {
            connection.deadline = self.responder.now + LAST_MOMENT;
        }
        self.connections.insert(id, connection);
        self.receive(id);
        if self.connections.count() >= self.rules.most_connections {
            self.pause();
        }
    }

    /// The admission of a connection, if there is a limit for its address; `None` if it has to end
    /// at once.
    fn admission(&self, socket: &OwnedFd) -> Option<Option<Admission>> {
        let Some(peers) = &self.rules.peers else { return Some(None) };
        let Some(address) = address_of(socket) else { return Some(None) };
        peers.admit(address, self.responder.now).map(Some)
    }

    /// Ends a connection at once, by a reset: a mere end could be that of an empty file.
    #[cold]
    fn refuse(&mut self, socket: OwnedFd) {
        self.counts.accepted += 1;
        self.counts.refused += 1;
        // It can only fail because the peer has left.
        let _ = set_socket_linger(&socket, Some(Duration::ZERO));
    }

    fn pause(&mut self) {
        self.accepting = false;
        self.listeners.iter().for_each(|&listener| self.driver.pause(listener));
    }

    /// Accepts again, if accepting had stopped for lack of room, and there is room.
    fn accept_again(&mut self) {
        let has_room = self.connections.count() < self.rules.most_connections;
        if !self.accepting && has_room && !self.responder.closing {
            self.accepting = true;
            self.listeners.iter().for_each(|&listener| self.driver.accept(listener));
        }
    }

    fn close(&mut self, socket: SocketId) {
        self.connections.remove(socket);
        self.driver.shut(socket);
        self.accept_again();
    }

    fn received(&mut self, socket: SocketId, mut buffer: Vec<u8>, result: io::Result<usize>) {
        let Some(connection) = self.connections.get(socket) else { return };
        connection.is_receiving = false;
        match result {
            Err(_) => return self.reset(socket),
            Ok(0) => connection.ended = true,
            Ok(_) => {}
        }
        match connection.phase {
            Phase::Idle | Phase::Receiving => {
                if connection.phase == Phase::Idle && !buffer.is_empty() {
                    connection.phase = Phase::Receiving;
                    if !connection.is_excess() {
                        connection.deadline = self.responder.now + self.rules.patience.head;
                    }
                }
                connection.input = buffer;
                self.advance(socket);
            }
            // The request timed out while it was received; the bytes are processed when the answer
            // is sent.
            Phase::Sending => connection.input = buffer,
            Phase::Closing if connection.ended || connection.forgotten > MOST_FORGOTTEN => {
                self.close(socket);
            }
            Phase::Closing => {
                connection.forgotten += buffer.len();
                buffer.clear();
                connection.input = buffer;
                self.receive(socket);
            }
        }
    }

    /// Processes received bytes: answers the next request, or receives more.
    fn advance(&mut self, socket: SocketId) {
        let Worker { driver, connections, responder, contents, rules, .. } = self;
        let Some(connection) = connections.get(socket) else { return };
        let input = connection.rest();
        if input.is_empty() && connection.ended {
            return self.close(socket);
        }
        let beginning = match connection.is_http {
            true => Beginning::Http,
            false => begin(rules.spoken, &*responder.layout, input, connection.ended),
        };
        let is_both = rules.spoken == ProtocolKind::Both;
        if is_both && beginning == Beginning::Http && !connection.is_http {
            end_regularly(driver, socket);
        }
        let has_log = rules.logs.is_on();
        let (reply, len) = match beginning {
            Beginning::Unknown => return self.receive(socket),
            Beginning::Simple(_) if connection.is_excess() => {
                self.counts.refused += 1;
                return self.reset(socket);
            }
            Beginning::Simple(id) => {
                let asked = log_of(has_log, || Asked::simple(&input[id.clone()]));
                let reply = responder.simple(contents, &input[id.clone()]);
                connection.asked = asked;
                (reply, id.end)
            }
            Beginning::Http => match head::read(input) {
                Ok(Some((head, len))) => {
                    let asked = log_of(has_log, || Asked::http(&head));
                    let reply = match connection.is_excess() {
                        false => responder.http(contents, &head),
                        true => responder.too_many(head.method == Method::Head),
                    };
                    (connection.is_http, connection.asked) = (true, asked);
                    (reply, len)
                }
                Ok(None) if connection.ended => return self.close(socket),
                Ok(None) => {
                    connection.is_http = true;
                    return self.receive(socket);
                }
                Err(wrong) => {
                    let (asked, len) = (log_of(has_log, || Asked::malformed(input)), input.len());
                    connection.asked = asked;
                    (responder.refuse(wrong), len)
                }
            },
        };
        connection.take(len);
        self.answer(socket, reply);
    }

    fn receive(&mut self, socket: SocketId) {
        let Some(connection) = self.connections.get(socket) else { return };
        // A request that timed out is answered while more is being received.
        if !connection.is_receiving {
            connection.is_receiving = true;
            let input = connection.lend_input();
            self.driver.receive(socket, input, RECEIVE);
        }
    }

    /// Begins to send an answer.
    fn answer(&mut self, socket: SocketId, reply: Reply<F::Handle>) {
        let Some(connection) = self.connections.get(socket) else { return };
        let counts = &mut self.counts;
        counts.requests += 1;
        match reply.status {
            404 => counts.not_found += 1,
            400.. => counts.refused += 1,
            _ => match reply.origin {
                Some(Origin::Kept) => counts.hits += 1,
                Some(Origin::Read) => counts.misses += 1,
                Some(Origin::Source) => counts.direct += 1,
                None => {}
            },
        }
        connection.begin(reply, self.responder.now);
        self.send_next(socket);
    }

    /// Sends the next piece of the answer, or ends it.
    fn send_next(&mut self, socket: SocketId) {
        let Some(connection) = self.connections.get(socket) else { return };
        match payload(connection, self.contents.source()) {
            Ok(Some(payload)) => {
                connection.deadline = self.responder.now + self.rules.patience.send;
                self.driver.send(socket, payload);
            }
            Ok(None) => self.answered(socket),
            Err(_) => self.broken(socket),
        }
    }

    fn sent(&mut self, socket: SocketId, mut payload: Payload, result: io::Result<usize>) {
        let Some(connection) = self.connections.get(socket) else { return };
        // Nothing is sent when a file has become shorter than its announced length.
        let Ok(len @ 1..) = result else { return self.broken(socket) };
        connection.answer.bytes += len as u64;
        self.counts.bytes += len as u64;
        // Also after the last part: the client may not have received it yet.
        if payload.is_mixed() {
            return self.broken(socket);
        }
        if payload.advance(len) > 0 {
            connection.deadline = self.responder.now + self.rules.patience.send;
            return self.driver.send(socket, payload);
        }
        if let Some(contents) = payload.into_contents() {
            self.contents.recycle(contents);
        }
        self.send_next(socket);
    }

    /// Ends a connection whose answer cannot be completed, so that the client notices: in the
    /// simple protocol the end of a stream would be the end of the contents.
    fn broken(&mut self, socket: SocketId) {
        self.counts.broken += 1;
        self.note(socket, " broken");
        self.reset(socket);
    }

    /// Closes a connection with a reset, so that its peer does not take the end for the end of
    /// contents.
    fn reset(&mut self, socket: SocketId) {
        if let Some(connection) = self.driver.release(socket) {
            // It can only fail because the peer has left. Closing then discards bytes that were
            // sent and not received.
            let _ = set_socket_linger(&connection, Some(Duration::ZERO));
        }
        self.close(socket);
    }

    /// The answer is sent: continues with the next request, or ends.
    fn answered(&mut self, socket: SocketId) {
        self.note(socket, "");
        let Some(connection) = self.connections.get(socket) else { return };
        self.latency.record(self.responder.now.saturating_duration_since(connection.answer.began));
        let patience = &self.rules.patience;
        // A draining worker also keeps the connection: the next answer announces that it closes.
        if connection.answer.keep {
            let idle = match self.responder.closing {
                true => patience.idle.min(LAST_MOMENT),
                false => patience.idle,
            };
            let is_idle = connection.rest().is_empty();
            (connection.phase, connection.deadline) = match is_idle {
                true => (Phase::Idle, self.responder.now + idle),
                false => (Phase::Receiving, self.responder.now + patience.head),
            };
            return match is_idle && !connection.ended {
                true => self.receive(socket),
                false => self.advance(socket),
            };
        }
        if !connection.is_http {
            end_regularly(&mut self.driver, socket);
        }
        if connection.ended {
            return self.close(socket);
        }
        (connection.phase, connection.deadline) =
            (Phase::Closing, self.responder.now + patience.close);
        self.driver.finish(socket);
        self.receive(socket);
    }

    /// Writes an answer into the logs.
    fn note(&mut self, socket: SocketId, how: &str) {
        if !self.rules.logs.is_on() {
            return;
        }
        if let Some(connection) = self.connections.get(socket) {
            let times = (self.responder.now, self.responder.wall);
            self.rules.logs.print(connection, times, how);
        }
    }
}

/// From now on, closing the connection sends the remaining bytes and no reset.
fn end_regularly(driver: &mut impl Driver<Payload>, socket: SocketId) {
    if let Some(connection) = driver.descriptor(socket) {
        // It can only fail because the peer has left.
        let _ = set_socket_linger(connection, None);
    }
}

/// The next piece that is not empty, as a payload; `None` after the last.
fn payload<F: Source>(connection: &mut Connection<F::Handle>, source: &F) -> Made {
    while let Some(piece) = connection.next_piece() {
        match piece {
            Piece::Ready(payload) if payload.is_empty() => {}
            Piece::Ready(payload) => return Ok(Some(payload)),
            Piece::Open { handle, range } => {
                let bytes = next(source, &handle, &range)?;
                let (len, rest) = (bytes.len(), range.start + bytes.len() as u64..range.end);
                if !rest.is_empty() {
                    connection.put_back(Piece::Open { handle, range: rest });
                }
                return Ok(Some(Payload::contents(Vec::new(), bytes.into(), 0..len)));
            }
        }
    }
    Ok(None)
}

fn log_of(has_log: bool, asked: impl FnOnce() -> Asked) -> Asked {
    if has_log { asked() } else { Asked::default() }
}
