//! A thread of an origin: its driver, and the replicas that it serves.
//!
//! Each replica has at most one send and one receive outstanding. A replica that has taken its last
//! send gets more at once. The other replicas had nothing to get; they have their turn when the
//! stream has grown (`watch`), and a few times a second.

use crate::origin::session::{Session, Subscriber};
use crate::origin::subscriber_table::{Order, ServingThread, SubscriberTable};
use crate::protocol::payload::Payload;
use crate::protocol::wire::{Broken, broken};
use commonhold::fault;
use commonhold_io::address;
use commonhold_io::sockets::{self, Chosen, Done, Driver, ErrorBackoff, SocketId, WithDriver};
use commonhold_io::thread_patience::with_patience;
use std::collections::{HashMap, HashSet};
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
/// How long accepting pauses after descriptors had run out.
const RETRY_ACCEPT: Duration = Duration::from_millis(500);

/// How long the recovery of a dead process's change may wait for a stopped process.
const MOMENT: Duration = Duration::from_millis(1);

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
        let server = Server {
            driver,
            table: self.table,
            number: self.number,
            ordered: self.ordered,
            listeners: Vec::new(),
            sessions: HashMap::new(),
            idle: HashSet::new(),
            waiting: 0,
            accept_again: None,
            finish_by: None,
            backoff: ErrorBackoff::default(),
        };
        server.run();
    }
}

/// One replica of this thread.
struct Served {
    session: Session,
    subscriber: Arc<Subscriber>,
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
    /// How many of these do not know yet from which position on their map equals the origin's.
    waiting: usize,
    accept_again: Option<Instant>,
    /// The time when it ends at the latest. Until then, a replica that has everything gets the end
    /// of its connection.
    finish_by: Option<Instant>,
    /// The errors of the driver.
    backoff: ErrorBackoff,
}

impl<D: Driver<Payload>> Server<D> {
    fn run(mut self) {
        let mut done = Vec::new();
        let mut tick = Instant::now();
        // The rounds since the stream has grown in which a connection was accepted, and nothing was
        // sent.
        let mut put_off = None;
        while !self.is_over() {
            let pause = if put_off.is_some() { Duration::ZERO } else { self.pause(tick) };
            match self.driver.wait(Some(pause), &mut done) {
                Ok(()) => self.backoff.succeeded(),
                Err(error) => self.cope(&error.to_string()),
            }
            let (mut woken, mut admitted) = (put_off.is_some(), false);
            for done in done.drain(..) {
                woken |= matches!(done, Done::Woken);
                admitted |= matches!(done, Done::Accepted { result: Ok(_), .. });
                self.handle(done);
            }
            let now = Instant::now();
            // Also without a waking: the waker may fail.
            if woken || now >= tick {
                self.obey();
            }
            if now >= tick {
                tick = now + if self.waiting > 0 { SHORT_TICK } else { TICK };
                self.tick(now);
                woken = true;
            }
            put_off = put_off.or(woken.then_some(0)).filter(|_| admitted).map(|rounds| rounds + 1);
            if woken && put_off.is_none_or(|rounds| rounds > MOST_PUT_OFF) {
                self.talk_to_idle();
                put_off = None;
            }
        }
        // The connections end although a forked child has copies of the sockets.
        self.sessions.keys().for_each(|socket| self.driver.finish(*socket));
    }

    #[cold]
    fn cope(&mut self, error: &str) {
        if self.backoff.failed(error, Instant::now()) {
            self.table.note(&format!("cannot wait for its sockets: {error}; retrying"));
        }
        std::thread::sleep(self.backoff.pause());
    }

