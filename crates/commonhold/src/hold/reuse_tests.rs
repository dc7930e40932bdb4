//! Memory that another map gets while a stale writer, a dead process or a compaction still names
//! it; and pairs that are read all the time while their memory is wanted.

use crate::Hold;
use crate::map::engine::bound::Bound;
use crate::map::engine::{cache, compact, directory};
use crate::map::layout::record;
use crate::map::layout::root;
use crate::map::layout::segment::Segment;
use crate::map::{CacheOptions, MapOptions};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{Kind, State, committed, header};
use crate::memory::slab;
use crate::memory::writer::Writer;
use crate::sync::patience::Patience;
use crate::sync::robust_lock::{self, Level, Peers};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

fn hold() -> (TempDir, Hold) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("it.hold");
    let hold = Hold::options().lock_timeout(Duration::from_millis(50)).create(path).unwrap();
    (folder, hold)
}

fn whole(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// A stale writer is stopped with the lock of memory that a new map could get.
#[test]
fn a_new_map_gets_no_segment_that_is_locked() {
    let (_folder, hold) = hold();
    let stale = Hold::open(hold.path()).unwrap();
    let participant = stale.arena().participant().unwrap();
    let owner = participant.registration.owner;
    let first = {
        let lane = hold.arena().enter().unwrap();
        let offset = lane.allocate_segment(false).unwrap();
        lane.retire(offset);
        offset
    };
    let segment = Segment::at(hold.space(), first).unwrap();
    let list = &participant.list(stale.space())[0];
    list.segment.store(first, Ordering::SeqCst);
    assert!(robust_lock::try_lock(&segment.header().lock, owner));
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    for key in 0..1000u32 {
        map.set(key.to_le_bytes(), "value").unwrap();
    }
    assert_eq!(robust_lock::holder(&segment.header().lock), Some(owner));
    robust_lock::unlock(&segment.header().lock);
    list.segment.store(0, Ordering::SeqCst);
    whole(&hold);
}

/// A recoverer counts the pairs of memory that has become another map's.
#[test]
fn counting_the_pairs_of_a_segment_leaves_its_map() {
    let (_folder, hold) = hold();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("key", "value").unwrap();
    let hash = map.bound.hasher.hash(b"key");
    let segment = directory::lookup(hold.space(), &map.bound, hash.directory()).unwrap();
    for pairs in [1, 5] {
        segment.set_pairs(pairs, 77);
        map.bound.recount(segment);
        assert_eq!((segment.pairs(), segment.map()), (1, 77));
    }
    segment.set_pairs(1, map.bound.id);
    whole(&hold);
}

/// A process was killed when it had linked a part of a directory: the part is the map's before
/// anybody can drop the map.
#[test]
fn a_linked_chunk_of_a_dead_process_is_the_maps() {
    let (_folder, hold) = hold();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let dead = Hold::open(hold.path()).unwrap();
    let (space, root) = (hold.space(), root::root(hold.space(), map.bound.id).unwrap());
    let (chunk, owner) = {
        let lane = dead.arena().enter().unwrap();
        (directory::claim_chunk(&lane, 1).unwrap(), lane.me())
    };
    assert!(robust_lock::try_lock(&root.directory_lock, owner));
    root.chunks[0].store(chunk * EXTENT, Ordering::SeqCst);
    let patience = Patience::none();
    super::recover::recover(hold.arena(), owner, Level::Directories, patience).unwrap();
    assert_eq!(robust_lock::holder(&root.directory_lock), None);
    assert_eq!(header(space, chunk).state(), State::unowned(Kind::Directory, 0));
    assert!(hold.maps().drop("it").unwrap());
    assert_eq!(header(space, chunk).state(), State::unowned(Kind::SpareDirectory, 0));
    drop(dead);
    whole(&hold);
}

/// Readers mark the pairs of a small cache again and again. A late hand does not spare them.
#[test]
fn a_late_hand_evicts_pairs_that_were_read() {
    let (_folder, hold) = hold();
    let cache = hold.maps().open_or_create("it", CacheOptions::new().max_entries(8)).unwrap();
    for key in 0..8u32 {
        cache.set(key.to_le_bytes(), "value").unwrap();
        assert!(cache.get(key.to_le_bytes()).unwrap().is_some());
    }
    let root = cache.bound.root(hold.space());
    let round = |late| {
        let lane = hold.arena().enter().unwrap();
        for _ in 0..16 {
            cache::advance_hand(&lane, &cache.bound, root, late, &|| true).unwrap();
        }
    };
    round(false);
    assert_eq!(cache.len().unwrap(), 8);
    (0..8u32).for_each(|key| assert!(cache.get(key.to_le_bytes()).unwrap().is_some()));
    round(true);
    assert_eq!(cache.len().unwrap(), 0);
}

/// A map ends while an extent is being emptied, and another one gets its root.
#[test]
fn compaction_moves_the_pairs_of_a_map_with_the_root_of_an_earlier_one() {
    let (_folder, hold) = hold();
    let map = hold.maps().open_or_create("earlier", MapOptions::fixed(40, 40)).unwrap();
    let (space, id) = (hold.space(), map.bound.id);
    let earlier = Bound::new(space, id, root::root(space, id).unwrap()).unwrap();
    assert!(hold.maps().drop("earlier").unwrap());
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    assert_eq!(map.bound.id, id);
    map.set("key", "a value").unwrap();
    let place = |extent: u64| {
        let state = header(space, extent).state();
        let mut offsets = slab::offsets(extent, state.class());
        let is_record = |at: &u64| slab::is_sequence(space.word(*at).load(Ordering::Relaxed));
        let is_of_it = |at: &u64| is_record(at) && record::map_at(space, *at) == id;
        (state.is(Kind::Records) && offsets.any(|at| is_of_it(&at))).then_some(state.class())
    };
    let mut places = (0..committed(space)).filter_map(|extent| Some((extent, place(extent)?)));
    let (extent, class) = places.next().unwrap();
    let mut maps = HashMap::from([(id, Some(earlier))]);
    let lane = hold.arena().enter().unwrap();
    compact::empty(&lane, extent, class, &mut maps).unwrap();
    assert_eq!(maps[&id].as_ref().map(|bound| bound.name.as_str()), Some("it"));
    drop(lane);
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"a value"[..]));
    whole(&hold);
}
