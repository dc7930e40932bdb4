//! The notes of a serving thread about what its replicas have applied, for the processes that wait
//! for that ([`Map::wait_for_replicas`](commonhold::map::Map::wait_for_replicas)).
//!
//! Invariant: a stopped process that has the notes locked delays the thread by one [`MOMENT`], and
//! again only after [`PAUSE`]. Notes that were not written are written later: no report is lost.

use crate::origin::serve::MOMENT;
use crate::origin::subscriber_table::SubscriberTable;
use commonhold::Result;
use commonhold::raw::{MapIdentity, ReplicaAcks};
use commonhold::stream::StreamPosition;
use commonhold_io::thread_patience::with_patience;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(20);
/// The most notes that wait to be written: peers may come with other numbers again and again.
const MOST_DUE: usize = 16 << 10;

/// A report of a replica, to be noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// The origin's map.
    pub(crate) of: MapIdentity,
    /// The number of its map.
    pub(crate) node: u64,
    /// The number of its connection.
    pub(crate) session: u64,
    pub(crate) name: Arc<str>,
    /// Its readers see everything up to there; `None` if it begins with nothing.
    pub(crate) position: Option<StreamPosition>,
    /// It has just connected: what was noted before is no longer true if it is more.
    pub(crate) resumes: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Acks {
    notes: Option<ReplicaAcks>,
    /// By the number of the replica's map.
    due: HashMap<u64, Ack>,
    /// Until then nothing is written.
    paused: Option<Instant>,
    /// The log has the reason why nothing can be written.
    has_failed: bool,
}

impl Acks {
    /// Keeps a report for the next [`write`](Self::write), unless the replica has connected again
    /// since: an earlier connection may be read later.
    pub(crate) fn note(&mut self, ack: Ack) {
        if let Some(due) = self.due.get_mut(&ack.node) {
            if due.session > ack.session {
                return;
            }
            *due = Ack { resumes: ack.resumes || due.resumes, ..ack };
        } else if self.due.len() < MOST_DUE {
            self.due.insert(ack.node, ack);
        }
    }

    /// The time when the next notes can be written, if there are any.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.paused.filter(|_| !self.due.is_empty())
    }

    /// Writes the notes that are due.
    pub(crate) fn write(&mut self, table: &SubscriberTable, now: Instant) {
        if self.due.is_empty() || self.paused.is_some_and(|until| now < until) {
            return;
        }
        self.paused = None;
        while let Some(node) = self.due.keys().next().copied() {
            match with_patience(MOMENT, || self.write_one(table, node)) {
                Ok(()) => self.has_failed = false,
                Err(error) => return self.pause(table, &error),
            }
        }
    }

    fn write_one(&mut self, table: &SubscriberTable, node: u64) -> Result<()> {
        let Some(ack) = self.due.get(&node) else { return Ok(()) };
        if !table.is_latest(node, ack.session) {
            self.due.remove(&node);
            return Ok(());
        }
        let notes = match &mut self.notes {
            Some(notes) => notes,
            none => none.insert(ReplicaAcks::open(&table.hold, &table.name)?),
        };
        match ack.position {
            Some(at) if notes.raise(&ack.of, (node, &ack.name), at, ack.resumes)? => {
                notes.prune(&ack.of, at.stream, table.options.most_replicas)?;
            }
            Some(_) => {}
            None => notes.forget(node)?,
        }
        if !table.is_latest(node, ack.session) {
            // It has connected again meanwhile, perhaps with nothing. It reports again.
            notes.forget(node)?;
        }
        self.due.remove(&node);
        Ok(())
    }

    #[cold]
    fn pause(&mut self, table: &SubscriberTable, error: &commonhold::Error) {
        // They may have been dropped.
        self.notes = None;
        self.paused = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut self.has_failed, true) {
            table.note(&format!("cannot note what replicas have applied: {error}; retrying"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::OriginOptions;
    use crate::origin::subscriber_table::InCommon;
    use commonhold::Hold;
    use commonhold::map::MapOptions;
    use commonhold::raw::map_identity;
    use commonhold_testing::support::test_dir::TestDir;

    /// The first connection is read after the replica has connected again.
    #[test]
    fn a_late_report_of_an_earlier_connection_does_not_count() {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 1 << 20).unwrap();
        map.set("a", "1").unwrap();
        let beginning = map.follow().unwrap().end().unwrap();
        map.set("a", "2").unwrap();
        let end = map.follow().unwrap().end().unwrap();
        let table =
            SubscriberTable::new(&hold, map.clone(), OriginOptions::default(), InCommon::default())
                .unwrap();
        let report = |session, position, resumes| {
            let (of, name) = (map_identity(&map), "".into());
            Ack { of, node: 7, session, name, position: Some(position), resumes }
        };
        let counted = |acks: &mut Acks| {
            acks.write(&table, Instant::now());
            map.wait_for_replicas(1, Duration::ZERO).is_ok()
        };
        let (mut one_thread, mut other_thread) = (Acks::default(), Acks::default());
        table.has_connected(7, 2);
        one_thread.note(report(2, end, true));
        one_thread.note(report(1, beginning, false));
        assert!(counted(&mut one_thread));
        other_thread.note(report(1, beginning, true));
        assert!(counted(&mut other_thread));
        table.has_connected(7, 3);
        other_thread.note(report(3, beginning, true));
        assert!(!counted(&mut other_thread));
    }
}
