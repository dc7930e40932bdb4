//! The caretaker: it does the work of an administrator while all others work, and is killed like
//! them.
//!
//! A live check may find changes in flight, but no problem. A backup is complete once it is
//! reported so; the supervisor restores the last one at the end of a round.

use super::faults;
use super::messages;
use super::plan::{Ledger, Maps, Order};
use super::value::Kind;
use crate::workload::{Result, RunError};
use commonhold::Hold;
use commonhold::map::MapOptions;

/// The name of a backup that was completed, in the run's folder.
pub const BACKUP: &str = "complete.backup";

/// Works until the run is over.
pub fn run(order: &Order) -> Result<()> {
    let ledger = Ledger::open(order)?;
    let mut rng = fastrand::Rng::with_seed(order.seed);
    let mut open = None;
    for done in 0.. {
        let task = || care(order, &mut open, &mut rng);
        if faults::persist(order, &ledger, 0, task)?.is_none() || ledger.over()? {
            break;
        }
        ledger.set_ready(order.place)?;
        ledger.set_progress(order.place, 0, done)?;
    }
    Ok(())
}

/// One task in the hold, which is opened first if necessary.
fn care(order: &Order, open: &mut Option<Hold>, rng: &mut fastrand::Rng) -> Result<()> {
    let hold = match open.take() {
        Some(hold) => open.insert(hold),
        None => open.insert(faults::open(order, false)?),
    };
    match rng.u8(..64) {
        0..=7 => check(hold)?,
        8..=19 => drop(hold.sweep()?),
        20..=23 => drop(hold.trim()?),
        24..=31 => look_around(hold)?,
        32..=35 => drop(hold.freeze()?),
        36 => backup(hold, order)?,
        37..=44 => come_and_go(hold, rng)?,
        45..=47 => messages::come_and_go(hold)?,
        _ => open.take().map_or(Ok(()), Hold::close)?,
    }
    Ok(())
}

fn check(hold: &Hold) -> Result<()> {
    let report = hold.check()?;
    if report.ok && report.problems.is_empty() {
        return Ok(());
    }
    Err(RunError::new(format!("check, while others work: {}", report.problems.join("; "))))
}

fn look_around(hold: &Hold) -> Result<()> {
    let stat = hold.stat()?;
    let maps = Maps::open(hold)?;
    for kind in Kind::ALL {
        maps.own(kind).stat()?;
    }
    let alive = hold.participants()?.iter().filter(|p| p.alive).count();
    if alive == 0 || stat.maps == 0 {
        return Err(RunError::new(format!(
            "stat reports {} maps, {alive} participants",
            stat.maps
        )));
    }
    Ok(())
}

/// Makes a map, fills it across a split, and drops it.
fn come_and_go(hold: &Hold, rng: &mut fastrand::Rng) -> Result<()> {
    let name = format!("passing-{}", rng.u8(..3));
    let map = hold.maps().open_or_create(&name, MapOptions::general())?;
    for number in 0..rng.u32(..400) {
        map.set(number.to_le_bytes(), name.as_bytes())?;
    }
    hold.maps().drop(&name)?;
    Ok(())
}

/// A backup gets its final name only when it is complete, whatever process is killed.
fn backup(hold: &Hold, order: &Order) -> Result<()> {
    let begun = order.folder.join(format!("begun-{}", std::process::id()));
    hold.backup(&begun)?;
    Ok(std::fs::rename(begun, order.folder.join(BACKUP))?)
}
