//! The reading side of a whole hold: keeps its maps equal to those of an origin's hold.

use crate::holds::catalogue::Catalogue;
use crate::holds::ending::Ending;
use crate::holds::followed_maps::{FollowedMaps, Member, Members};
use crate::holds::patterns::Patterns;
use crate::holds::reports::Reports;
use crate::protocol::catalogue::Entry;
use crate::protocol::wire::{Broken, broken};
use crate::replica::connecting::connect;
use crate::replica::follower::{LOOK, Source, jittered};
use crate::replica::{ReplicaOptions, ReplicaStatus};
use commonhold::raw::check_replica_name;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::address::Address;
use commonhold_io::callback_gate::CallbackGate;
use commonhold_io::owned_threads::{JOIN_TIMEOUT, OwnedThreads};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Options of a replica of a whole hold.
#[derive(Clone, Debug, Default)]
pub struct HoldReplicaOptions {
    /// The options of each map's replica, and of the connection that names the maps. `map` is not
    /// used: each map has its origin's name. `adopt` counts once for each map. `prefix` must be
    /// `None`.
    pub replica: ReplicaOptions,
    /// Patterns of the names of the maps to follow: `*` stands for any characters, `?` for one.
    /// Empty for all maps.
    pub maps: Vec<String>,
}

/// Callbacks for the events of a replica of a whole hold, from any of its threads, several at a
/// time. A callback must not wait for the replica.
pub trait HoldReplicaEvents: Send + Sync {
    /// A map equals the origin's map at some moment after its connection was made.
    fn ready(&self, _map: &str, _position: StreamPosition) {}
    /// The connection of a map is lost, or could not be made; it is tried again. Without a map: the
    /// connection that names the maps.
    fn lost(&self, _map: Option<&str>, _why: &str) {}
    /// A map cannot be followed, for example because the hold has an ordinary map of this name. The
    /// others are followed, and this one is tried again.
    fn skipped(&self, _map: &str, _why: &str) {}
    /// The origin no longer has a map. The replica's map stays.
    fn dropped(&self, _map: &str) {}
}

/// No callbacks.
impl HoldReplicaEvents for () {}

/// Whether a map is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowState {
    /// A replica follows it.
    Followed,
    /// It cannot be followed, and is tried again.
    Skipped,
    /// It was dropped at the origin. The local map stays.
    Dropped,
}

/// A map of a replica of a whole hold.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FollowedMap {
    /// Its name.
    pub name: String,
    /// Whether it is followed.
    pub state: FollowState,
    /// Why it is not.
    pub reason: Option<String>,
    /// It has equalled the origin's map since this program started to follow it.
    pub caught_up: bool,
    /// The status of its replica, if it has one.
    pub replica: Option<ReplicaStatus>,
}

/// The state of a replica of a whole hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HoldReplicaStatus {
    /// The id of its process.
    pub pid: u32,
    /// The address of its origin.
    pub origin: String,
    /// Whether the connection that names the maps stands.
    pub connected: bool,
    /// Whether the origin has named all of its maps, once or more often.
    pub listed: bool,
    /// The reason why that connection has ended last.
    pub last_error: Option<String>,
    /// The maps, by name.
    pub maps: Vec<FollowedMap>,
}

impl HoldReplicaStatus {
    /// Whether every map that can be followed has equalled the origin's.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let is_there = |map: &FollowedMap| map.state != FollowState::Followed || map.caught_up;
        self.listed && self.maps.iter().all(is_there)
    }
}

/// The data that all threads share.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ending: Ending,
    events: Box<dyn HoldReplicaEvents>,
    /// Closed when the replica is dropped: a thread may end later.
    gate: CallbackGate,
}

struct State {
    status: HoldReplicaStatus,
    members: Members,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> HoldReplicaStatus {
        let state = self.lock();
        let maps = state.members.iter().map(|(name, member)| member.shown(name)).collect();
        HoldReplicaStatus { maps, ..state.status.clone() }
    }

    fn update(&self, change: impl FnOnce(&mut HoldReplicaStatus)) {
        change(&mut self.lock().status);
        self.changed.notify_all();
    }

    pub(super) fn has_list(&self) {
        self.update(|status| status.listed = true);
    }

    /// Whether the threads have to end.
    pub(super) fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Calls the program, unless the handle was dropped.
    pub(super) fn call(&self, callback: impl FnOnce(&dyn HoldReplicaEvents)) {
        self.gate.call(|| callback(&*self.events));
        self.changed.notify_all();
    }

