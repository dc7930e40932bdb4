//! Statistics of a log, for people and programs.

use crate::log::layout::{Layout, tenant_owner};
use crate::log::line::{ThreadId, ThreadInfo};
use crate::log::options::{LogLevel, Overflow};
use crate::log::ring::Ring;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// One ring of a log.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RingStat {
    /// Its number.
    pub ring: u32,
    /// The slot of the participant whose thread writes into it; `None` if it is free.
    pub slot: Option<u32>,
    /// Whether that participant is alive.
    pub alive: bool,
    /// The thread that writes, or wrote last.
    pub thread: ThreadId,
    /// Facts about that thread.
    pub who: ThreadInfo,
    /// Bytes that were not collected.
    pub waiting_bytes: u64,
    /// Lines written so far, including dropped ones, and one for each thread that has had the ring.
    pub lines: u64,
    /// Lines dropped because the ring was full.
    pub dropped: u64,
    /// Lines overwritten before they were collected (one that was being collected just then may
    /// count, too).
    pub overwritten: u64,
}

/// A log's sizes and counts.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogStat {
    /// The number of rings.
    pub rings: u32,
    /// Bytes of each ring.
    pub ring_bytes: u64,
    /// How a full ring treats a new line.
    pub overflow: Overflow,
    /// The least important level that the log accepts.
    pub level: LogLevel,
    /// The slot and the process of the collector; `None` if there is none.
    pub collector: Option<(u32, u32)>,
    /// Threads that have written so far.
    pub threads: u32,
    /// Lines dropped because their ring was full, of all rings.
    pub dropped: u64,
    /// Lines dropped because no ring was free, or because the hold was frozen when a forked child
    /// began to use the log.
    pub refused: u64,
    /// Lines overwritten before they were collected, of all rings.
    pub overwritten: u64,
    /// Bytes that were not collected.
    pub waiting_bytes: u64,
    /// The rings that were ever used.
    pub used: Vec<RingStat>,
}

pub(crate) fn stat(space: &Space, layout: &Layout) -> LogStat {
    let header = layout.header(space);
    // Relaxed, all of it: numbers for display.
    let collector = Owner::from_bits(header.collector.load(Ordering::Relaxed))
        .filter(|owner| !participant::has_died(space, *owner));
    let all = (0..layout.rings).map(|ring| ring_stat(space, layout, ring));
    let used: Vec<RingStat> = all
        .filter(|ring| ring.lines > 0 || ring.slot.is_some() || ring.waiting_bytes > 0)
        .collect();
    LogStat {
        rings: layout.rings,
        ring_bytes: layout.ring_bytes,
        overflow: layout.overflow,
        level: LogLevel::from_code(header.level.load(Ordering::Relaxed)),
        collector: collector.map(|owner| (owner.slot(), participant::pid(space, owner.slot()))),
        threads: header.threads.load(Ordering::Relaxed),
        dropped: used.iter().fold(0, |sum: u64, ring| sum.saturating_add(ring.dropped)),
        refused: header.refused.load(Ordering::Relaxed),
        overwritten: used.iter().fold(0, |sum: u64, ring| sum.saturating_add(ring.overwritten)),
        waiting_bytes: used.iter().map(|ring| ring.waiting_bytes).sum(),
        used,
    }
}

fn ring_stat(space: &Space, layout: &Layout, number: u32) -> RingStat {
    let ring = Ring::new(space, layout, number);
    let header = ring.header;
    let tenant = header.tenant.load(Ordering::Relaxed);
    let owner = tenant_owner(tenant);
    let (head, tail) = (ring.extent().0, ring.tail());
    RingStat {
        ring: number,
        slot: owner.map(Owner::slot),
        alive: owner.is_some_and(|owner| !participant::has_died(space, owner)),
        thread: ThreadId((tenant >> 32) as u32),
        who: header.introduction(),
        waiting_bytes: head.saturating_sub(tail),
        lines: header.next.load(Ordering::Relaxed),
        dropped: header.dropped.load(Ordering::Relaxed),
        overwritten: header.overwritten.load(Ordering::Relaxed),
    }
}
