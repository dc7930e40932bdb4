//! A thread of an origin: its driver, and the replicas that it serves.
//!
//! Each replica has at most one send and one receive outstanding. A replica that has taken its last
//! send gets more changes at once, and pairs of a full sync when it is its turn. The other replicas
//! had nothing to get; they have their turn when the stream has grown (`watch`), and a few times a
//! second.
//!
//! Invariant: in each round, changes come first. All full syncs together then get [`SYNC_BYTES`] of
//! pairs, so the number of joining replicas does not delay changes.

use crate::origin::acks::Acks;
use crate::origin::admission;
use crate::origin::session::{NO_PLACE, Session, Subscriber};
use crate::origin::subscriber_table::{Known, Order, ServingThread, SubscriberTable};
use crate::protocol::payload::Payload;
use crate::protocol::wire::{Broken, broken};
use commonhold::fault;
use commonhold_io::sockets::{self, Chosen, Done, Driver, ErrorBackoff, SocketId, WithDriver};
use commonhold_io::thread_patience::with_patience;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The number of bytes that are received at a time: replicas send little.
const RECEIVE: usize = 1 << 10;
/// How often all replicas are checked.
const TICK: Duration = Duration::from_millis(100);
/// The same, while a change is being made and the end of a full sync is therefore not known.
const SHORT_TICK: Duration = Duration::from_millis(2);
/// Each round accepts one connection, and sending a change to a thousand replicas takes so long
/// that waiting clients would time out. So accepting comes first, at most this many rounds in a
/// row.
const MOST_PUT_OFF: u32 = 32;
/// The bytes of pairs that all full syncs get in a round, and one more piece.
const SYNC_BYTES: usize = 256 << 10;
/// How long accepting pauses after descriptors had run out.
const RETRY_ACCEPT: Duration = Duration::from_millis(500);

/// How long a call that is not about sending may wait for a stopped process.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

/// The time between two receipts from one replica, for each replica of the thread: replicas report
/// all changes that they apply, and many of them together must not hold up the sending. A full
/// buffer is followed by the next one at once.
const BETWEEN_RECEIPTS: Duration = Duration::from_micros(20);

/// The longest time until the end.
const LONGEST: Duration = Duration::from_secs(3600);

/// Starts thread `number` of an origin.
///
/// # Errors
/// Those of making threads and loops.
pub(crate) fn start(table: &Arc<SubscriberTable>, number: usize) -> io::Result<JoinHandle<()>> {
    let (orders, ordered) = mpsc::channel();
    let (made, ready) = mpsc::channel();
    let serving = Serving { table: Arc::clone(table), number, ordered, orders, made: made.clone() };
    fault!("origin.thread")?;
    let thread = std::thread::Builder::new().name(format!("origin {number}")).spawn(move || {
        let options = sockets::Options::default();
        if let Err(error) = sockets::choose(serving.table.options.kind, &options, serving) {
            let _ = made.send(Err(error));
        }
    })?;
    match ready.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the thread has ended")),
    }
}

/// Ends all threads; before that, they send all changes, at most for `time`.
pub(crate) fn end(table: &SubscriberTable, time: Duration) {
    table.order_all(|| Order::Finish(time));
}

/// The parts that a thread begins with.
struct Serving {
    table: Arc<SubscriberTable>,
    number: usize,
    ordered: Receiver<Order>,
    orders: mpsc::Sender<Order>,
    made: mpsc::Sender<io::Result<()>>,
}

impl WithDriver<Payload> for Serving {
    type Output = ();

    fn run<D: Driver<Payload>>(self, driver: D, chosen: Chosen) {
        if chosen.instead.is_some() && self.number == 0 {
            self.table.note(&format!("the I/O loop is {chosen}"));
        }
        self.table.add_thread(ServingThread { orders: self.orders, waker: driver.waker() });
        let _ = self.made.send(Ok(()));
        let server = Server::new(driver, self.table, self.number, self.ordered);
        server.run();
    }
}