    /// Notes a fault of the origin.
    pub(super) fn complain(&self, why: &str) {
        let mut state = self.lock();
        let before = state.status.last_error.replace(why.to_owned());
        drop(state);
        if before.as_deref() != Some(why) {
            self.call(|events| events.lost(None, why));
        }
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.lock().members.contains_key(name)
    }

    /// The number of maps, those included that the origin has dropped.
    pub(super) fn count(&self) -> usize {
        self.lock().members.len()
    }

    pub(super) fn names_of(&self, state: FollowState) -> Vec<String> {
        let all = self.lock();
        let such = all.members.iter().filter(|(_, member)| member.fate().0 == state);
        such.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn forget(&self, name: &str) {
        let member = self.lock().members.remove(name);
        // Outside the lock: its replica ends here, if it has one.
        drop(member);
    }

    pub(super) fn member<T>(&self, name: &str, look: impl FnOnce(&Member) -> T) -> Option<T> {
        self.lock().members.get(name).map(look)
    }

    /// Ends the replica of a map.
    pub(super) fn end_replica(&self, name: &str) {
        let replica = self.lock().members.get_mut(name).and_then(Member::take_replica);
        drop(replica);
    }

    /// Puts a map in the place of the one of this name, which ends.
    pub(super) fn put(&self, name: &str, member: Member) {
        let (state, reason) = member.fate();
        let (state, reason) = (state, reason.map(str::to_owned));
        let mut all = self.lock();
        if self.is_over() {
            // The others have ended, or end now. This one ends outside the lock.
            drop(all);
            return drop(member);
        }
        let before = all.members.insert(name.to_owned(), member);
        drop(all);
        let is_known =
            before.as_ref().is_some_and(|before| before.fate() == (state, reason.as_deref()));
        // Its replica ends here.
        drop(before);
        self.call(|events| match (state, reason) {
            _ if is_known => {}
            (FollowState::Skipped, why) => events.skipped(name, why.as_deref().unwrap_or_default()),
            (FollowState::Dropped, _) => events.dropped(name),
            (FollowState::Followed, _) => {}
        });
    }
}

/// Keeps the maps of a hold equal to those of an origin's hold ([`HoldOrigin`](crate::HoldOrigin)):
/// those that exist, and those that are created later.
///
/// Each map is kept by a [`Replica`](crate::Replica) with a connection of its own. A map that is
/// dropped at the origin stays in this hold, and is reported as dropped. If the origin creates a
/// map of this name again, it is followed again, and replaces the contents. A map that this hold
/// has as an ordinary map is reported as skipped, and is followed if the ordinary map goes away.
///
/// Dropping it, forking, and killing its process are as for a [`Replica`](crate::Replica).
pub struct HoldReplica {
    shared: Arc<Shared>,
    threads: OwnedThreads,
}

impl fmt::Debug for HoldReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldReplica").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl HoldReplica {
    /// Follows the maps of the hold at an address, with maps of the same names in `hold`. Returns
    /// at once.
    ///
    /// # Errors
    /// `Invalid` for a bad [`name`](ReplicaOptions::name), an empty pattern, or a
    /// [`prefix`](ReplicaOptions::prefix), which only a replica of one map can have; `ReadOnly`;
    /// `Io` if no thread can be started.
    pub fn connect(
        hold: &Hold,
        origin: &Address,
        options: HoldReplicaOptions,
        events: impl HoldReplicaEvents + 'static,
    ) -> Result<HoldReplica> {
        check_replica_name(&options.replica.name)?;
        if options.replica.prefix.is_some() {
            let text = "a replica of a whole hold takes all keys of its maps: leave out the prefix, \
                        or replicate one map (Replica, 'hold replica ADDRESS HOLD MAP --prefix')";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let patterns = Patterns::new(&options.maps)?;
        // A hold that it may not write fails here.
        let reports = Reports::new(hold)?;
        let status = HoldReplicaStatus {
            pid: std::process::id(),
            origin: origin.to_string(),
            ..HoldReplicaStatus::default()
        };
        let state = Mutex::new(State { status, members: Members::new() });
        let (changed, ending, events) = (Condvar::new(), Ending::new()?, Box::new(events));
        let gate = CallbackGate::default();
        let shared = Arc::new(Shared { state, changed, ending, events, gate });
        let options = options.replica;
        let run = Run {
            source: Source::addresses(origin, &options.also),
            maps: FollowedMaps::new(hold, origin, options.clone(), patterns, &shared),
            options,
            shared: Arc::clone(&shared),
            reports,
        };
        let thread = std::thread::Builder::new().name("hold replica".into());
        let mut threads = OwnedThreads::default();
        threads.push(thread.spawn(move || run.run()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?);
        Ok(HoldReplica { shared, threads })
    }

    /// The status at this moment.
    pub fn status(&self) -> HoldReplicaStatus {
        self.shared.status()
    }

    /// Waits until the origin has named its maps, and every map that can be followed equals the
    /// origin's; false if that took longer than `time`.
    pub fn wait_ready(&self, time: Duration) -> bool {
        self.wait(time, HoldReplicaStatus::is_ready)
    }

    /// Waits until `such` accepts the status; false if that took longer than `time`. `such` is
    /// called when the status changes, and ten times a second.
    pub fn wait(&self, time: Duration, such: impl Fn(&HoldReplicaStatus) -> bool) -> bool {
        let end = Instant::now().checked_add(time);
        loop {
            if such(&self.status()) {
                return true;
            }
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(self.shared.lock(), left.min(LOOK));
            drop(waited);
        }
    }
}

impl Drop for HoldReplica {
    fn drop(&mut self) {
        // In a forked child the thread to end belongs to the parent.
        if !self.threads.are_here() {
            return;
        }
        self.shared.ending.begin();
        self.threads.join_for(JOIN_TIMEOUT);
        let members = std::mem::take(&mut self.shared.lock().members);
        // All at the same time.
        members.values().for_each(Member::begin_end);
        drop(members);
        self.shared.gate.close();
    }
}

/// The thread.
struct Run {
    source: Source,
    maps: FollowedMaps,
    options: ReplicaOptions,
    shared: Arc<Shared>,
    reports: Reports,
}

impl Run {
    /// Follows the origin until the replica has to end.
    fn run(mut self) {
        let mut pause = self.options.first_pause;
        loop {
            let mut has_list = false;
            let Err(Broken(why)) = self.connect(&mut has_list) else { return };
            if self.shared.is_over() {
                return;
            }
            self.shared.update(|status| status.connected = false);
            self.shared.complain(&why);
            if has_list {
                pause = self.options.first_pause;
            }
            if self.source.has_another() {
                continue;
            }
            if self.sleep(jittered(pause)) {
                return;
            }
            pause = pause.saturating_mul(2).min(self.options.longest_pause);
        }
    }

    /// Handles one connection to its end. Returns `Ok` only if the replica has to end.
    fn connect(&mut self, has_list: &mut bool) -> std::result::Result<(), Broken> {
        let Some(address) = self.source.next_address() else {
            return broken("there is no address to follow");
        };
        self.shared.update(|status| status.origin = address.to_string());
        let shared = Arc::clone(&self.shared);
        let Some(socket) = connect(&address, || shared.is_over())? else { return Ok(()) };
        let secret = self.options.secret.clone();
        let mut catalogue = Catalogue::begin(socket, secret, &shared.ending)?;
        // The same one first, if the connection is lost.
        self.source.stay();
        self.maps.begin_list();
        shared.update(|status| status.connected = true);
        while !shared.is_over() {
            for entry in catalogue.next(LOOK)? {
                match entry {
                    Entry::Map { name, is_served: true } => self.maps.add(name),
                    Entry::Map { name, is_served: false } => self.maps.remove(&name),
                    Entry::Listed => {
                        self.maps.end_list();
                        *has_list = true;
                    }
                    Entry::Alive => {}
                }
            }
            self.tend();
        }
        Ok(())
    }

    fn tend(&mut self) {
        self.maps.tend();
        let shared = &self.shared;
        self.reports.write(|| shared.status());
    }

    /// Sleeps; true if the replica has to end.
    fn sleep(&mut self, time: Duration) -> bool {
        // No end if the clock cannot represent it.
        let end = Instant::now().checked_add(time);
        loop {
            let left = end.map_or(time, |end| end.saturating_duration_since(Instant::now()));
            if self.shared.ending.sleep(left.min(5 * LOOK)) || left.is_zero() {
                return self.shared.is_over();
            }
            self.tend();
        }
    }
}
