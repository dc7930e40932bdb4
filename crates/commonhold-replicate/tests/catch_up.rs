//! Replicas that were away for longer than the stream keeps get the changes in between from the
//! map's journal, and the whole map if the journal does not have them all.

use crate::cast::scribble;
use crate::history::often;
use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager, pairs};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::journal::{Journal, JournalOptions, SyncPolicy};
use commonhold_replicate::{
    HoldJournal, HoldJournalOptions, Origin, OriginOptions, Replica, ReplicaOptions, Transmission,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::until;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// One file that grows.
fn plain() -> JournalOptions {
    JournalOptions { compact_bytes: 1 << 30, ..JournalOptions::default() }
}

/// Every file becomes a segment as soon as possible.
fn segmented() -> JournalOptions {
    JournalOptions { stream_bytes: 0, ..often() }
}

/// A map with a journal and an origin, and a replica that has followed it.
struct Shop {
    source: Source,
    journal: Option<Journal>,
    copy: Copy,
    dice: Dice,
}

impl Shop {
    fn new(options: JournalOptions) -> Shop {
        let source = Source::with(MapOptions::general(), small_stream);
        (0..500u32).for_each(|key| _ = source.map.set(key.to_be_bytes(), "first").unwrap());
        let copy = Copy::of(&source, "copy.hold");
        copy.agrees(&source);
        let mut shop = Shop { source, journal: None, copy, dice: Dice::new(7) };
        let syncs = options.sync != SyncPolicy::Never;
        shop.journal = Some(shop.start(options));
        if syncs {
            shop.record();
        }
        // The replica's last change is in the journal.
        shop.source.map.set("last", "1").unwrap();
        shop.copy.agrees(&shop.source);
        shop
    }

    fn file(&self) -> PathBuf {
        self.source.test_dir.path("it.journal")
    }

    fn start(&self, options: JournalOptions) -> Journal {
        Journal::start(&self.source.hold, "it", self.file(), options).unwrap()
    }

    /// Ends everything that uses the hold.
    fn close(&mut self) {
        self.source.origin = None;
        self.journal.take().unwrap().finish().unwrap();
        let other = Hold::open_or_create(self.source.test_dir.path("other.hold")).unwrap();
        self.source.map = other.maps().open_or_create("it", MapOptions::general()).unwrap();
        self.source.hold = other;
    }

    /// Continues with the map of a hold.
    fn open(&mut self, path: &Path) {
        self.source.hold = Hold::open(path).unwrap();
        self.source.map = self.source.hold.maps().open("it").unwrap();
    }

    fn record(&self) {
        record(&self.source.map);
    }

    /// Changes the map without an origin, by several times as much as the stream keeps; the journal
    /// follows.
    fn leave_behind(&mut self) {
        self.source.origin = None;
        let end = self.source.end().offset + 5 * SMALL_STREAM;
        while self.source.end().offset < end {
            (0..100).for_each(|_| scribble(&self.source.map, &mut self.dice, 700));
            self.record();
        }
    }

    fn come_back(&mut self) {
        self.source.begin(small_stream);
        self.copy.agrees(&self.source);
    }

    fn full_syncs(&self) -> u64 {
        self.copy.replica.status().synchronisations
    }

    fn more_copies(&self, number: usize) -> Vec<Copy> {
        let copy = |number| Copy::of(&self.source, &format!("copy-{number}.hold"));
        let ready = |copy: &Copy| assert!(copy.replica.wait_ready(LONG));
        (0..number).map(copy).inspect(ready).collect()
    }

    /// Whether the last replica that joined began with the journal.
    fn has_caught_up(&self) -> bool {
        let joined = self.source.joined.lock().unwrap();
        joined.last().is_some_and(|line| line.ends_with("catches up from the journal"))
    }

    #[track_caller]
    fn ensure_has_caught_up(&self) {
        let (joined, said) = (&self.source.joined, &self.source.said);
        assert!(self.has_caught_up(), "{:?}, {:?}", joined.lock(), said.lock());
    }

    /// The replica comes back, and gets the whole map, because of this.
    #[track_caller]
    fn comes_back_by_full_sync(&mut self, why: &str) {
        let before = self.full_syncs();
        self.come_back();
        let (joined, said) = (&self.source.joined, &self.source.said);
        assert_eq!(self.full_syncs(), before + 1, "{:?}, {:?}", joined.lock(), said.lock());
        assert!(self.source.has_said(why), "{:?}", said.lock());
    }

    /// The segments, from the first to the last.
    fn segments(&self) -> Vec<PathBuf> {
        let listed = std::fs::read_dir(self.source.test_dir.path("it.journal.d")).unwrap();
        let mut segments: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        segments
    }
}

fn small_stream(options: &mut OriginOptions) {
    options.stream_bytes = SMALL_STREAM;
}

#[track_caller]
fn record(map: &Map) {
    until("all changes are in the journal", || map.sync(LONG).is_ok());
}

/// Flips a bit in the middle of a file, or nearer to its end.
fn damage(file: &Path, part: f64) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = (bytes.len() as f64 * part) as usize;
    bytes[at] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_replica_catches_up_from_the_journal() {
    let mut shop = Shop::new(plain());
    for _ in 0..3 {
        shop.leave_behind();
        shop.come_back();
        shop.ensure_has_caught_up();
        // It continues with the stream.
        shop.source.map.set("more", "1").unwrap();
        shop.copy.agrees(&shop.source);
    }
    assert_eq!(shop.full_syncs(), 1, "{:?}", shop.source.said.lock());
    assert_eq!(shop.journal.as_ref().unwrap().status().error, None);
}

#[test]
fn changes_come_from_any_number_of_segments() {
    let mut shop = Shop::new(segmented());
    let before = shop.segments().len();
    shop.leave_behind();
    until("some segments", || {
        scribble(&shop.source.map, &mut Dice::new(1), 700);
        shop.record();
        shop.segments().len() > before + 3
    });
    shop.come_back();
    shop.ensure_has_caught_up();
    assert_eq!(shop.full_syncs(), 1, "{:?}", shop.source.said.lock());
}

/// Nothing is sent before the missing part is noticed.
#[test]
fn a_hole_or_damage_leads_to_a_full_sync() {
    let mut shop = Shop::new(segmented());
    shop.leave_behind();
    until("some segments", || {
        scribble(&shop.source.map, &mut Dice::new(1), 700);
        shop.record();
        shop.segments().len() > 10
    });
    std::fs::remove_file(&shop.segments()[5]).unwrap();
    let changes = shop.copy.replica.status().changes;
    shop.comes_back_by_full_sync("does not have the changes from position");
    assert_eq!(shop.copy.replica.status().changes, changes);

    let mut shop = Shop::new(plain());
    shop.leave_behind();
    damage(&shop.file(), 0.6);
    let changes = shop.copy.replica.status().changes;
    shop.comes_back_by_full_sync("is damaged");
    assert_eq!(shop.copy.replica.status().changes, changes);
    // The next journal begins a new file.
    shop.journal.take().unwrap().finish().unwrap();
    shop.journal = Some(shop.start(plain()));
    shop.record();
    shop.source.map.set("last", "2").unwrap();
    shop.copy.agrees(&shop.source);
    shop.leave_behind();
    shop.come_back();
    shop.ensure_has_caught_up();
}

#[test]
fn a_compaction_in_between_leads_to_a_full_sync() {
    let options = JournalOptions { compact_bytes: 1 << 10, ..JournalOptions::default() };
    let mut shop = Shop::new(options);
    let before = shop.journal.as_ref().unwrap().status().compactions;
    shop.leave_behind();
    until("two compactions", || {
        scribble(&shop.source.map, &mut Dice::new(1), 700);
        shop.record();
        shop.journal.as_ref().unwrap().status().compactions > before + 1
    });
    shop.comes_back_by_full_sync("does not have the changes from position");
}

/// Many small changes of few keys: the whole map is faster.
#[test]
fn a_small_map_is_sent_as_a_whole() {
    let mut shop = Shop::new(plain());
    shop.source.map.clear().unwrap();
    shop.copy.agrees(&shop.source);
    shop.source.origin = None;
    let end = shop.source.end().offset + 100 * SMALL_STREAM;
    while shop.source.end().offset < end {
        (0..20).for_each(|_| _ = shop.source.map.set("key", [7; 2000]).unwrap());
        shop.record();
    }
    shop.comes_back_by_full_sync("more than 16 times the whole map");
}

#[test]
fn a_journal_that_has_ended_or_is_gone_leads_to_a_full_sync() {
    let mut shop = Shop::new(plain());
    shop.journal.take().unwrap().finish().unwrap();
    shop.source.origin = None;
    // It ends too early.
    let end = shop.source.end().offset + 3 * SMALL_STREAM;
    while shop.source.end().offset < end {
        scribble(&shop.source.map, &mut shop.dice, 700);
    }
    shop.comes_back_by_full_sync("does not have the changes from position");
    shop.journal = Some(shop.start(JournalOptions { replace: true, ..plain() }));
    shop.record();
    shop.leave_behind();
    std::fs::remove_file(shop.file()).unwrap();
    shop.comes_back_by_full_sync("does not have the changes from position");
}

/// A journal whose syncs are up to the system has the changes all the same.
#[test]
fn a_journal_without_syncs_is_of_use() {
    let mut shop = Shop::new(JournalOptions { sync: SyncPolicy::Never, ..plain() });
    shop.source.origin = None;
    let end = shop.source.end().offset + 5 * SMALL_STREAM;
    while shop.source.end().offset < end {
        (0..100).for_each(|_| scribble(&shop.source.map, &mut shop.dice, 700));
        let end = shop.source.end();
        let journal = shop.journal.as_ref().unwrap();
        until("the journal follows", || journal.status().position == Some(end));
    }
    shop.come_back();
    shop.ensure_has_caught_up();
    assert_eq!(shop.full_syncs(), 1);
}

#[test]
fn changes_that_are_not_to_be_sent_yet_do_not_come_from_the_journal() {
    let mut shop = Shop::new(plain());
    shop.leave_behind();
    shop.source.begin(|options| {
        small_stream(options);
        options.transmission = Transmission::Explicit;
    });
    let origin = shop.source.origin();
    until("the whole map", || {
        origin.transmit().unwrap();
        shop.full_syncs() == 2 && shop.copy.replica.wait_for(shop.source.end(), LONG)
    });
    assert_eq!(shop.copy.pairs(), pairs(&shop.source.map));
}

/// A writer changes the map meanwhile, until all replicas have come to its changes.
#[test]
fn replicas_catch_up_while_the_map_changes() {
    let mut shop = Shop::new(plain());
    let map = shop.source.map.clone();
    // So that the changes are not many times as large as the map.
    (0..2000u32).for_each(|key| _ = map.set(key.to_le_bytes(), [7; 300]).unwrap());
    let more = shop.more_copies(20);
    shop.copy.agrees(&shop.source);
    let (full_syncs, begun) = (shop.full_syncs(), shop.source.end().offset);
    shop.source.origin = None;
    let change = |dice: &mut Dice| {
        let key = (dice.below(2000) as u32).to_le_bytes();
        (0..100).for_each(|_| _ = map.set(key, [dice.roll() as u8; 60]).unwrap());
        record(&map);
    };
    while shop.source.end().offset < begun + 5 * SMALL_STREAM {
        change(&mut shop.dice);
    }
    let (later, over) = (shop.source.end().offset, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (map, over) = (&map, &over);
        scope.spawn(move || {
            let mut dice = Dice::new(9);
            let end = || map.follow().unwrap().end().unwrap().offset;
            while !over.load(Ordering::Relaxed) && end() < later + 30 * SMALL_STREAM {
                change(&mut dice);
            }
        });
        shop.source.begin(small_stream);
        let is_there = |copy: &Copy| {
            let position = copy.replica.status().position;
            position.is_some_and(|position| position.offset >= later)
        };
        until("all replicas have come so far", || more.iter().all(is_there));
        over.store(true, Ordering::Relaxed);
    });
    shop.copy.agrees(&shop.source);
    more.iter().for_each(|copy| copy.agrees(&shop.source));
    assert_eq!(shop.full_syncs(), full_syncs, "{:?}", shop.source.said.lock());
    let syncs: u64 = more.iter().map(|copy| copy.replica.status().synchronisations).sum();
    assert_eq!(syncs, more.len() as u64, "{:?}", shop.source.said.lock());
}

