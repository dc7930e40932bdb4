//! The tasks in which a process is killed or stopped at a named step: every kind of operation, also
//! opening, sweeping, growing and dropping.
//!
//! A task works as lane 0 of the plan, so that the ledger shows afterwards what the maps must have.

use super::lane::{Lane, Operation};
use super::messages::{self, Messages};
use super::plan::{BATCH, KEYS, Ledger, Maps, SCRATCH, scratch_options, scratch_value};
use super::shared::Shared;
use super::value::Kind;
use crate::workload::Result;
use commonhold::Hold;
use commonhold::map::MapOptions;
use std::path::Path;
use std::sync::Arc;

/// The map of large values.
const LARGE: &str = "large";

/// The task of the process of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Opens and closes the hold.
    ComeAndGo,
    /// An operation on keys of the lane's own.
    Own(Kind, Operation),
    /// Fills a cache over its limit.
    Overflow,
    /// Counters of all lanes.
    Increment,
    /// Counters of all lanes, by a callback.
    Update,
    /// Keys of all lanes.
    Hot,
    /// Adds keys to the growing maps, across splits and doublings.
    Grow,
    /// Sets and deletes values that fill extents of their own.
    Large,
    /// Makes, fills, clears and drops a map.
    Scratch(usize),
    /// Moves elements between queues.
    Elements,
    /// Sends messages, as the producer.
    Send,
    /// Reads messages, as consumers of every policy.
    Receive,
    /// Writes lines, and collects them.
    Lines,
    /// Makes and drops a queue, a channel and a log.
    Structures,
    /// Writes in a thread that ends.
    Thread,
    /// Recovers after dead processes.
    Sweep,
    /// Checks everything, with all writers paused.
    Check,
    /// Returns memory to the system.
    Trim,
    /// Pauses all writers.
    Freeze,
    /// Copies the hold.
    Backup,
}

impl Task {
    /// All tasks.
    pub fn all() -> Vec<Task> {
        let own = Kind::ALL.into_iter().flat_map(|k| Operation::ALL.map(|o| Task::Own(k, o)));
        let rest = [
            Task::Elements,
            Task::Send,
            Task::Receive,
            Task::Lines,
            Task::Structures,
            Task::ComeAndGo,
            Task::Overflow,
            Task::Increment,
            Task::Update,
            Task::Hot,
            Task::Grow,
            Task::Large,
            Task::Scratch(0),
            Task::Scratch(1),
            Task::Scratch(2),
            Task::Thread,
            Task::Sweep,
            Task::Check,
            Task::Trim,
            Task::Freeze,
            Task::Backup,
        ];
        // Reads pass no steps of their own.
        let own = own.filter(|t| !matches!(t, Task::Own(_, Operation::Get)));
        rest.into_iter().chain(own).collect()
    }

    /// Runs the task, in a process of its own.
    pub fn perform(self, hold: &Path, ledger: Ledger, folder: &Path, seed: u64) -> Result<()> {
        let hold = Hold::open(hold)?;
        match self {
            Task::ComeAndGo => return Ok(hold.close()?),
            Task::Sweep => return Ok(hold.sweep().map(drop)?),
            Task::Check => return Ok(hold.check().map(drop)?),
            Task::Trim => return Ok(hold.trim().map(drop)?),
            Task::Freeze => return Ok(hold.freeze().map(drop)?),
            Task::Backup => {
                hold.backup(folder.join(format!("backup-{}", std::process::id())))?;
                return Ok(());
            }
            Task::Large => return large(&hold),
            Task::Scratch(which) => return scratch(&hold, which),
            Task::Structures => return messages::come_and_go(&hold),
            Task::Elements | Task::Send | Task::Receive | Task::Lines => {
                return self.with_messages(&hold, seed);
            }
            _ => {}
        }
        let maps = Arc::new(Maps::open(&hold)?);
        let mut lane = Lane::take_up(0, &hold, &maps, &Arc::new(ledger), true, seed)?;
        let work = move || self.with_lane(&mut lane);
        if self == Task::Thread {
            return std::thread::spawn(work).join().expect("the thread does not panic");
        }
        let mut work = work;
        work()
    }

    fn with_messages(self, hold: &Hold, seed: u64) -> Result<()> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut messages = Messages::open(hold)?;
        // A writer's life; no two processes have the same.
        let writer = u64::from(std::process::id()) << 32 | seed;
        (0..12).try_for_each(|_| match self {
            Task::Elements => messages.pass_on(&mut rng),
            Task::Send => messages.send(&mut rng),
            Task::Receive => messages.receive(&mut rng),
            _ => messages.write(&mut rng, writer).and_then(|()| messages.collect()),
        })
    }

    fn with_lane(self, lane: &mut Lane) -> Result<()> {
        let mut shared = Shared::default();
        match self {
            Task::Own(kind, operation) => (0..6).try_for_each(|_| lane.own(kind, operation)),
            Task::Overflow => {
                (0..KEYS / BATCH).try_for_each(|_| lane.own(Kind::Cache, Operation::Batch))
            }
            Task::Increment => (0..3).try_for_each(|_| shared.increment(lane)),
            Task::Update => (0..3).try_for_each(|_| shared.update(lane)),
            Task::Hot => (0..8).try_for_each(|_| shared.hot(lane)),
            Task::Grow => (0..3000).try_for_each(|_| lane.grow()),
            _ => (0..50).try_for_each(|_| lane.own_step()),
        }
    }
}

fn large(hold: &Hold) -> Result<()> {
    let map = hold.maps().open_or_create(LARGE, MapOptions::general())?;
    for number in 0..6u8 {
        map.set([number], vec![number; 50_000 << number])?;
    }
    for number in 0..6u8 {
        map.set([number], vec![number; 60_000])?;
        map.delete([number])?;
    }
    Ok(())
}

fn scratch(hold: &Hold, which: usize) -> Result<()> {
    let map = hold.maps().open_or_create(SCRATCH[which], scratch_options(which))?;
    for number in 0..600u64 {
        let key = number.to_le_bytes();
        map.set(key, scratch_value(&key, number as u32))?;
    }
    map.clear()?;
    for number in 0..300u64 {
        let key = number.to_le_bytes();
        map.set(key, scratch_value(&key, number as u32))?;
    }
    hold.maps().drop(SCRATCH[which])?;
    Ok(())
}

/// Verifies the effects of tasks outside the ledger; returns the error, if there is one.
pub fn look(hold: &Hold) -> Result<Option<String>> {
    let names: Vec<String> = hold.maps().list_all()?.into_iter().map(|map| map.name).collect();
    for name in names {
        let scratch = SCRATCH.contains(&&name[..]);
        if !scratch && name != LARGE {
            continue;
        }
        for pair in hold.maps().open(&name)?.iter() {
            let (key, value) = pair?;
            let right = match scratch {
                true => super::plan::is_scratch_value(&key, &value),
                false => value.len() >= 50_000 && value.iter().all(|byte| [*byte] == key[..]),
            };
            if !right {
                return Ok(Some(format!("map {name}: key {key:02x?} has a wrong value")));
            }
        }
    }
    Ok(None)
}
