//! The reading side: keeps a map of this machine's what a map elsewhere is.

use crate::replicate::address::Address;
use crate::replicate::delivery::now_ms;
use crate::replicate::inbox::Inbox;
use crate::replicate::intake::{Effect, Intake};
use crate::replicate::report::Reporter;
use crate::replicate::secret::{self, Secret, Side};
use crate::replicate::wire::{
    self, Broken, HANDSHAKE_FRAME, Hello, NONCE, PREFACE, Welcome, broken, code,
};
use commonhold::{Error, ErrorKind, Hold, RawFrame, Result, StreamFrame, StreamPosition};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are received at a time.
const RECEIVE: usize = 256 << 10;
/// How often the origin is told how far the replica has come, while something comes.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// An origin that says nothing for so long is taken for gone.
const SILENCE: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// What happens to a replica. Called by its thread: what takes long holds up the replica. Must not wait for the replica.
pub trait ReplicaEvents: Send {
    /// A change was applied. Not called for what a first or new synchronisation brings: that is one step, see
    /// [`ready`](Self::ready).
    fn changed(&mut self, _change: &StreamFrame<'_>) {}
    /// The map is what the origin's was at some moment after the connection was made: for the first time, or again after it was
    /// lost.
    fn ready(&mut self, _position: StreamPosition) {}
    /// The connection is lost, or could not be made; the replica tries again.
    fn lost(&mut self, _why: &str) {}
}

/// Nobody who wants to know.
impl ReplicaEvents for () {}

/// How a replica follows.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// What the origin wants to be proved, and has to prove.
    pub secret: Option<Secret>,
    /// The pause after the first failed connection; each next one is twice as long, up to `longest_pause`, and up to half longer or
    /// shorter, so that a thousand replicas do not come at the same time.
    pub first_pause: Duration,
    /// See `first_pause`.
    pub longest_pause: Duration,
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        let (first_pause, longest_pause) = (Duration::from_millis(50), Duration::from_secs(5));
        ReplicaOptions { secret: None, first_pause, longest_pause }
    }
}

/// How a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReplicaStatus {
    /// Its process.
    pub pid: u32,
    /// Its origin.
    pub origin: String,
    /// Whether the connection stands.
    pub connected: bool,
    /// Whether its map has been what the origin's was. It stays so while a new one is built.
    pub ready: bool,
    /// How far its map has come.
    pub position: Option<StreamPosition>,
    /// How many bytes of the stream it has not applied, by what the origin said last.
    pub lag_bytes: u64,
    /// About how many changes that is, by the mean size of those that came.
    pub lag_messages: u64,
    /// How old what the replica has is: from when the origin said where its stream ended to when all before that was applied; or since
    /// when it has said nothing, if that is longer. By the clocks of both machines.
    pub lag_ms: u64,
    /// Changes applied.
    pub changes: u64,
    /// Bytes of changes applied.
    pub bytes: u64,
    /// How often the whole map was sent.
    pub synchronisations: u64,
    /// How often a connection was made.
    pub connections: u64,
    /// Why the last connection ended.
    pub last_error: Option<String>,
}

/// Keeps a map in a hold what an origin's map is.
///
/// Every process that has the hold open reads it as any map; writing it is the error `ReadOnly`. Readers see
/// changes in each key's order; a first or a new synchronisation is built beside, and shown as a whole. If the connection is lost the
/// map stays as it is, and the replica tries to connect again; it goes on from where it was if the origin's stream still has
/// that, also after its own process was killed and started again.
///
/// Dropping it ends it; the map stays.
pub struct Replica {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    status: Mutex<ReplicaStatus>,
    changed: Condvar,
    /// Readable when the replica is to end.
    end: OwnedFd,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Where the origin is.
enum Source {
    /// To be connected to, again and again.
    Address(Address),
    /// Connected already; there is no other.
    Socket(Option<OwnedFd>),
}

impl Replica {
    /// Follows the origin at an address, with the map `name` of `hold`, which is made if it is not there. Returns at once.
    ///
    /// # Errors
    /// `Mismatch` if there is a map of this name that is no replica's; `Busy` if it has a replica already; `ReadOnly`; `Io` if there is no
    /// thread to be had.
    pub fn connect(
        hold: &Hold,
        name: &str,
        origin: &Address,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        start(hold, name, Source::Address(origin.clone()), options, events)
    }

    /// Follows the origin at the other end of a connected stream socket. When that ends, the replica stays as it is.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn attach(
        hold: &Hold,
        name: &str,
        socket: OwnedFd,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        start(hold, name, Source::Socket(Some(socket)), options, events)
    }

