//! The comparison between rounds: every process is dead or has finished, and everything must agree
//! with the ledger.

use super::caretaker::BACKUP;
use super::compare::reconcile;
use super::messages::Messages;
use super::plan::{
    COUNTERS, GROWING, INCARNATION, KEYS, Maps, counted, counter_key, growing_key, growing_value,
    grown, updated, updated_key,
};
use super::reader::counter_value;
use super::supervisor::Supervisor;
use super::value::Kind;
use crate::workload::{Result, RunError};
use commonhold::Hold;
use commonhold::hold::CheckReport;

/// Compares everything; fails at the first difference.
pub fn audit(supervisor: &mut Supervisor) -> Result<()> {
    supervisor.report.recovered += supervisor.hold.sweep()? as u64;
    check(supervisor.hold)?;
    supervisor.report.checks += 1;
    let maps = Maps::open(supervisor.hold)?;
    let ledger = supervisor.ledger;
    supervisor.report.changes = 0;
    for lane in 0..ledger.lanes() {
        supervisor.report.unacknowledged += reconcile(lane, ledger, &maps, true)?;
        supervisor.report.changes += changes(supervisor, lane)?;
    }
    compare_counters(supervisor, &maps)?;
    compare_growing(supervisor, &maps)?;
    Messages::open(supervisor.hold)?.look()?;
    restore_backup(supervisor)?;
    // The comparison itself must leave nothing behind, either.
    check(supervisor.hold)
}

/// A check of a hold at rest: nothing in flight, nothing leaked.
pub fn check(hold: &Hold) -> Result<()> {
    let CheckReport { ok, problems, allocated, reachable, in_flight, .. } = hold.check()?;
    if ok && problems.is_empty() && allocated == reachable && in_flight == 0 {
        return Ok(());
    }
    Err(RunError::new(format!(
        "check at rest: {allocated} allocated, {reachable} reachable, {in_flight} in flight; {}",
        problems.join("; ")
    )))
}

/// Changes that were acknowledged to `lane` since the beginning.
fn changes(supervisor: &Supervisor, lane: u32) -> Result<u64> {
    let ledger = supervisor.ledger;
    let mut sum = 0;
    for kind in Kind::ALL {
        sum += ledger.all_known(lane, kind)?.iter().map(|known| known.number).sum::<u64>();
    }
    for counter in 0..COUNTERS {
        sum += ledger.head(lane, counted(counter))? + ledger.head(lane, updated(counter))?;
    }
    Ok(sum)
}

/// No acknowledged increment may be missing, and each time a lane died one may be too many.
fn compare_counters(supervisor: &mut Supervisor, maps: &Maps) -> Result<()> {
    let ledger = supervisor.ledger;
    let mut ahead = 0;
    for which in 0..COUNTERS {
        for (plain, key, word) in [
            (true, counter_key(which), counted(which)),
            (false, updated_key(which), updated(which)),
        ] {
            let acknowledged = ledger.sum(word)?;
            let value = maps.counts.get(&key)?;
            let there = counter_value(&key, plain, value.as_deref())?;
            ahead += there.checked_sub(acknowledged).ok_or_else(|| {
                RunError::new(format!(
                    "{key}: expected {acknowledged}, the acknowledged changes, got {there}"
                ))
            })?;
        }
    }
    let deaths = ledger.sum(INCARNATION)?;
    if ahead > deaths {
        return Err(RunError::new(format!(
            "the counters are {ahead} too high, but lanes were started only {deaths} times"
        )));
    }
    Ok(())
}

fn compare_growing(supervisor: &Supervisor, maps: &Maps) -> Result<()> {
    let ledger = supervisor.ledger;
    for (which, map) in maps.growing.iter().enumerate() {
        let mut sum = 0;
        for lane in 0..ledger.lanes() {
            let added = ledger.head(lane, grown(which))?;
            sum += added;
            for number in 0..added {
                let key = growing_key(which, lane, number);
                if map.get(&key)? != Some(growing_value(which, &key)) {
                    return Err(RunError::new(format!(
                        "map {}, lane {lane}: key {number} of {added} is lost or wrong",
                        GROWING[which]
                    )));
                }
            }
        }
        let (len, met) = (map.len()?, map.iter().count() as u64);
        if len != sum || met != sum {
            return Err(RunError::new(format!(
                "map {}: {sum} keys were added, but len is {len} and iteration finds {met}",
                GROWING[which]
            )));
        }
    }
    Ok(())
}

/// Restores the last complete backup into another hold and verifies every pair of it.
fn restore_backup(supervisor: &mut Supervisor) -> Result<()> {
    let folder = supervisor.paths.folder;
    let backup = folder.join(BACKUP);
    if !backup.exists() {
        return Ok(());
    }
    let path = folder.join("restored.hold");
    commonhold::hold::restore(&backup, &path)?;
    let restored = Hold::open(&path)?;
    check(&restored)?;
    let map = restored.maps().open(Kind::General.map_name())?;
    for pair in map.iter() {
        let (key, value) = pair?;
        Kind::General
            .read(&key, &value)
            .map_err(|why| RunError::new(format!("backup: key {key:02x?}: {why}")))?;
    }
    let words = restored.maps().open(Kind::Word.map_name())?.len()?;
    if words > u64::from(supervisor.ledger.lanes()) * KEYS {
        return Err(RunError::new(format!("backup: map word has too many keys: {words}")));
    }
    restored.close()?;
    commonhold::hold::remove(&path, true)?;
    for entry in std::fs::read_dir(folder)? {
        // No process works: unfinished backups belong to the dead.
        std::fs::remove_file(entry?.path())?;
    }
    supervisor.report.backups += 1;
    Ok(())
}
