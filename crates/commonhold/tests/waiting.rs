//! Waiting until changes are durable or applied, while other processes are stopped: each wait ends
//! in time, and is confirmed by nothing that is about another map.

use crate::support::process::{Child, End, until};
use crate::support::standstill::{PATIENCE, go_on, stopped, third, timed_out, until_asleep};
use crate::support::test_dir::TestDir;
use commonhold::map::MapOptions;
use commonhold::raw::JournalSlot;
use commonhold::{ErrorKind, Hold};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// The time that a caller of `sync` gives is for everything it waits for, locks too.
#[test]
fn waiting_until_a_change_is_durable_ends_in_time() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    drop((map, hold));
    let still = stopped("stream.locked", || {
        let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
        map.set("key", "value").unwrap();
    });
    third("waits until it is durable", || {
        let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
        timed_out(map.sync(PATIENCE), &still);
    });
    go_on(still);
}

/// The names of the hold are not needed for what the journal has announced already, or announces
/// meanwhile.
#[test]
fn waiting_until_a_change_is_durable_needs_no_names() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let mut slot = JournalSlot::take(&hold, "it").unwrap();
    let journal = test_dir.path("journal");
    let file = File::create(&journal).unwrap().metadata().unwrap();
    slot.file(&journal, (file.dev(), file.ino())).unwrap();
    map.set("key", "value").unwrap();
    slot.durable(&map, map.follow().unwrap().end().unwrap()).unwrap();
    let creates = || {
        drop(
            Hold::open(&path).unwrap().maps().open_or_create("new", MapOptions::general()).unwrap(),
        )
    };
    let still = stopped("create.filled", creates);
    let long = Duration::from_secs(60);
    let open = || Hold::open(&path).unwrap().maps().open("it").unwrap();
    third("has nothing to wait for", || assert!(open().sync(long).is_ok()));
    let follower = map.follow().unwrap();
    let before = follower.end().unwrap();
    let mut waits = Child::run("waits", || {
        let map = open();
        map.set("key", "newer").unwrap();
        let end = map.sync(long).unwrap();
        assert_eq!(end, map.follow().unwrap().end().unwrap());
    });
    // It waits when its change is made.
    until("the change is made", || follower.end().unwrap() != before || waits.is_gone());
    until_asleep(waits.pid(), "", 1);
    slot.durable(&map, follower.end().unwrap()).unwrap();
    assert_eq!(waits.wait_for(Duration::from_secs(20)), End::Well);
    go_on(still);
    drop(slot);
    third("has no journal", || {
        let error = open().sync(long).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}

/// Between two streams there is none. The replicas may still report.
#[test]
fn waiting_for_replicas_lasts_beyond_a_resize() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let end = map.follow().unwrap().end().unwrap();
    let still = stopped("stream.ended", || {
        Hold::open(&path).unwrap().maps().begin_stream("it", 1 << 21).unwrap();
    });
    assert!(map.follow().unwrap_err().is_not_found());
    let error = map.wait_for_replicas_to(end, 1, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    go_on(still);
}

/// As it is left behind when the map is dropped, and another one gets its name and its stream.
#[test]
fn an_announcement_about_another_map_confirms_nothing() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let other = hold.maps().open_or_create("other", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let mut slot = JournalSlot::take(&hold, "it").unwrap();
    let journal = test_dir.path("journal");
    let file = File::create(&journal).unwrap().metadata().unwrap();
    slot.file(&journal, (file.dev(), file.ino())).unwrap();
    let end = map.follow().unwrap().end().unwrap();
    slot.durable(&other, end).unwrap();
    let error = map.sync(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    slot.durable(&map, end).unwrap();
    assert_eq!(map.sync(Duration::ZERO).unwrap(), end);
}
