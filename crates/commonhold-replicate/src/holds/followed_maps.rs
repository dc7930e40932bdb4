//! The maps that a replica of a whole hold follows, each with a replica of its own.
//!
//! Invariant: no lock is held while a replica starts or ends, which may take long.

use crate::holds::patterns::Patterns;
use crate::holds::replica::{FollowState, FollowedMap, Shared};
use crate::lineage;
use crate::protocol::introduction::Lineage;
use crate::replica::{Replica, ReplicaEvents, ReplicaOptions};
use commonhold::raw::{map_names, open_unready_map};
use commonhold::stream::StreamPosition;
use commonhold::{Hold, Result};
use commonhold_io::address::Address;
use commonhold_io::reports::reports;
use commonhold_io::thread_patience::with_patience;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most maps: each needs a thread.
pub(super) const MOST_MAPS: usize = 4096;
/// How long starting one replica may wait for a stopped process.
const PATIENCE: Duration = Duration::from_secs(1);
/// When a replica that could not start, or has ended, is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// The fate of a map that the origin does not have.
const STAYS: &str = "the local map stays, and is read-only until 'hold promote' makes it writable \
                     or 'hold drop' deletes it";

/// A map, as the status shows it.
pub(super) struct Member {
    replica: Option<Replica>,
    state: FollowState,
    reason: Option<String>,
    /// Its map has equalled the origin's since this program started.
    caught_up: Arc<AtomicBool>,
}

impl Member {
    /// One that the origin had.
    fn dropped() -> Member {
        Member::missing(&format!("dropped at the origin; {STAYS}"))
    }

    /// One that this origin has never named: another origin may have sent it.
    fn left_over(hold: &Hold, name: &str) -> Member {
        let record = lineage::stored(hold, name).ok().flatten();
        let known = record.map(|record| record.lineage).filter(Lineage::is_known);
        let of =
            known.map_or(String::new(), |lineage| format!(", a replica of {}", lineage.shown()));
        Member::missing(&format!(
            "the origin does not have this map{of}; either it was dropped there, or another origin \
             sent it; {STAYS}"
        ))
    }

    fn missing(why: &str) -> Member {
        let (state, reason) = (FollowState::Dropped, Some(why.to_owned()));
        Member { replica: None, state, reason, caught_up: Arc::default() }
    }

    /// The part that users are informed about when it changes.
    pub(super) fn fate(&self) -> (FollowState, Option<&str>) {
        (self.state, self.reason.as_deref())
    }

    /// Requests the end of its replica.
    pub(super) fn begin_end(&self) {
        self.replica.iter().for_each(Replica::begin_end);
    }

    /// Takes its replica, to end it.
    pub(super) fn take_replica(&mut self) -> Option<Replica> {
        self.replica.take()
    }

    pub(super) fn shown(&self, name: &str) -> FollowedMap {
        FollowedMap {
            name: name.to_owned(),
            state: self.state,
            reason: self.reason.clone(),
            // Relaxed: the state that it announces is read through the hold.
            caught_up: self.caught_up.load(Ordering::Relaxed),
            replica: self.replica.as_ref().map(Replica::status),
        }
    }

    /// Whether its replica runs.
    fn runs(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| !replica.status().ended)
    }
}

/// All of them, by name.
pub(super) type Members = BTreeMap<String, Member>;

/// See the module.
pub(super) struct FollowedMaps {
    hold: Hold,
    origin: Address,
    options: ReplicaOptions,
    patterns: Patterns,
    shared: Arc<Shared>,
    /// The maps that the origin has, by its last messages.
    named: BTreeSet<String>,
    /// The same, while the first list of a connection comes.
    coming: Option<BTreeSet<String>>,
    /// The maps whose replicas do not begin with `adopt`: they have done so, or the maps were there
    /// when the origin did not have them.
    adopting: BTreeSet<String>,
    again: Instant,
}

impl FollowedMaps {
    pub(super) fn new(
        hold: &Hold,
        origin: &Address,
        options: ReplicaOptions,
        patterns: Patterns,
        shared: &Arc<Shared>,
    ) -> FollowedMaps {
        let (hold, origin, shared) = (hold.clone(), origin.clone(), Arc::clone(shared));
        let (named, coming, adopting) = (BTreeSet::new(), None, BTreeSet::new());
        let again = Instant::now();
        FollowedMaps { hold, origin, options, patterns, shared, named, coming, adopting, again }
    }

    /// A connection was made: all names come now.
    pub(super) fn begin_list(&mut self) {
        self.coming = Some(BTreeSet::new());
    }