/// Those that find no place get the whole map at once.
#[test]
fn a_crowd_of_replicas_comes_back() {
    let mut shop = Shop::new(plain());
    let more = shop.more_copies(100);
    shop.leave_behind();
    shop.come_back();
    more.iter().for_each(|copy| copy.agrees(&shop.source));
    let joined = shop.source.joined.lock().unwrap();
    assert!(joined.iter().any(|line| line.ends_with("catches up from the journal")), "{joined:?}");
}

#[test]
fn a_replica_of_a_prefix_catches_up() {
    let mut shop = Shop::new(plain());
    let hold = Hold::create(shop.source.test_dir.path("part.hold")).unwrap();
    let prefix = Some(vec![0, 0, 1]);
    let options = ReplicaOptions { prefix: prefix.clone(), ..eager() };
    let part = Replica::connect(&hold, "it", &shop.source.address, options, ()).unwrap();
    assert!(part.wait_ready(LONG));
    let received = part.status().bytes;
    shop.leave_behind();
    let begun = shop.source.end().offset;
    shop.come_back();
    assert!(part.wait_for(shop.source.end(), LONG), "{:?}", part.status());
    let wanted: Vec<_> = pairs(&shop.source.map)
        .into_iter()
        .filter(|(key, _)| key.starts_with(&[0, 0, 1]))
        .collect();
    let found: Vec<_> = pairs(&hold.maps().open("it").unwrap()).into_iter().collect();
    assert_eq!(found, wanted);
    assert_eq!(part.status().synchronisations, 1);
    let received = part.status().bytes - received;
    assert!(received < 4 * SMALL_STREAM && begun > 5 * SMALL_STREAM, "{received} bytes");
}

