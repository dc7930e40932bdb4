//! No room: a size limit, a full file system, a limit on the size of files or of the address space.
//!
//! Wherever the limit comes from, the answer is `Full`, never a signal; nothing that was stored is lost
//! or changed; reading, iterating, deleting and checking go on; what is deleted can be filled again. The
//! full file system is a small tmpfs in a mount namespace of a child process.

use crate::support::disk::on_small_tmpfs;
use crate::support::process::{Child, limit_address_space};
use crate::support::script::read;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::map::{Map, Values};
use commonhold::{Error, ErrorKind, Hold};
use nix::sys::resource::{Resource, setrlimit};
use std::collections::BTreeMap;
use std::io::Write;

const SHAPES: [Shape; 5] =
    [Shape::General, Shape::Big, Shape::Fixed(4, 4), Shape::Fixed(8, 8), Shape::Cache];

/// What was stored: key number to version.
type Stored = BTreeMap<u32, u64>;

fn set(map: &Map, shape: Shape, id: u32, version: u64) -> Result<(), Error> {
    map.set(shape.key(id), shape.value(id, shape.fit(version))).map(|_| ())
}

/// Stores new keys until there is no room, and sees that the error is the right one.
#[track_caller]
fn fill(map: &Map, shape: Shape, first: u32, stored: &mut Stored) -> u32 {
    for id in first.. {
        match set(map, shape, id, 1) {
            Ok(()) => stored.insert(id, shape.fit(1)),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Full, "{e:?}");
                assert!(e.is_full());
                return id - first;
            }
        };
        assert!(id - first < 50_000_000, "no limit was met");
    }
    unreachable!("the loop above has no end")
}

/// Everything stored is there, in every way of reading, and nothing else.
#[track_caller]
fn all_there(hold: &Hold, map: &Map, shape: Shape, stored: &Stored) {
    let keys: Vec<_> = stored.keys().map(|id| shape.key(*id)).collect();
    let mut values = Values::default();
    assert_eq!(map.get_many(&keys, &mut values).unwrap(), keys.len());
    for (i, (id, version)) in stored.iter().enumerate() {
        assert_eq!(read(shape, *id, values.get(i).unwrap()), *version);
    }
    for (key, (id, version)) in keys.iter().zip(stored).step_by(5) {
        assert_eq!(read(shape, *id, &map.get(key).unwrap().unwrap()), *version);
    }
    let walked: Stored = map
        .iter()
        .map(Result::unwrap)
        .map(|(key, value)| (shape.id(&key).unwrap(), value))
        .map(|(id, value)| (id, read(shape, id, &value)))
        .collect();
    assert_eq!(walked.len(), stored.len());
    assert!(&walked == stored, "iteration differs");
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable + report.in_flight, "{report:?}");
}

/// Pairs lie in the index itself, where each needs room in its own segment.
fn is_in_the_index(shape: Shape) -> bool {
    matches!(shape, Shape::Fixed(k, v) if k + v <= 32)
}