    /// The origin has a map of this name.
    pub(super) fn add(&mut self, name: String) {
        if !self.patterns.accept(&name) {
            return;
        }
        if !self.shared.knows(&name) && self.shared.count() >= MOST_MAPS {
            let text = format!(
                "names more than {MOST_MAPS} maps, the maximum, with those that it has dropped; \
                 the others are not followed, so select maps by patterns (--maps), or drop local \
                 maps that the origin has dropped"
            );
            return self.shared.complain(&text);
        }
        if let Some(coming) = &mut self.coming {
            coming.insert(name.clone());
        }
        self.named.insert(name.clone());
        self.follow(&name);
    }

    /// The origin no longer has a map of this name.
    pub(super) fn remove(&mut self, name: &str) {
        if self.named.remove(name) {
            if let Some(coming) = &mut self.coming {
                coming.remove(name);
            }
            self.shared.put(name, Member::dropped());
        }
    }

    /// All names have come.
    pub(super) fn end_list(&mut self) {
        let Some(coming) = self.coming.take() else { return };
        let gone: Vec<_> = self.named.difference(&coming).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        self.shared.has_list();
    }

    /// The local maps of replicas that the origin does not have: dropped there while this program
    /// did not run. Maps that another process keeps up to date are not among them.
    fn left_over(&self) -> Result<Vec<String>> {
        let mut names = map_names(&self.hold)?;
        names.retain(|name| self.patterns.accept(name) && !self.shared.knows(name));
        names.retain(|name| open_unready_map(&self.hold, name).is_ok_and(|map| map.is_replica()));
        if names.is_empty() {
            return Ok(names);
        }
        let others: BTreeSet<String> = reports(&self.hold)?
            .into_iter()
            .filter_map(|report| (report.what == "replica").then_some(report.map))
            .collect();
        names.retain(|name| !others.contains(name));
        Ok(names)
    }

    /// Forgets dropped maps that are promoted by now, or dropped here, too.
    fn forget_gone(&mut self) {
        let is_gone = |name: &String| match open_unready_map(&self.hold, name) {
            Ok(map) => !map.is_replica(),
            Err(error) => error.is_not_found(),
        };
        let dropped = self.shared.names_of(FollowState::Dropped);
        for name in dropped.iter().filter(|name| is_gone(name)) {
            self.adopting.remove(name);
            self.shared.forget(name);
        }
    }

    /// Starts replicas again that could not start, or have ended.
    pub(super) fn tend(&mut self) {
        if Instant::now() < self.again {
            return;
        }
        for name in self.named.iter().cloned().collect::<Vec<_>>() {
            if self.shared.is_over() {
                return;
            }
            self.follow(&name);
        }
        if self.shared.status().listed {
            // If they cannot be read now, that is tried again.
            for name in self.left_over().unwrap_or_default() {
                // Not with `adopt`, if the origin has a map of this name later.
                self.adopting.insert(name.clone());
                self.shared.put(&name, Member::left_over(&self.hold, &name));
            }
            self.forget_gone();
        }
        self.again = Instant::now() + AGAIN;
    }

    /// Follows a map, unless that is done already.
    fn follow(&mut self, name: &str) {
        let known =
            self.shared.member(name, |member| (member.runs(), Arc::clone(&member.caught_up)));
        if known.as_ref().is_some_and(|(runs, _)| *runs) {
            return;
        }
        // A replica that has ended still has its map.
        self.shared.end_replica(name);
        let caught_up = known.map(|(_, caught_up)| caught_up).unwrap_or_default();
        match with_patience(PATIENCE, || self.start(name, &caught_up)) {
            Ok(replica) => {
                self.adopting.insert(name.to_owned());
                let (state, reason) = (FollowState::Followed, None);
                let member = Member { replica: Some(replica), state, reason, caught_up };
                self.shared.put(name, member);
            }
            Err(error) => {
                let (state, reason) = (FollowState::Skipped, Some(error.to_string()));
                self.shared.put(name, Member { replica: None, state, reason, caught_up });
            }
        }
    }

    fn start(&self, name: &str, caught_up: &Arc<AtomicBool>) -> Result<Replica> {
        let options = ReplicaOptions {
            map: Some(name.to_owned()),
            adopt: self.options.adopt && !self.adopting.contains(name),
            ..self.options.clone()
        };
        let events = MapEvents {
            map: name.to_owned(),
            shared: Arc::clone(&self.shared),
            caught_up: Arc::clone(caught_up),
        };
        Replica::connect(&self.hold, name, &self.origin, options, events)
    }
}

/// Passes the events of one map on.
struct MapEvents {
    map: String,
    shared: Arc<Shared>,
    caught_up: Arc<AtomicBool>,
}

impl ReplicaEvents for MapEvents {
    fn ready(&mut self, position: StreamPosition) {
        // Relaxed: see `Member::shown`.
        self.caught_up.store(true, Ordering::Relaxed);
        self.shared.call(|events| events.ready(&self.map, position));
    }

    fn lost(&mut self, why: &str) {
        self.shared.call(|events| events.lost(Some(&self.map), why));
    }
}