/// An old copy of the hold is put back, as a machine's snapshot does it: the later changes in the
/// file are another life's.
#[test]
fn a_journal_of_another_life_is_not_used() {
    let mut shop = Shop::new(plain());
    let [here, snapshot] = ["origin.hold", "snapshot"].map(|name| shop.source.test_dir.path(name));
    shop.close();
    std::fs::copy(&here, &snapshot).unwrap();
    shop.open(&here);
    shop.journal = Some(shop.start(plain()));
    shop.record();
    shop.leave_behind();
    let end = shop.source.end().offset;
    shop.close();
    std::fs::copy(&snapshot, &here).unwrap();
    shop.open(&here);
    while shop.source.end().offset < end - SMALL_STREAM / 2 {
        shop.source.map.set(shop.dice.roll().to_be_bytes(), "another").unwrap();
    }
    shop.comes_back_by_full_sync("has other changes than the map");
}

/// Origins are killed while they send changes of the journal.
#[test]
fn catching_up_continues_after_kills() {
    let mut shop = Shop::new(plain());
    let (hold, address) = (shop.source.test_dir.path("origin.hold"), shop.source.address.clone());
    for _ in 0..8 {
        shop.leave_behind();
        let begun = shop.copy.replica.status().position;
        let child = cast("origin", || {
            let hold = Hold::open(&hold).unwrap();
            let mut options = OriginOptions::default();
            small_stream(&mut options);
            let origin = Origin::start(&hold, "it", options).unwrap();
            origin.listen(&address).unwrap();
            std::thread::sleep(LONG);
        });
        until("the first changes", || shop.copy.replica.status().position != begun);
        child.slay();
        shop.come_back();
    }
    assert_eq!(shop.full_syncs(), 1, "{:?}", shop.source.said.lock());
}

