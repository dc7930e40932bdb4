//! The thread of a replica: connects, has a conversation with the origin until that ends, and tries
//! again after a pause.
//!
//! Invariant: between two conversations no change is half applied, and the known position is
//! stored.

use crate::protocol::wire::now_ms;
use crate::protocol::wire::{Broken, broken};
use crate::replica::connecting::connect;
use crate::replica::conversation::Conversation;
use crate::replica::intake::{Effect, Intake};
use crate::replica::{ReplicaEvents, ReplicaOptions, Shared};
use commonhold::fault;
use commonhold::raw::RawFrame;
use commonhold::stream::StreamFrame;
use commonhold_io::address::Address;
use commonhold_io::fault_errno::errno;
use commonhold_io::reports::Reporter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time without a message after which the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(10);
/// How often a waiting thread checks for other work.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The way to the origin.
pub(super) enum Source {
    /// An address to connect to, again and again.
    Address(Address),
    /// A connected socket; there is no other.
    Socket(Option<OwnedFd>),
}

/// The number of changes that were applied to the public map, and their bytes.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) changes: u64,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) struct Follower<E> {
    pub(super) shared: Arc<Shared>,
    pub(super) intake: Intake,
    pub(super) options: ReplicaOptions,
    events: E,
    reporter: Option<Reporter>,
    /// The last end of the origin's stream that the origin has sent.
    pub(super) tail: u64,
}

impl<E: ReplicaEvents> Follower<E> {
    pub(super) fn new(
        shared: &Arc<Shared>,
        intake: Intake,
        options: ReplicaOptions,
        events: E,
        reporter: Option<Reporter>,
    ) -> Follower<E> {
        Follower { shared: Arc::clone(shared), intake, options, events, reporter, tail: 0 }
    }

    /// Follows the origin until the replica has to end.
    pub(super) fn run(mut self, mut source: Source) {
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
            // A replica that gets the whole map again and again, and never completes it, reconnects
            // later.
            if arrived {
                pause = self.options.first_pause;
            }
            if matches!(source, Source::Socket(None)) || self.sleep(jittered(pause)) {
                return;
            }
            pause = pause.saturating_mul(2).min(self.options.longest_pause);
        }
    }

    /// Handles one connection to its end. Returns `Ok` only if the replica has to end.
    fn connect(&mut self, source: &mut Source) -> std::result::Result<(), Broken> {
        let socket = match source {
            Source::Address(address) => match connect(address, || self.shared.is_to_end())? {
                Some(socket) => socket,
                None => return Ok(()),
            },
            Source::Socket(socket) => match socket.take() {
                Some(socket) => socket,
                None => return broken("the socket has ended"),
            },
        };
        let result = Conversation::begin(self, socket).and_then(|mut talk| talk.run());
        if let Err(error) = self.intake.save_position() {
            return broken(error.to_string());
        }
        result
    }

    fn lost(&mut self, why: &str) {
        let position = self.intake.position();
        self.shared.update(|status| {
            status.connected = false;
            status.position = position;
            status.last_error = Some(why.to_owned());
        });
        self.report(true);
        self.events.lost(why);
    }

    pub(super) fn report(&mut self, at_once: bool) {
        if let Some(reporter) = &mut self.reporter {
            let shared = &self.shared;
            reporter.report(at_once, || shared.status());
        }
    }

    /// Sleeps; true if the replica has to end.
    fn sleep(&mut self, time: Duration) -> bool {
        // No end if the clock cannot represent it.
        let end = Instant::now().checked_add(time);
        loop {
            let left = end.map_or(time, |end| end.saturating_duration_since(Instant::now()));
            let mut fds = [PollFd::new(&self.shared.end, PollFlags::IN)];
            if poll_for(&mut fds, left.min(LOOK * 5)).is_err() {
                std::thread::sleep(left.min(LOOK));
            }
            if self.shared.is_to_end() || left.is_zero() {
                return self.shared.is_to_end();
            }
            self.report(false);
        }
    }

    /// Applies a frame; counts its visible effect in `applied`.
    pub(super) fn apply(
        &mut self,
        frame: &RawFrame<'_>,
        applied: &mut Applied,
    ) -> std::result::Result<(), Broken> {
        let mut show = |change: &StreamFrame<'_>| {
            self.events.changed(change);
            applied.changes += 1;
            applied.bytes += change.end - change.offset;
        };
        match self.intake.take(frame)? {
            Effect::None => {}
            Effect::Changed(change) => show(&change),
            Effect::Regained(regain) => regain.changes().for_each(|change| show(&change)),
            Effect::Time { tail, now_ms: said } => {
                self.tail = tail;
                self.shared.update(|status| status.lag_ms = now_ms().saturating_sub(said));
            }
        }
        if self.intake.arrive()?
            && let Some(position) = self.intake.position()
        {
            self.shared.update(|status| (status.ready, status.position) = (true, Some(position)));
            self.events.ready(position);
        }
        Ok(())
    }

    /// Called when the origin sends nothing.
    pub(super) fn silent(&mut self) -> std::result::Result<(), Broken> {
        if self.shared.silence() > SILENCE {
            return broken(format!("the origin has sent nothing for {} s", SILENCE.as_secs()));
        }
        self.report(false);
        Ok(())
    }
}

/// A random time, from half of it to half more.
fn jittered(time: Duration) -> Duration {
    let seconds = time.as_secs_f64() * (0.5 + fastrand::f64());
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Waits for one of these, at most for `time`; a signal ends the wait earlier.
pub(super) fn poll_for(fds: &mut [PollFd<'_>], time: Duration) -> rustix::io::Result<()> {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match errno(fault!("replica.poll")).and_then(|()| poll(fds, Some(&time))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