/// The story of every test here: full, nothing lost, room again. Returns the share of what fitted at first that fits after all
/// was deleted.
fn full_and_back(hold: &Hold, shape: Shape) -> f64 {
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    let mut stored = Stored::new();
    let count = fill(&map, shape, 0, &mut stored);
    assert!(count > 10, "full after {count} pairs");
    all_there(hold, &map, shape, &stored);
    // Full is an answer, not a state: it comes again, and operations on what is there go on.
    for id in 0..20 {
        for result in [set(&map, shape, count + 1000 + id, 1), set(&map, shape, id, 2)] {
            assert!(result.is_ok() || result.is_err_and(|e| e.is_full()));
        }
        let now = map.get(shape.key(id)).unwrap().map(|v| read(shape, id, &v)).unwrap();
        stored.insert(id, now);
        if let Some(v) = map.get(shape.key(count + 1000 + id)).unwrap() {
            stored.insert(count + 1000 + id, read(shape, count + 1000 + id, &v));
        }
    }
    all_there(hold, &map, shape, &stored);
    // What is deleted makes room for as much again.
    let half: Vec<u32> = stored.keys().copied().filter(|id| id % 2 == 0).collect();
    for id in &half {
        assert!(map.delete(shape.key(*id)).unwrap());
        stored.remove(id);
    }
    all_there(hold, &map, shape, &stored);
    let again = fill(&map, shape, 1 << 24, &mut stored) as usize;
    // Pairs in the index need room in their own segment, and the first that has none is met early.
    let share = if is_in_the_index(shape) { 20 } else { 4 };
    assert!(again * share > half.len(), "{again} fit after {} were deleted", half.len());
    all_there(hold, &map, shape, &stored);
    assert_eq!(map.clear().unwrap(), stored.len() as u64);
    stored.clear();
    hold.trim().unwrap();
    let after = fill(&map, shape, 2 << 24, &mut stored);
    let share = f64::from(after) / f64::from(count);
    // In the index, segments stay as they were split, and the first full one of those that were not ends it: of 200 maps the worst
    // came to 0.65, the mean to 0.76 (8 + 8 bytes). So there the mean of several is what says something.
    let least = if is_in_the_index(shape) { 0.5 } else { MOST };
    assert!(share > least, "{after} fit after all were deleted, {count} at first");
    all_there(hold, &map, shape, &stored);
    share
}

/// So much of what fitted at first fits after all was deleted.
const MOST: f64 = 2.0 / 3.0;

#[test]
fn a_size_limit_is_met_and_left() {
    for shape in SHAPES {
        let times = if is_in_the_index(shape) { 5 } else { 1 };
        let shares = (0..times).map(|_| {
            let test_dir = TestDir::memory();
            let hold = Hold::options().max_bytes(8 << 20).create(test_dir.path("it.hold")).unwrap();
            let share = full_and_back(&hold, shape);
            assert!(hold.stat().unwrap().file_bytes <= 8 << 20);
            share
        });
        let mean = shares.sum::<f64>() / f64::from(times);
        assert!(mean > MOST, "{shape:?}: {mean} on average");
    }
}

#[test]
fn deleted_pairs_make_room_for_pairs_of_other_sizes() {
    let test_dir = TestDir::memory();
    let hold = Hold::options().max_bytes(8 << 20).create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", Shape::General.options()).unwrap();
    let key = |n: u32| format!("key {n}");
    let full = |size: usize| (0..).find(|n| map.set(key(*n), vec![7; size]).is_err());
    let count = full(40).unwrap();
    // Seven of ten, spread over all extents: none is a quarter empty or less, and none is empty.
    let deleted = (0..count).filter(|n| n % 10 < 7 && map.delete(key(*n)).unwrap()).count();
    let sizes = [8, 90, 700, 5000, 20_000, 40_000];
    for (n, size) in sizes.into_iter().enumerate() {
        map.set(format!("other {n}"), vec![n as u8; size]).unwrap();
    }
    for (n, size) in sizes.into_iter().enumerate() {
        assert_eq!(map.get(format!("other {n}")).unwrap(), Some(vec![n as u8; size]));
    }
    // Half of what was freed can be had in another size.
    let wanted = deleted * 40 / 2 / 300;
    let more = (0..wanted).take_while(|n| map.set(format!("more {n}"), vec![1; 300]).is_ok());
    assert_eq!(more.count(), wanted, "{deleted} of {count} deleted");
    for n in (0..count).filter(|n| n % 10 >= 7) {
        assert_eq!(map.get(key(n)).unwrap(), Some(vec![7; 40]), "key {n}");
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn a_size_limit_is_met_in_a_file() {
    let test_dir = TestDir::file();
    let hold = Hold::options().max_bytes(8 << 20).create(test_dir.path("it.hold")).unwrap();
    full_and_back(&hold, Shape::General);
}

#[test]
fn a_limit_too_small_for_anything_is_refused_clearly() {
    let test_dir = TestDir::memory();
    for bytes in [0, 1, 4096, 65_536, 131_072, 262_144, 1 << 20] {
        let path = test_dir.path(&format!("{bytes}.hold"));
        let made = Hold::options().max_bytes(bytes).create(&path);
        let made = made.and_then(|hold| {
            Ok((hold.maps().open_or_create("it", Shape::General.options())?, hold))
        });
        match made {
            Ok((map, hold)) => {
                let mut stored = Stored::new();
                fill(&map, Shape::General, 0, &mut stored);
                all_there(&hold, &map, Shape::General, &stored);
            }
            Err(e) => assert!(matches!(e.kind(), ErrorKind::Full | ErrorKind::Invalid), "{e:?}"),
        }
    }
}

#[test]
fn a_full_tmpfs_is_met_and_left() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        on_small_tmpfs(8, &test_dir, |dir| {
            let hold = Hold::create(dir.join("it.hold")).unwrap();
            full_and_back(&hold, shape);
        });
    }
}

