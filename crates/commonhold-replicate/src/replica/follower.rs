//! The thread of a replica: connects, has a conversation with the origin until that ends, and tries
//! again after a pause.
//!
//! Invariant: between two conversations no change is half applied, and the known position is
//! stored.

use crate::protocol::wire::{Broken, broken};
use crate::protocol::wish::Wish;
use crate::replica::connecting::connect;
use crate::replica::conversation::Conversation;
use crate::replica::intake::{Effect, Intake};
use crate::replica::{How, ReplicaEvents, ReplicaOptions, Shared};
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
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// How often a waiting thread checks for other work.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// The way to the origin.
pub(crate) enum Source {
    /// Addresses to connect to, one after the other, again and again; the next one's number.
    Addresses(Vec<Address>, usize),
    /// A connected socket; there is no other.
    Socket(Option<OwnedFd>),
}

impl Source {
    /// An origin's address, and further ones of its map.
    pub(crate) fn addresses(origin: &Address, also: &[Address]) -> Source {
        Source::Addresses(std::iter::once(origin).chain(also).cloned().collect(), 0)
    }

    /// The next address; `None` if there is none.
    pub(crate) fn next_address(&mut self) -> Option<Address> {
        let Source::Addresses(addresses, next) = self else { return None };
        let address = addresses.get(*next % addresses.len().max(1)).cloned();
        *next += 1;
        address
    }

    /// Whether another address comes at once, and not after a pause.
    pub(crate) fn has_another(&self) -> bool {
        match self {
            Source::Addresses(addresses, next) => next % addresses.len().max(1) != 0,
            Source::Socket(_) => false,
        }
    }

    /// Begins with the last address the next time.
    pub(crate) fn stay(&mut self) {
        if let Source::Addresses(addresses, next) = self {
            let last = next.saturating_sub(1) % addresses.len().max(1);
            addresses.rotate_left(last);
            *next = 0;
        }
    }
}

/// The number of changes that were applied to the public map, and their bytes.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) changes: u64,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) struct Follower<E> {
    pub(super) shared: Arc<Shared>,
    pub(super) intake: Intake,
    pub(super) options: ReplicaOptions,
    /// Whether processes at the origin may wait for it.
    pub(super) counts: bool,
    /// The map that it wants from the origin.
    pub(super) wish: Wish,
    events: E,
    reporter: Option<Reporter>,
    /// The last end of the origin's stream that the origin has sent.
    pub(super) tail: u64,
    /// An end of the stream that it has not reached yet, and the time of which it will have
    /// everything then.
    ahead: Option<(u64, u64)>,
}

impl<E: ReplicaEvents> Follower<E> {
    pub(super) fn new(
        shared: &Arc<Shared>,
        intake: Intake,
        How { options, counts, wish }: How,
        events: E,
        reporter: Option<Reporter>,
    ) -> Follower<E> {
        Follower {
            shared: Arc::clone(shared),
            intake,
            options,
            counts,
            wish,
            events,
            reporter,
            tail: 0,
            ahead: None,
        }
    }

    /// Follows the origin until the replica has to end.
    pub(super) fn run(mut self, mut source: Source) {
        let mut pause = self.options.first_pause;
        loop {
            let ended = self.connect(&mut source);
            let arrived = self.intake.has_arrived();
            self.intake.abandon();
            let Err(Broken(why)) = ended else { return };
            self.ahead = None;
            if self.sleep(Duration::ZERO) {
                return;
            }
            self.lost(&why);
            if self.intake.is_promoted() {
                return;
            }
            // A replica that gets the whole map again and again, and never completes it, reconnects
            // later.
            if arrived {
                pause = self.options.first_pause;
            }
            if source.has_another() {
                continue;
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
            Source::Addresses(..) => {
                let Some(address) = source.next_address() else {
                    return broken("there is no address to follow");
                };
                self.shared.update(|status| status.origin = address.to_string());
                match connect(&address, || self.shared.is_to_end())? {
                    Some(socket) => socket,
                    None => return Ok(()),
                }
            }
            Source::Socket(socket) => match socket.take() {
                Some(socket) => socket,
                None => return broken("the socket has ended"),
            },
        };
        let result = Conversation::begin(self, socket).and_then(|mut talk| {
            // The same one first, if the connection is lost.
            source.stay();
            talk.run()
        });
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
        sum: u32,
        applied: &mut Shown,
    ) -> std::result::Result<(), Broken> {
        let mut show = |change: &StreamFrame<'_>| {
            self.events.changed(change);
            applied.changes += 1;
            applied.bytes += change.end - change.offset;
        };
        match self.intake.take(frame, sum)? {
            Effect::None => {}
            Effect::Changed(change) => show(&change),
            Effect::Regained(regain) => regain.changes().for_each(|change| show(&change)),
            Effect::Time { tail, as_of_ms } => {
                self.tail = tail;
                if self.ahead.is_some() || as_of_ms == 0 {
                    self.shared.note_age(None);
                }
                self.ahead = self.ahead.or((as_of_ms != 0).then_some((tail, as_of_ms)));
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

    /// Notes that the map has everything up to a time, if it has reached the end of the stream that
    /// came with the time.
    ///
    /// # Errors
    /// Those of writing the hold.
    pub(super) fn grow_younger(&mut self) -> commonhold::Result<()> {
        let Some((tail, as_of_ms)) = self.ahead else { return Ok(()) };
        if self.intake.position().is_some_and(|position| position.offset >= tail) {
            self.ahead = None;
            self.shared.note_age(Some(as_of_ms));
            self.intake.place.note_as_of(as_of_ms)?;
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
pub(crate) fn jittered(time: Duration) -> Duration {
    let seconds = time.as_secs_f64() * (0.5 + fastrand::f64());
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Waits for one of these, at most for `time`; a signal ends the wait earlier.
pub(crate) fn poll_for(fds: &mut [PollFd<'_>], time: Duration) -> rustix::io::Result<()> {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match errno(fault!("replica.poll")).and_then(|()| poll(fds, Some(&time))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
