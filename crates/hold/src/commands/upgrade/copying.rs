//! A copy of a whole hold: the maps by a backup, then queues and channels with their messages, then
//! the logs.

use super::drafts::Drafts;
use super::messages;
use commonhold::log::{LogOptions, LogStat};
use commonhold::{Hold, hold};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::sizes::things;
use std::path::Path;

/// The numbers of what was copied.
#[derive(Default)]
pub struct Copied {
    pub maps: u64,
    pub pairs: u64,
    pub queues: u64,
    pub elements: u64,
    pub channels: u64,
    pub messages: u64,
    pub logs: u64,
}

/// Copies everything in `from` to a new hold. The copy appears when it is complete.
///
/// # Errors
/// If another process has `from` open for writing; if a log has lines that were not collected; if
/// `to` exists; those of backups and of opening structures.
pub fn copy(from: &Hold, to: &Path) -> Result<Copied> {
    ensure_alone(from)?;
    // Elements that killed processes had in flight go to the orphan queues.
    from.sweep()?;
    let drafts = Drafts::new(to)?;
    let logs = collected_logs(from)?;
    from.backup(&drafts.backup)?;
    let restored = hold::restore(&drafts.backup, &drafts.hold)?;
    let new = Hold::open(&drafts.hold)?;
    let mut copied =
        Copied { maps: restored.maps.into(), pairs: restored.pairs, ..Copied::default() };
    for queue in from.queues().list()? {
        copied.elements += messages::queue(from, &new, &queue.name)?;
        copied.queues += 1;
    }
    for channel in from.channels().list()? {
        copied.messages += messages::channel(from, &new, &channel.name)?;
        copied.channels += 1;
    }
    for (name, stat) in &logs {
        drop(new.logs().create(name, options(stat))?);
        copied.logs += 1;
    }
    drop(new);
    drafts.commit()?;
    Ok(copied)
}

/// Fails if another process could change the hold during the copy.
fn ensure_alone(from: &Hold) -> Result<()> {
    let living: Vec<_> = from.participants()?.into_iter().filter(|one| one.alive).collect();
    // A process in another container may have the same number as this one.
    let me = std::process::id();
    let Some(other) = living.iter().find(|one| one.pid != me).or(living.get(1)) else {
        return Ok(());
    };
    Err(Failure::failed(format!(
        "{}: process {} ({}) has it open for writing; stop all programs that use the hold, so \
         that the copy contains all their changes",
        from.path().display(),
        other.pid,
        other.program
    )))
}

/// The logs of the hold, all lines of which were collected.
fn collected_logs(from: &Hold) -> Result<Vec<(String, LogStat)>> {
    let mut logs = Vec::new();
    for log in from.logs().list()? {
        let stat = from.logs().open(&log.name)?.stat()?;
        if stat.waiting_bytes > 0 {
            let bytes = things(stat.waiting_bytes, "byte", "bytes");
            return Err(Failure::failed(format!(
                "log '{0}' has {bytes} of lines that were not collected; collect them first: \
                 'hold log collect {1} {0} --once'",
                log.name,
                from.path().display()
            )));
        }
        logs.push((log.name, stat));
    }
    Ok(logs)
}

fn options(stat: &LogStat) -> LogOptions {
    LogOptions::new()
        .rings(stat.rings)
        .ring_bytes(stat.ring_bytes)
        .overflow(stat.overflow)
        .level(stat.level)
}