#[test]
fn room_taken_by_others_is_no_signal() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        on_small_tmpfs(16, &test_dir, |dir| {
            let hold = Hold::create(dir.join("it.hold")).unwrap();
            let map = hold.maps().open_or_create("it", shape.options()).unwrap();
            let mut stored = Stored::new();
            for id in 0..60 {
                set(&map, shape, id, 1).unwrap();
                stored.insert(id, shape.fit(1));
            }
            // Holes, given back to the system, and then somebody else takes all the room there is.
            for id in 0..30 {
                assert!(map.delete(shape.key(id)).unwrap());
                stored.remove(&id);
            }
            hold.trim().unwrap();
            let mut other = std::fs::File::create(dir.join("other")).unwrap();
            while other.write_all(&[1; 4096]).is_ok() {}
            all_there(&hold, &map, shape, &stored);
            fill(&map, shape, 1000, &mut stored);
            all_there(&hold, &map, shape, &stored);
            let second = Hold::open(dir.join("it.hold")).unwrap();
            all_there(&second, &second.maps().open("it").unwrap(), shape, &stored);
            let error = Hold::create(dir.join("new.hold")).expect_err("an error");
            assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
            assert!(!dir.join("new.hold").exists(), "a hold that could not be made was left");
            other.set_len(0).unwrap();
            let more = fill(&map, shape, 1 << 20, &mut stored);
            assert!(more > 10, "only {more} fit after room was made");
            all_there(&hold, &map, shape, &stored);
        });
    }
}

#[test]
fn processes_meet_a_full_tmpfs_together() {
    let shape = Shape::General;
    let test_dir = TestDir::memory();
    on_small_tmpfs(16, &test_dir, |dir| {
        let hold = Hold::create(dir.join("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", shape.options()).unwrap();
        let writer = |number: u32| {
            let hold = Hold::open(dir.join("it.hold")).unwrap();
            let map = hold.maps().open("it").unwrap();
            let mut stored = Stored::new();
            for round in 0..5 {
                fill(&map, shape, number << 24 | round << 20, &mut stored);
                for (id, version) in &stored {
                    let value = map.get(shape.key(*id)).unwrap();
                    assert_eq!(value.map(|v| read(shape, *id, &v)), Some(*version));
                }
                stored.retain(|id, _| id % 3 == 0 || !map.delete(shape.key(*id)).unwrap());
            }
        };
        let writers: Vec<_> = (1..4).map(|n| Child::run("writer", move || writer(n))).collect();
        writers.into_iter().for_each(Child::finish);
        let len = map.iter().map(Result::unwrap).count() as u64;
        assert_eq!(len, map.len().unwrap());
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    });
}

#[test]
fn a_limit_on_file_size_is_no_signal() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        Child::run("with RLIMIT_FSIZE", || {
            setrlimit(Resource::RLIMIT_FSIZE, 8 << 20, 8 << 20).unwrap();
            let hold = Hold::create(test_dir.path("it.hold")).unwrap();
            full_and_back(&hold, shape);
        })
        .finish();
        // Without the limit the same hold goes on growing.
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open("it").unwrap();
        for id in 0..100 {
            set(&map, shape, 3 << 24 | id, 1).unwrap();
        }
        assert!(hold.check().unwrap().ok);
    }
}