/// One replica of this thread.
struct Served {
    session: Session,
    subscriber: Arc<Subscriber>,
    /// Whether it waits for its turn in a full sync.
    has_turn: bool,
}

struct Server<D> {
    driver: D,
    table: Arc<SubscriberTable>,
    number: usize,
    ordered: Receiver<Order>,
    listeners: Vec<SocketId>,
    sessions: HashMap<SocketId, Served>,
    /// The replicas that had nothing to get.
    idle: HashSet<SocketId>,
    /// The replicas in a full sync that have taken their last piece, in the order of their turns.
    turns: VecDeque<SocketId>,
    /// The rounds since the stream has grown in which a connection was accepted, and no change was
    /// sent to those that had nothing to get.
    put_off: Option<u32>,
    /// When all replicas are checked next.
    tick: Instant,
    /// When one of those that had nothing to get has something, although the stream does not grow.
    due: Option<Instant>,
    /// How many of these do not know yet from which position on their map equals the origin's.
    waiting: usize,
    /// The reports of the replicas, which are noted in the hold.
    acks: Acks,
    /// The replicas from which nothing is received until these times.
    receive_later: VecDeque<(Instant, SocketId)>,
    accept_again: Option<Instant>,
    /// The time when it ends at the latest. Until then, a replica that has everything gets the end
    /// of its connection.
    finish_by: Option<Instant>,
    /// The errors of the driver.
    backoff: ErrorBackoff,
}

impl<D: Driver<Payload>> Server<D> {
    fn new(
        driver: D,
        table: Arc<SubscriberTable>,
        number: usize,
        ordered: Receiver<Order>,
    ) -> Server<D> {
        Server {
            driver,
            table,
            number,
            ordered,
            listeners: Vec::new(),
            sessions: HashMap::new(),
            idle: HashSet::new(),
            turns: VecDeque::new(),
            put_off: None,
            tick: Instant::now(),
            due: None,
            waiting: 0,
            acks: Acks::default(),
            receive_later: VecDeque::new(),
            accept_again: None,
            finish_by: None,
            backoff: ErrorBackoff::default(),
        }
    }

    fn run(mut self) {
        let mut done = Vec::new();
        while !self.is_over() {
            self.round(&mut done);
        }
        // The connections end although a forked child has copies of the sockets.
        self.sessions.keys().for_each(|socket| self.driver.finish(*socket));
    }

    /// Waits, and handles what has happened.
    fn round(&mut self, done: &mut Vec<Done<Payload>>) {
        let pause = if self.put_off.is_some() { Duration::ZERO } else { self.pause() };
        match self.driver.wait(Some(pause), done) {
            Ok(()) => self.backoff.succeeded(),
            Err(error) => self.cope(&error.to_string()),
        }
        let (mut woken, mut admitted) = (self.put_off.is_some(), false);
        for done in done.drain(..) {
            woken |= matches!(done, Done::Woken);
            admitted |= matches!(done, Done::Accepted { result: Ok(_), .. });
            self.handle(done);
        }
        let now = Instant::now();
        self.receive_again(now);
        self.acks.write(&self.table, now);
        // Also without a waking: the waker may fail.
        if woken || now >= self.tick {
            self.obey();
        }
        if now >= self.tick {
            self.tick = now + if self.waiting > 0 { SHORT_TICK } else { TICK };
            self.tick(now);
            woken = true;
        }
        if self.due.is_some_and(|due| now >= due) {
            self.due = None;
            woken = true;
        }
        let put_off = self.put_off.or(woken.then_some(0)).filter(|_| admitted);
        self.put_off = put_off.map(|rounds| rounds + 1);
        if woken && self.put_off.is_none_or(|rounds| rounds > MOST_PUT_OFF) {
            self.talk_to_idle();
            self.put_off = None;
        }
        if self.put_off.is_none() {
            self.continue_syncs();
        }
    }