    /// How it is.
    pub fn status(&self) -> ReplicaStatus {
        lock(&self.shared.status).clone()
    }

    /// Waits until the map is what the origin's was; false if it was not within the time.
    pub fn wait_ready(&self, time: Duration) -> bool {
        self.wait(time, |status| status.ready)
    }

    /// Waits until the map has come to a position of the origin's stream; false if it has not within the time.
    pub fn wait_for(&self, position: StreamPosition, time: Duration) -> bool {
        let there =
            |at: StreamPosition| at.stream == position.stream && at.offset >= position.offset;
        self.wait(time, |status| status.position.is_some_and(there))
    }

    /// Waits until the status is such; false if it was not within the time.
    pub fn wait(&self, time: Duration, such: impl Fn(&ReplicaStatus) -> bool) -> bool {
        let status = lock(&self.shared.status);
        let waited = self.shared.changed.wait_timeout_while(status, time, |status| !such(status));
        such(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(
    hold: &Hold,
    name: &str,
    source: Source,
    options: ReplicaOptions,
    events: impl ReplicaEvents + 'static,
) -> Result<Replica> {
    let io = |what: &str, e: &dyn fmt::Display| Error::new(ErrorKind::Io, format!("{what}: {e}"));
    let end = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| io("cannot make an eventfd", &e))?;
    let intake = Intake::open(hold, name)?;
    let origin = match &source {
        Source::Address(address) => address.to_string(),
        Source::Socket(_) => "attached socket".to_owned(),
    };
    let status = ReplicaStatus {
        pid: std::process::id(),
        origin,
        ready: intake.position().is_some(),
        position: intake.position(),
        ..ReplicaStatus::default()
    };
    let shared = Arc::new(Shared { status: Mutex::new(status), changed: Condvar::new(), end });
    let reporter = Reporter::new(hold, "replica", name).ok();
    let follower =
        Follower { shared: Arc::clone(&shared), intake, options, events, reporter, tail: 0 };
    let thread = std::thread::Builder::new().name("replica".into());
    let thread = thread.stack_size(256 << 10).spawn(move || follower.run(source));
    let thread = thread.map_err(|e| io("cannot make a thread", &e))?;
    Ok(Replica { shared, thread: Some(thread) })
}

/// The replica's thread.
struct Follower<E> {
    shared: Arc<Shared>,
    intake: Intake,
    options: ReplicaOptions,
    events: E,
    reporter: Option<Reporter>,
    /// Where the origin's stream ended when it last said so.
    tail: u64,
}

impl<E: ReplicaEvents> Follower<E> {
    fn run(mut self, mut source: Source) {
        let mut pause = self.options.first_pause;
        loop {
            let ended = self.connect(&mut source);
            let arrived = self.intake.has_arrived();
            self.intake.abandon();
            let Err(Broken(why)) = ended else { return };
            if self.sleep(Duration::ZERO) {
                return;
            }
            self.lost(&why);
            // Who is sent the whole map again and again, and never has it, does not come at once.
            if arrived {
                pause = self.options.first_pause;
            }
            if matches!(source, Source::Socket(None)) || self.sleep(jittered(pause)) {
                return;
            }
            pause = (pause * 2).min(self.options.longest_pause);
        }
    }

    /// One connection, to its end. Ends well only if the replica is to end.
    fn connect(&mut self, source: &mut Source) -> std::result::Result<(), Broken> {
        let socket = match source {
            Source::Address(address) => {
                address.connect(CONNECTING).map_err(|e| Broken(e.to_string()))?
            }
            Source::Socket(socket) => match socket.take() {
                Some(socket) => socket,
                None => return broken("the socket has ended"),
            },
        };
        let result = Conversation::begin(self, socket).and_then(|mut talk| talk.run());
        if let Err(error) = self.intake.settle() {
            return broken(error.to_string());
        }
        result
    }

    /// Changes the status, and wakes who waits for it.
    fn update(&mut self, change: impl FnOnce(&mut ReplicaStatus)) {
        let mut status = lock(&self.shared.status);
        change(&mut status);
        self.shared.changed.notify_all();
    }

    fn lost(&mut self, why: &str) {
        let position = self.intake.position();
        self.update(|status| {
            status.connected = false;
            status.position = position;
            status.last_error = Some(why.to_owned());
        });
        self.report(true);
        self.events.lost(why);
    }

    fn report(&mut self, at_once: bool) {
        if let Some(reporter) = &mut self.reporter {
            let shared = &self.shared;
            reporter.report(at_once, || lock(&shared.status).clone());
        }
    }

    /// True if the replica is to end.
    fn sleep(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.shared.end, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&timespec(left.min(TELL_EVERY * 5))));
            if !fds[0].revents().is_empty() || left.is_zero() {
                return !fds[0].revents().is_empty();
            }
            self.report(false);
        }
    }
}