#[test]
fn a_limit_on_address_space_makes_the_hold_smaller() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("with RLIMIT_AS", || {
        limit_address_space(192 << 20);
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", Shape::General.options()).unwrap();
        let mut stored = Stored::new();
        for id in 0..20_000 {
            set(&map, Shape::General, id, 1).unwrap();
            stored.insert(id, 1);
        }
        all_there(&hold, &map, Shape::General, &stored);
    })
    .finish();
    let hold = Hold::open(&path).unwrap();
    let map = hold.maps().open("it").unwrap();
    assert_eq!(map.len().unwrap(), 20_000);
    // Grown by a process without the limit beyond what the limited one can see: an error or all of it.
    for id in 20_000..21_000 {
        map.set(shape_key(id), vec![1; 1 << 18]).unwrap();
    }
    Child::run("with RLIMIT_AS again", || {
        limit_address_space(192 << 20);
        let opened = Hold::open(&path).and_then(|h| h.maps().open("it"));
        match opened {
            Ok(map) => {
                for id in 0..21_000 {
                    let got = map.get(shape_key(id));
                    assert!(!matches!(got, Ok(None)), "key {id} was reported absent");
                }
            }
            Err(e) => assert!(e.to_string().contains("address space"), "{e:?}"),
        }
    })
    .finish();
    assert!(hold.check().unwrap().ok);
}

fn shape_key(id: u32) -> Vec<u8> {
    Shape::General.key(id)
}

/// Whatever the system calls it: no room is `Full`, and what is no lack of room is not.
#[test]
fn a_quota_is_no_room_and_a_broken_disk_is_not() {
    use commonhold::steps::arm_fault;
    let faults = [
        ("os.fallocate:ENOSPC", ErrorKind::Full),
        ("os.fallocate:EDQUOT", ErrorKind::Full),
        ("os.fallocate:EFBIG", ErrorKind::Full),
        ("os.fallocate:EIO", ErrorKind::Io),
        ("os.ftruncate:ENOSPC", ErrorKind::Full),
        ("os.ftruncate:EDQUOT", ErrorKind::Full),
        ("os.ftruncate:EFBIG", ErrorKind::Full),
        ("os.ftruncate:EIO", ErrorKind::Io),
        ("os.populate:ENOMEM", ErrorKind::Full),
        ("os.populate:EFAULT", ErrorKind::Full),
        ("os.populate:EIO", ErrorKind::Io),
    ];
    for (fault, kind) in faults {
        let test_dir = TestDir::file();
        Child::run(fault, || {
            let arm = |spec: &str| arm_fault(spec).unwrap();
            let always = format!("{fault}:always");
            let path = test_dir.path("it.hold");
            arm(&always);
            assert_eq!(Hold::create(&path).unwrap_err().kind(), kind, "creating");
            assert!(!path.exists());
            arm("");
            let hold = Hold::create(&path).unwrap();
            let map = hold.maps().open_or_create("it", Shape::General.options()).unwrap();
            arm(&always);
            let error = map.set("large", vec![1; 8 << 20]).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            let made = hold
                .queues()
                .open_or_create("large", commonhold::queue::QueueOptions::new(1000, 10_000));
            assert_eq!(made.unwrap_err().kind(), kind);
            arm("");
            map.set("large", vec![1; 8 << 20]).unwrap();
            drop(
                hold.queues()
                    .open_or_create("large", commonhold::queue::QueueOptions::new(1000, 10_000))
                    .unwrap(),
            );
            let report = hold.check().unwrap();
            assert!(report.ok && report.in_flight == 0, "{report:?}");
        })
        .finish();
    }
}