    /// The time to sleep, if nothing happens. Requests a waking for when the stream grows.
    fn pause(&self, tick: Instant) -> Duration {
        let offsets = self.idle.iter().filter_map(|id| self.sessions.get(id)?.session.offset());
        if let Some(offset) = offsets.min() {
            self.table.ask(self.number, offset);
        }
        tick.saturating_duration_since(Instant::now())
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
                Order::Serve { id, socket } => self.serve(id, socket),
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
        let (peer, uid) = address::peer(socket.as_fd());
        // TCP does not reveal the user of a process. Over a unix socket, an unknown user is
        // refused.
        let wrong = |uids: &Vec<u32>| uid.is_none_or(|uid| !uids.contains(&uid));
        let is_unix = !peer.starts_with("tcp:");
        if is_unix && self.table.options.allowed_uids.as_ref().is_some_and(wrong) {
            let of = uid.map_or("an unknown user".to_owned(), |uid| format!("user {uid}"));
            return self.table.note(&format!("{peer}: refused: its process belongs to {of}"));
        }
        match self.table.admit(peer.clone()) {
            Some(id) => self.table.order(id, Order::Serve { id, socket }),
            None => self
                .table
                .note(&format!("{peer}: refused: the maximum number of replicas is connected")),
        }
    }

    fn serve(&mut self, id: u64, socket: OwnedFd) {
        let Some(subscriber) = self.table.subscriber(id) else { return };
        match self.driver.add(socket) {
            Ok(socket) => {
                self.sessions.insert(socket, Served { session: Session::new(id), subscriber });
                self.idle.insert(socket);
                self.driver.receive(socket, Vec::new(), RECEIVE);
            }
            Err(error) => {
                self.table.dismissed(id);
                self.table.note(&format!("{}: cannot serve it: {error}", subscriber.peer));
            }
        }
    }

    fn received(&mut self, socket: SocketId, buffer: Vec<u8>, result: io::Result<usize>) {
        let Some(Served { session, subscriber }) = self.sessions.get_mut(&socket) else { return };
        let (map, secret) = (&self.table.map(), self.table.options.secret.as_ref());
        let used = match result {
            Ok(0) => broken("has gone"),
            Ok(_) => {
                session.inbox.put(buffer);
                session.received(map, secret, subscriber)
            }
            Err(error) => broken(error.to_string()),
        };
        match used {
            Ok(()) => {
                if let Some(joined) = session.take_joined() {
                    self.table.note(&format!("{}: {joined}", subscriber.peer));
                }
                let buffer = session.inbox.take();
                self.driver.receive(socket, buffer, RECEIVE);
                self.talk(socket);
            }
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
    }

    fn sent(&mut self, socket: SocketId, payload: Payload, result: io::Result<usize>) {
        let Some(Served { session, subscriber }) = self.sessions.get_mut(&socket) else { return };
        session.sending = false;
        let rest = match result {
            Ok(bytes) => session.sent(payload, bytes, subscriber),
            Err(error) => broken(error.to_string()),
        };
        match rest {
            Ok(Some(rest)) => {
                session.sending = true;
                self.driver.send(socket, rest);
            }
            Ok(None) => self.talk(socket),
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
    }

    /// Sends a replica its next bytes, unless a send is outstanding.
    fn talk(&mut self, socket: SocketId) {
        let Some(Served { session, .. }) = self.sessions.get_mut(&socket) else { return };
        if session.sending || session.finished {
            return;
        }
        match session.next(self.table.limit(), Instant::now()) {
            Ok(Some(payload)) => {
                session.sending = true;
                self.idle.remove(&socket);
                self.driver.send(socket, payload);
            }
            Ok(None) => {
                self.idle.insert(socket);
                if self.finish_by.is_some() && !session.is_end_due() {
                    self.finish_session(socket);
                }
            }
            Err(Broken(why)) => self.dismiss(socket, &why),
        }
    }

    /// Ends the connection of a replica that has everything.
    fn finish_session(&mut self, socket: SocketId) {
        match self.sessions.get_mut(&socket).map(|served| &mut served.session) {
            Some(session) if session.offset().is_some() => {
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
        let waits = |id: &&SocketId| self.sessions.get(id).is_some_and(|s| s.session.is_end_due());
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
        if let Some(Served { session, subscriber }) = self.sessions.remove(&socket) {
            self.table.dismissed(session.id);
            let left = session.left(&subscriber).unwrap_or_default();
            self.table.note(&format!("{}: {left}{why}", subscriber.peer));
        }
    }
}
