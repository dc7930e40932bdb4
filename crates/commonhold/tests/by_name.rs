//! Structures by name: opening, creating, dropping and listing each kind.

use crate::support::process::until;
use crate::support::test_dir::TestDir;
use commonhold::channel::ChannelOptions;
use commonhold::hold::StructureKind;
use commonhold::log::LogOptions;
use commonhold::map::{CacheOptions, MapInfo, MapOptions};
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold, Result};

/// The error of a call, which has to name what it is about.
fn refused<T>(result: Result<T>, kind: ErrorKind) {
    let error = result.map(drop).expect_err("refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains("'it'"), "{error}");
}

#[test]
fn existing_structures_are_opened_or_refused() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let (queue, ring) = (QueueOptions::new(4, 8), ChannelOptions::new(4 << 10));
    let rings = LogOptions::new().rings(1).ring_bytes(4 << 10);
    refused(hold.maps().open("it"), ErrorKind::NotFound);
    drop(hold.maps().create("it", MapOptions::general()).unwrap());
    refused(hold.maps().create("it", MapOptions::general()), ErrorKind::Exists);
    hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    refused(hold.queues().create("it", queue.clone()), ErrorKind::Mismatch);
    refused(hold.channels().open("it"), ErrorKind::Mismatch);
    assert_eq!(hold.maps().list().unwrap()[0].name, "it");
    assert!(hold.maps().drop("it").unwrap() && !hold.maps().drop("it").unwrap());

    refused(hold.queues().open("it"), ErrorKind::NotFound);
    drop(hold.queues().create("it", queue.clone()).unwrap());
    refused(hold.queues().create("it", queue.clone()), ErrorKind::Exists);
    hold.queues().open_or_create("it", queue).unwrap();
    assert_eq!(hold.queues().list().unwrap()[0].kind, StructureKind::Queue);
    assert!(hold.channels().list().unwrap().is_empty() && hold.logs().list().unwrap().is_empty());
    assert!(hold.queues().drop("it").unwrap() && !hold.queues().drop("it").unwrap());

    refused(hold.channels().open("it"), ErrorKind::NotFound);
    drop(hold.channels().create("it", ring).unwrap());
    refused(hold.channels().create("it", ring), ErrorKind::Exists);
    hold.channels().open_or_create("it", ring).unwrap();
    assert_eq!(hold.channels().list().unwrap()[0].kind, StructureKind::Channel);
    assert!(hold.channels().drop("it").unwrap() && !hold.channels().drop("it").unwrap());

    refused(hold.logs().open("it"), ErrorKind::NotFound);
    drop(hold.logs().create("it", rings.clone()).unwrap());
    refused(hold.logs().create("it", rings.clone()), ErrorKind::Exists);
    hold.logs().open_or_create("it", rings).unwrap();
    assert_eq!(hold.logs().list().unwrap()[0].kind, StructureKind::Log);
    assert_eq!(hold.structures().unwrap().len(), 1);
    assert!(hold.logs().drop("it").unwrap() && !hold.logs().drop("it").unwrap());
    assert!(hold.check().unwrap().ok);
}

#[test]
fn one_of_many_creates_it() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for round in 0..50 {
        let name = format!("map {round}");
        let create = || hold.maps().create(&name, MapOptions::general());
        let created = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(create));
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(Result::is_ok).count()
        });
        assert_eq!(created, 1, "{name}");
    }
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_read_only_handle_creates_nothing() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    hold.maps().create("there", MapOptions::general()).unwrap();
    let reader = Hold::options().read_only(true).open(&path).unwrap();
    reader.maps().open_or_create("there", MapOptions::general()).unwrap();
    let kind = |result: Result<()>| result.expect_err("read-only").kind();
    let maps = reader.maps();
    assert_eq!(kind(maps.create("it", MapOptions::general()).map(drop)), ErrorKind::ReadOnly);
    let queue = reader.queues().create("it", QueueOptions::new(4, 8));
    assert_eq!(kind(queue.map(drop)), ErrorKind::ReadOnly);
    let channel = reader.channels().create("it", ChannelOptions::new(4 << 10));
    assert_eq!(kind(channel.map(drop)), ErrorKind::ReadOnly);
    assert_eq!(kind(reader.logs().create("it", LogOptions::new()).map(drop)), ErrorKind::ReadOnly);
}

#[test]
fn a_limit_of_nothing_is_refused() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let limits = [
        CacheOptions::new().max_bytes(0),
        CacheOptions::new().max_entries(0),
        CacheOptions::new().ttl(std::time::Duration::ZERO),
    ];
    for options in limits {
        let error = hold.maps().create("it", options).expect_err("a limit of 0");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("expected a "), "{error}");
    }
    assert!(hold.maps().list().unwrap().is_empty());
}

#[test]
fn an_error_names_its_subject_and_its_source() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let error = Hold::open(&path).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.subject(), Some(path.to_str().unwrap()));
    assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::ENOENT as i32));
    assert!(std::error::Error::source(&error).is_some());
    let hold = Hold::create(&path).unwrap();
    let error = hold.maps().open("prices").expect_err("there is none");
    assert_eq!((error.subject(), error.raw_os_error()), (Some("prices"), None));
}

/// Maps, channels and so on of Commonhold itself are no user's, and a backup needs none of them.
#[test]
fn own_structures_are_listed_only_on_request() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for name in ["it", ".applied/it", ".reports"] {
        hold.maps().create(name, MapOptions::general()).unwrap().set("a", "1").unwrap();
    }
    drop(hold.channels().create(".durable/it", ChannelOptions::new(4 << 10)).unwrap());
    let names = |maps: Vec<MapInfo>| maps.into_iter().map(|map| map.name).collect::<Vec<_>>();
    assert_eq!(names(hold.maps().list().unwrap()), ["it"]);
    assert_eq!(names(hold.maps().list_all().unwrap()), [".applied/it", ".reports", "it"]);
    assert!(hold.channels().list().unwrap().is_empty());
    assert_eq!(hold.structures().unwrap().len(), 1);
    let (saved, restored) = (test_dir.path("saved"), test_dir.path("restored.hold"));
    hold.backup(&saved).unwrap();
    commonhold::hold::restore(&saved, &restored).unwrap();
    let restored = Hold::open(&restored).unwrap();
    assert_eq!(names(restored.maps().list_all().unwrap()), ["it"]);
}

/// They are small, and must not keep the memory of a large value.
#[test]
fn an_own_cache_keeps_no_memory() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let cache = CacheOptions::new().max_bytes(1 << 20);
    drop(hold.maps().create(".reports", cache).unwrap());
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    map.set("large", vec![7; 64 << 20]).unwrap();
    map.delete("large").unwrap();
    // Memory that has been free for a moment goes back.
    let mut freed = 0;
    until("the memory goes back", || {
        freed += hold.trim().unwrap();
        freed > 60 << 20
    });
}
