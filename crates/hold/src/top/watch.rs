//! Takes one look at a hold after another.

use super::change_count::ChangeCount;
use super::process::ProcessState;
use super::view::View;
use crate::monitor::inventory::Inventory;
use crate::monitor::observer::now_ms;
use crate::target::is_own;
use commonhold::hold::ParticipantInfo;
use commonhold::raw::{HeldLock, held_locks, open_unready_map};
use commonhold::{Hold, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A hold that is being watched.
pub struct Watch {
    hold: Hold,
    /// Whether to include Commonhold's own structures.
    all: bool,
    counts: BTreeMap<String, ChangeCount>,
    before: Option<Look>,
}

/// The results of one look.
pub struct Look {
    /// The time at which it ended.
    pub at: Instant,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    pub inventory: Inventory,
    /// The changes of each map with a stream since the previous look, where they are known.
    pub changes: BTreeMap<String, Option<u64>>,
    pub participants: Vec<Seen>,
}

/// A participant and its process.
pub struct Seen {
    pub info: ParticipantInfo,
    pub state: Option<ProcessState>,
    /// The locks that it holds while it is suspended.
    pub locks: Vec<String>,
}

impl Watch {
    /// Begins to watch a hold that is open read-only. With `all`, includes Commonhold's own
    /// structures.
    pub fn new(hold: Hold, all: bool) -> Watch {
        Watch { hold, all, counts: BTreeMap::new(), before: None }
    }

    /// Looks at the hold now. The result has rates from the second look on.
    ///
    /// # Errors
    /// Those of reading the hold.
    pub fn look(&mut self) -> Result<View> {
        let inventory = self.inventory()?;
        let changes = self.count_changes(&inventory);
        let participants = participants(&self.hold)?;
        let (at, at_ms) = (Instant::now(), now_ms());
        let look = Look { at, at_ms, inventory, changes, participants };
        let view = View::of(&look, self.before.as_ref());
        self.before = Some(look);
        Ok(view)
    }

    /// Counts changes until `time` has passed or `over` returns true. A stream keeps only the
    /// latest changes, so counting must not wait for the next look.
    pub fn count_during(&mut self, time: Duration, over: impl Fn(Duration) -> bool) {
        let end = Instant::now() + time;
        loop {
            self.counts.values_mut().for_each(ChangeCount::advance);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || over(left.min(TURN)) {
                return;
            }
        }
    }

    fn inventory(&self) -> Result<Inventory> {
        let mut inventory = Inventory::take(&self.hold)?;
        if !self.all {
            inventory.maps.retain(|map| !is_own(&map.name));
            inventory.queues.retain(|queue| !is_own(&queue.name));
            inventory.channels.retain(|(name, _)| !is_own(name));
            inventory.logs.retain(|(name, _)| !is_own(name));
        }
        Ok(inventory)
    }

    fn count_changes(&mut self, inventory: &Inventory) -> BTreeMap<String, Option<u64>> {
        let mut changes = BTreeMap::new();
        for map in inventory.maps.iter().filter(|map| map.stream.is_some()) {
            // The map was dropped in the meantime, so its number of changes is unknown.
            let Ok(opened) = open_unready_map(&self.hold, &map.name) else { continue };
            let known = match self.counts.get_mut(&map.name) {
                Some(count) => count.take(&opened),
                None => {
                    self.counts.insert(map.name.clone(), ChangeCount::begin(&opened));
                    None
                }
            };
            changes.insert(map.name.clone(), known);
        }
        self.counts.retain(|name, _| changes.contains_key(name));
        changes
    }
}

/// The longest pause between two counts of changes.
pub const TURN: Duration = Duration::from_millis(50);

fn participants(hold: &Hold) -> Result<Vec<Seen>> {
    let all = hold.participants()?;
    let mut seen: Vec<Seen> = all.into_iter().map(Seen::of).collect();
    let is_suspended = |one: &Seen| one.state.is_some_and(ProcessState::is_suspended);
    if seen.iter().any(is_suspended) {
        let held = held_locks(hold)?;
        for one in seen.iter_mut().filter(|one| is_suspended(one)) {
            let own = held.iter().filter(|lock| is_of(lock, &one.info));
            one.locks = own.map(|lock| lock.name.clone()).collect();
        }
    }
    Ok(seen)
}

fn is_of(lock: &HeldLock, info: &ParticipantInfo) -> bool {
    (lock.slot, lock.generation) == (info.slot, info.generation)
}

impl Seen {
    fn of(info: ParticipantInfo) -> Seen {
        let state = info.alive.then(|| ProcessState::of(info.pid, &info.program)).flatten();
        Seen { info, state, locks: Vec::new() }
    }
}