    #[cold]
    fn cope(&mut self, error: &str) {
        if self.backoff.failed(error, Instant::now()) {
            self.table.note(&format!("cannot wait for its sockets: {error}; retrying"));
        }
        std::thread::sleep(self.backoff.pause());
    }

    /// The time to sleep, if nothing happens. Requests a waking for when the stream grows.
    fn pause(&self) -> Duration {
        let offsets = self.idle.iter().filter_map(|id| self.sessions.get(id)?.session.offset());
        if let Some(offset) = offsets.min() {
            self.table.ask(self.number, offset);
        }
        if !self.turns.is_empty() {
            return Duration::ZERO;
        }
        let receipt = self.receive_later.front().map(|(at, _)| *at);
        let next = [receipt, self.acks.due(), self.due]
            .into_iter()
            .flatten()
            .fold(self.tick, Instant::min);
        next.saturating_duration_since(Instant::now())
    }

    /// True when all replicas have taken everything and disconnected, or the time is over.
    fn is_over(&self) -> bool {
        self.finish_by.is_some_and(|by| self.sessions.is_empty() || Instant::now() >= by)
    }

    fn obey(&mut self) {
        while let Ok(order) = self.ordered.try_recv() {
            match order {
                Order::Listen { socket, begun } => {
                    // The caller may no longer wait.
                    let _ = begun.send(self.listen(socket));
                }
                Order::Serve { id, socket, known } => self.serve(id, socket, known),
                Order::Dismiss(id) => {
                    let of = |(socket, served): (&SocketId, &Served)| {
                        (served.session.id == id).then_some(*socket)
                    };
                    if let Some(socket) = self.sessions.iter().find_map(of) {
                        self.dismiss(socket, "detached");
                    }
                }
                Order::Finish(time) => {
                    self.listeners.drain(..).for_each(|listener| self.driver.shut(listener));
                    let now = Instant::now();
                    self.finish_by = Some(now.checked_add(time).unwrap_or(now + LONGEST));
                }
            }
        }
    }

    fn listen(&mut self, socket: OwnedFd) -> io::Result<()> {
        let listener = self.driver.add(socket)?;
        self.listeners.push(listener);
        self.driver.accept(listener);
        Ok(())
    }

    fn handle(&mut self, done: Done<Payload>) {
        match done {
            Done::Accepted { result: Ok(socket), .. } => self.admit(socket),
            Done::Accepted { result: Err(error), .. } if self.finish_by.is_none() => {
                self.table.note(&format!("cannot accept connections: {error}; retrying"));
                self.accept_again = Some(Instant::now() + RETRY_ACCEPT);
            }
            Done::Received { socket, buffer, result } => self.received(socket, buffer, result),
            Done::Sent { socket, payload, result } => self.sent(socket, payload, result),
            Done::Accepted { .. } | Done::Woken => {}
        }
    }

    /// Admits a connection to a listener.
    fn admit(&mut self, socket: OwnedFd) {
        let peer = match admission::peer_of(&self.table.options, &socket) {
            Ok(peer) => peer,
            Err(refusal) => return self.table.note_stranger(&refusal),
        };
        match self.table.admit(peer.clone()) {
            Some(id) => self.table.order(id, Order::Serve { id, socket, known: None }),
            None => self.table.note_stranger(&format!("{peer}: {NO_PLACE}")),
        }
    }

    fn serve(&mut self, id: u64, socket: OwnedFd, known: Option<Box<Known>>) {
        let Some(subscriber) = self.table.subscriber(id) else { return };
        let may_pack = self.table.options.compression.allows(socket.as_fd());
        match self.driver.add(socket) {
            Ok(socket) => {
                let mut session = Session::new(id, may_pack);
                let begun =
                    known.map(|known| session.begin_known(*known, &self.table, &subscriber));
                self.sessions.insert(socket, Served { session, subscriber, has_turn: false });
                self.idle.insert(socket);
                match begun {
                    Some(begun) => self.processed(socket, begun, true, false),
                    None => self.driver.receive(socket, Vec::new(), RECEIVE),
                }
            }
            Err(error) => {
                self.table.dismissed(id);
                self.table.note(&format!("{}: cannot serve it: {error}", subscriber.peer));
            }
        }
    }