/// Closing a file releases the locks that the process has on it.
#[test]
fn a_journal_of_the_same_process_keeps_its_lock() {
    let mut shop = Shop::new(plain());
    shop.leave_behind();
    shop.come_back();
    shop.ensure_has_caught_up();
    shop.source.origin = None;
    shop.source.map.set("more", "1").unwrap();
    shop.record();
    let file = shop.file();
    cast("another process", || {
        let file = std::fs::File::options().write(true).open(&file).unwrap();
        let locked = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
        assert!(locked.is_err(), "the journal has lost its lock");
    })
    .finish();
}

#[test]
fn maps_of_a_whole_hold_catch_up() {
    let mut shop = Shop::new(plain());
    shop.journal.take().unwrap().finish().unwrap();
    let directory = shop.source.test_dir.path("journals");
    let options = HoldJournalOptions { journal: plain(), ..HoldJournalOptions::default() };
    let journal = HoldJournal::start(&shop.source.hold, &directory, options).unwrap();
    shop.record();
    shop.source.map.set("last", "2").unwrap();
    shop.copy.agrees(&shop.source);
    shop.leave_behind();
    shop.come_back();
    shop.ensure_has_caught_up();
    assert_eq!(shop.full_syncs(), 1, "{:?}", shop.source.said.lock());
    journal.finish().unwrap();
}