/// Half of it up to half more.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64())
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// One connection to the origin.
struct Conversation<'a, E> {
    follower: &'a mut Follower<E>,
    socket: OwnedFd,
    inbox: Inbox,
    told: Instant,
    told_offset: u64,
    /// What the socket has not taken yet of what is told.
    untold: Vec<u8>,
    heard: Instant,
}

impl<'a, E: ReplicaEvents> Conversation<'a, E> {
    /// Says who it is, and begins with what the origin announces.
    fn begin(
        follower: &'a mut Follower<E>,
        socket: OwnedFd,
    ) -> std::result::Result<Conversation<'a, E>, Broken> {
        let inbox = Inbox::default();
        let now = Instant::now();
        let (told_offset, untold) = (0, Vec::new());
        let mut this =
            Conversation { follower, socket, inbox, told: now, told_offset, untold, heard: now };
        this.follower.intake.look().map_err(|e| Broken(e.to_string()))?;
        let nonce = secret::nonce().map_err(|e| Broken(format!("no random numbers: {e}")))?;
        let hello = Hello { nonce, position: this.follower.intake.position() };
        let mut words = wire::preface().to_vec();
        hello.put(&mut words);
        this.say(&words)?;
        while !wire::check_preface(this.inbox.rest())? {
            this.hear_in_time()?;
        }
        this.inbox.advance(PREFACE);
        let welcome = this.introduce(&hello)?;
        this.follower.intake.begin(&welcome)?;
        this.follower.update(|status| {
            status.connected = true;
            status.connections += 1;
            status.synchronisations += u64::from(welcome.whole);
        });
        Ok(this)
    }

    /// Proves what is to be proved, and has it proved.
    fn introduce(&mut self, hello: &Hello) -> std::result::Result<Welcome, Broken> {
        let mut challenge = None::<[u8; NONCE]>;
        loop {
            let secret = self.follower.options.secret.clone();
            if let Some(frame) = self.inbox.next(HANDSHAKE_FRAME)? {
                if let Some(welcome) = Welcome::read(&frame) {
                    let proved = match (&secret, challenge) {
                        (Some(secret), Some(challenge)) => {
                            secret.is_proof(Side::Origin, &challenge, hello, &welcome.proof)
                        }
                        (Some(_), None) => false,
                        (None, _) => true,
                    };
                    return if proved {
                        Ok(welcome)
                    } else {
                        broken("the origin does not know the secret")
                    };
                }
                let nonce = <[u8; NONCE]>::try_from(frame.key).ok();
                let asked = nonce.filter(|_| frame.code == code::CHALLENGE && challenge.is_none());
                let (Some(nonce), Some(secret)) = (asked, &secret) else {
                    return broken(match asked {
                        Some(_) => "the origin wants to be proved a secret, and there is none here",
                        None => "the origin said what was not its turn",
                    });
                };
                challenge = Some(nonce);
                let mut words = Vec::new();
                wire::put_proof(&mut words, &secret.prove(Side::Replica, &nonce, hello));
                self.say(&words)?;
                // More may have come already.
                continue;
            }
            self.hear_in_time().map_err(|Broken(why)| match challenge {
                Some(_) => Broken(format!("{why}: does it have the same secret?")),
                None => Broken(why),
            })?;
        }
    }

    /// As [`hear`](Self::hear), where to end is an error.
    fn hear_in_time(&mut self) -> std::result::Result<(), Broken> {
        if self.hear()? { Ok(()) } else { broken("the replica has ended") }
    }

    /// Applies what comes, until the connection ends, or the replica.
    fn run(&mut self) -> std::result::Result<(), Broken> {
        loop {
            self.apply_all()?;
            self.tell()?;
            self.follower.report(false);
            if !self.hear()? {
                return Ok(());
            }
        }
    }

    fn apply_all(&mut self) -> std::result::Result<(), Broken> {
        let failed = |e: commonhold::Error| Broken(e.to_string());
        let (follower, inbox) = (&mut *self.follower, &mut self.inbox);
        follower.intake.announce(inbox.change_bytes()).map_err(failed)?;
        let (mut changes, mut bytes) = (0, 0);
        let result = loop {
            let frame = match inbox.next(usize::MAX) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let was_visible = follower.intake.is_visible();
            match follower.apply(&frame) {
                Ok(len) => {
                    if follower.intake.is_visible() && !was_visible {
                        follower.intake.announce(inbox.change_bytes()).map_err(failed)?;
                    }
                    changes += u64::from(len > 0);
                    bytes += len;
                }
                Err(error) => break Err(error),
            }
        };
        follower.intake.settle().map_err(failed)?;
        let (position, tail) = (follower.intake.position(), follower.tail);
        let offset = follower.intake.offset();
        follower.update(|status| {
            status.ready |= position.is_some();
            status.position = position;
            status.changes += changes;
            status.bytes += bytes;
            status.lag_bytes = tail.saturating_sub(offset);
            let mean = status.bytes / status.changes.max(1);
            status.lag_messages = status.lag_bytes / mean.max(40);
        });
        result
    }

    /// Says how far it has come, now and then.
    fn tell(&mut self) -> std::result::Result<(), Broken> {
        use rustix::io::Errno;
        use rustix::net::{SendFlags, send};
        let offset = self.follower.intake.offset();
        if self.untold.is_empty() {
            if offset == self.told_offset || self.told.elapsed() < TELL_EVERY {
                return Ok(());
            }
            (self.told, self.told_offset) = (Instant::now(), offset);
            wire::put_applied(&mut self.untold, offset);
        }
        // An origin that does not listen must not hold up the replica.
        match send(&self.socket, &self.untold, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(bytes) => drop(self.untold.drain(..bytes)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // What has come before that is still to be heard; then it is told why.
            Err(_) => self.untold.clear(),
        }
        Ok(())
    }

    fn say(&mut self, mut words: &[u8]) -> std::result::Result<(), Broken> {
        use rustix::net::{SendFlags, send};
        while !words.is_empty() {
            match send(&self.socket, words, SendFlags::NOSIGNAL) {
                Ok(bytes) => words = &words[bytes..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return broken(error.to_string()),
            }
        }
        Ok(())
    }

    /// Waits for more, and receives it; false if the replica is to end.
    fn hear(&mut self) -> std::result::Result<bool, Broken> {
        let ready = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        loop {
            let mut fds = [
                PollFd::new(&self.follower.shared.end, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timespec(TELL_EVERY))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return broken(error.to_string()),
            }
            let (end, data) = (fds[0].revents(), fds[1].revents());
            if !end.is_empty() {
                return Ok(false);
            }
            if data.intersects(ready) {
                break;
            }
            self.follower.silent(self.heard)?;
            self.tell()?;
        }
        self.heard = Instant::now();
        let mut buffer = self.inbox.take();
        buffer.reserve(RECEIVE);
        let read = rustix::net::recv(
            &self.socket,
            rustix::buffer::spare_capacity(&mut buffer),
            rustix::net::RecvFlags::DONTWAIT,
        );
        self.inbox.put(buffer);
        match read {
            Ok((0, _)) => broken("the origin has closed the connection"),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
            Err(error) => broken(error.to_string()),
        }
    }
}

impl<E: ReplicaEvents> Follower<E> {
    /// Applies a frame; the bytes of the change that it was, if it was one.
    fn apply(&mut self, frame: &RawFrame<'_>) -> std::result::Result<u64, Broken> {
        let bytes = match self.intake.take(frame)? {
            Effect::None => 0,
            Effect::Changed(change) => {
                self.events.changed(&change);
                change.end - change.offset
            }
            Effect::Time { tail, now_ms: said } => {
                self.tail = tail;
                self.update(|status| status.lag_ms = now_ms().saturating_sub(said));
                0
            }
        };
        if self.intake.arrive()?
            && let Some(position) = self.intake.position()
        {
            self.update(|status| (status.ready, status.position) = (true, Some(position)));
            self.events.ready(position);
        }
        Ok(bytes)
    }

    /// The origin says nothing.
    fn silent(&mut self, heard: Instant) -> std::result::Result<(), Broken> {
        let silence = heard.elapsed();
        if silence > SILENCE {
            return broken(format!("the origin has said nothing for {} s", SILENCE.as_secs()));
        }
        if silence > TELL_EVERY * 10 {
            self.update(|status| status.lag_ms = silence.as_millis() as u64);
        }
        self.report(false);
        Ok(())
    }
}