    fn received(&mut self, socket: SocketId, buffer: Vec<u8>, result: io::Result<usize>) {
        let Some(Served { session, subscriber, .. }) = self.sessions.get_mut(&socket) else {
            return;
        };
        let was_known = session.is_known();
        let used = match &result {
            Ok(0) => broken("has gone"),
            Ok(_) => {
                session.inbox.put(buffer);
                session.received(&self.table, subscriber)
            }
            Err(error) => broken(error.to_string()),
        };
        self.processed(socket, used, result.is_ok_and(|bytes| bytes >= RECEIVE), was_known);
    }

    /// Receives more from a replica whose bytes were processed, and sends to it, unless the bytes
    /// have a fault.
    fn processed(
        &mut self,
        socket: SocketId,
        used: Result<(), Broken>,
        was_full: bool,
        was_known: bool,
    ) {
        let Some(Served { session, subscriber, .. }) = self.sessions.get_mut(&socket) else {
            return;
        };
        session.take_ack().into_iter().for_each(|ack| self.acks.note(ack));
        match used {
            Ok(()) => {
                if let Some(joined) = session.take_joined() {
                    self.table.note(&format!("{}: {joined}", subscriber.peer));
                }
                self.receive_next(socket, was_full);
                // Reports need no answer, and must not make batches smaller.
                if !was_known {
                    self.talk(socket);
                }
            }
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
    }

    /// Receives from a replica again, at once or later.
    fn receive_next(&mut self, socket: SocketId, was_full: bool) {
        let between = (BETWEEN_RECEIPTS * self.sessions.len() as u32).min(TICK);
        let Some(Served { session, .. }) = self.sessions.get_mut(&socket) else { return };
        let now = Instant::now();
        let before = session.received_at.replace(now).filter(|_| session.is_known());
        match before.map(|before| before + between).filter(|at| *at > now && !was_full) {
            Some(at) => self.receive_later.push_back((at, socket)),
            None => self.driver.receive(socket, session.inbox.take(), RECEIVE),
        }
    }

    /// Receives from the replicas that were left alone for long enough.
    fn receive_again(&mut self, now: Instant) {
        while let Some((_, socket)) = self.receive_later.front().filter(|(at, _)| *at <= now) {
            if let Some(Served { session, .. }) = self.sessions.get_mut(socket) {
                self.driver.receive(*socket, session.inbox.take(), RECEIVE);
            }
            self.receive_later.pop_front();
        }
    }

    fn sent(&mut self, socket: SocketId, payload: Payload, result: io::Result<usize>) {
        let Some(Served { session, subscriber, .. }) = self.sessions.get_mut(&socket) else {
            return;
        };
        let rest = match result {
            Ok(bytes) => session.sent(payload, bytes, subscriber),
            Err(error) => broken(error.to_string()),
        };
        session.take_ack().into_iter().for_each(|ack| self.acks.note(ack));
        match rest {
            Ok(Some(rest)) => {
                session.progress_send(Instant::now());
                self.driver.send(socket, rest);
            }
            Ok(None) => {
                session.end_send(&self.table.in_common.pair_bytes);
                self.talk(socket);
            }
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
    }

    /// Sends a replica its next bytes, unless a send is outstanding. For pairs it waits for its
    /// turn.
    fn talk(&mut self, socket: SocketId) {
        let Some(Served { session, has_turn, .. }) = self.sessions.get_mut(&socket) else { return };
        if session.is_sending() || session.finished {
            return;
        }
        if !session.is_next_bulk() {
            self.send_next(socket);
        } else if !std::mem::replace(has_turn, true) {
            self.turns.push_back(socket);
        }
    }

    /// Sends the replicas in a full sync their next pairs, in turn.
    fn continue_syncs(&mut self) {
        let mut sent = 0;
        while sent < SYNC_BYTES
            && let Some(socket) = self.turns.pop_front()
        {
            if let Some(served) = self.sessions.get_mut(&socket) {
                served.has_turn = false;
                sent += self.send_next(socket);
            }
        }
    }

    /// Sends a replica its next bytes, and returns their number.
    fn send_next(&mut self, socket: SocketId) -> usize {
        let Some(Served { session, .. }) = self.sessions.get_mut(&socket) else { return 0 };
        let (now, pair_bytes) = (Instant::now(), &self.table.in_common.pair_bytes);
        match session.next(self.table.limit(), now, pair_bytes.has_room()) {
            Ok(Some(payload)) => {
                let bytes = session.begin_send(&payload, pair_bytes, now) + session.take_passed();
                self.idle.remove(&socket);
                self.driver.send(socket, payload);
                return bytes;
            }
            Ok(None) => {
                self.idle.insert(socket);
                let due = session.due();
                self.due = [self.due, due].into_iter().flatten().min();
                if self.finish_by.is_some() && !session.is_end_due() && due.is_none() {
                    self.finish_session(socket);
                }
            }
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
        0
    }

    /// Ends the connection of a replica that has everything.
    fn finish_session(&mut self, socket: SocketId) {
        match self.sessions.get_mut(&socket).map(|served| &mut served.session) {
            Some(session) if session.is_known() => {
                // The replica closes the connection when it has read this far; closing it here
                // might destroy bytes in flight.
                session.finished = true;
                self.driver.finish(socket);
            }
            _ => self.dismiss(socket, "had not identified itself yet"),
        }
    }

    fn talk_to_idle(&mut self) {
        for socket in self.idle.iter().copied().collect::<Vec<_>>() {
            self.talk(socket);
        }
        let waits = |id: &&SocketId| {
            self.sessions.get(id).is_some_and(|served| served.session.waits_for_end())
        };
        self.waiting = self.idle.iter().filter(waits).count();
        if self.waiting > 0 {
            // A dead process's change may hide the end. All replicas wait during this recovery.
            let _ = with_patience(MOMENT, || self.table.hold.sweep());
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.accept_again.is_some_and(|at| now >= at) {
            self.accept_again = None;
            self.listeners.iter().for_each(|listener| self.driver.accept(*listener));
        }
        let overdue = |(socket, served): (&SocketId, &Served)| {
            served.session.is_overdue(now).then_some(*socket)
        };
        for socket in self.sessions.iter().filter_map(overdue).collect::<Vec<_>>() {
            self.dismiss(socket, "did not identify itself in time");
        }
        let stuck = |(socket, served): (&SocketId, &Served)| {
            served.session.is_stuck(&self.table.in_common.pair_bytes, now).then_some(*socket)
        };
        for socket in self.sessions.iter().filter_map(stuck).collect::<Vec<_>>() {
            self.dismiss(socket, "does not take its bytes, or takes them too slowly");
        }
        // Replicas that take nothing would otherwise stay forever.
        let left_behind = |(socket, served): (&SocketId, &Served)| {
            let kept = served.session.ensure_kept();
            kept.err().map(|Broken(why)| (*socket, why))
        };
        for (socket, why) in self.sessions.iter().filter_map(left_behind).collect::<Vec<_>>() {
            self.dismiss(socket, &why);
        }
    }

    fn dismiss(&mut self, socket: SocketId, why: &str) {
        // A forked child may have the socket, too: its connection ends all the same.
        self.driver.finish(socket);
        self.driver.shut(socket);
        self.idle.remove(&socket);
        if let Some(Served { mut session, subscriber, .. }) = self.sessions.remove(&socket) {
            session.end_send(&self.table.in_common.pair_bytes);
            self.table.dismissed(session.id);
            match session.left(&subscriber) {
                Some(left) => self.table.note(&format!("{}: {left}{why}", subscriber.peer)),
                None => self.table.note_stranger(&format!("{}: {why}", subscriber.peer)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
