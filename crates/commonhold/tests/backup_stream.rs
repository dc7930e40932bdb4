//! Backups through streams, and the contents that are found in them: whole, cut off anywhere, and
//! with any byte changed.

use crate::support::process::Child;
use crate::support::test_dir::TestDir;
use commonhold::hold::{RestoreOptions, backup_contents, backup_contents_from, restore_from};
use commonhold::map::{CacheOptions, MapOptions};
use commonhold::raw::lineage_name;
use commonhold::{ErrorKind, Hold, steps};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A hold with two maps and a cache, and its backup as a stream.
fn filled(test_dir: &TestDir, pairs: u32) -> (Hold, Vec<u8>) {
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for name in ["prices", "names"] {
        let map = hold.maps().open_or_create(name, MapOptions::general()).unwrap();
        for id in 0..pairs {
            map.set(id.to_le_bytes(), format!("{name} {id}")).unwrap();
        }
    }
    let cache = hold.maps().open_or_create("cache", CacheOptions::default()).unwrap();
    cache.set_with_ttl("apple", "3", Duration::from_secs(3600)).unwrap();
    let mut stream = Vec::new();
    let report = hold.backup_to(&mut stream).unwrap();
    assert_eq!((report.maps, report.pairs), (3, u64::from(2 * pairs + 1)));
    assert_eq!(report.bytes, stream.len() as u64);
    (hold, stream)
}

#[test]
fn a_stream_restores_what_a_file_restores() {
    let test_dir = TestDir::memory();
    let (hold, stream) = filled(&test_dir, 3_000);
    let path = test_dir.path("copy.hold");
    let report = restore_from(&stream[..], &path).unwrap();
    assert_eq!((report.maps, report.pairs), (3, 6_001));
    let copy = Hold::open(&path).unwrap();
    assert!(copy.check().unwrap().ok);
    for name in ["prices", "names", "cache"] {
        let [old, new] = [&hold, &copy].map(|hold| {
            let mut pairs: Vec<_> =
                hold.maps().open(name).unwrap().iter().map(Result::unwrap).collect();
            pairs.sort();
            pairs
        });
        assert_eq!(old, new, "{name}");
    }
    let error = restore_from(&stream[..], &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
}

/// The counts are those of the backup, also if later images replace earlier ones.
#[test]
fn contents_are_those_of_the_backup() {
    let test_dir = TestDir::memory();
    let (hold, stream) = filled(&test_dir, 3_000);
    let contents = backup_contents_from(&stream[..]).unwrap();
    let maps: Vec<_> = contents.maps.iter().map(|map| (map.name.as_str(), map.pairs)).collect();
    assert_eq!(maps, [("cache", 1), ("names", 3_000), ("prices", 3_000)]);
    assert_eq!(contents.bytes, stream.len() as u64);
    assert!(contents.damage.is_empty() && contents.made_ms.is_some_and(|ms| ms > 0));
    // The map grows while the backup is written: segments split, and are written again.
    let map = hold.maps().open("prices").unwrap();
    let mut growing = Growing { map: &map, bytes: Vec::new(), next: 3_000 };
    let report = hold.backup_to(&mut growing).unwrap();
    assert!(growing.next > 20_000, "nothing was written meanwhile");
    let contents = backup_contents_from(&growing.bytes[..]).unwrap();
    assert_eq!((contents.pairs, contents.damage.len()), (report.pairs, 0));
    let restored = restore_from(&growing.bytes[..], test_dir.path("copy.hold")).unwrap();
    assert_eq!(restored.pairs, report.pairs);
    std::fs::write(test_dir.path("backup"), &growing.bytes).unwrap();
    assert_eq!(backup_contents(test_dir.path("backup")).unwrap().pairs, report.pairs);
}

/// Sets pairs while it is written to.
struct Growing<'a> {
    map: &'a commonhold::map::Map,
    bytes: Vec<u8>,
    next: u32,
}

impl Write for Growing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Not when the last bytes are written: then writers have long continued.
        for id in self.next..self.next + 500 {
            if id < 100_000 {
                self.map.set(id.to_le_bytes(), "later").unwrap();
            }
        }
        self.next += 500;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_that_is_cut_off_leaves_no_hold() {
    let test_dir = TestDir::memory();
    let (_hold, stream) = filled(&test_dir, 2);
    let path = test_dir.path("copy.hold");
    for len in 0..stream.len() {
        let error = restore_from(&stream[..len], &path).unwrap_err();
        let expected = if len < 16 { ErrorKind::NotAHold } else { ErrorKind::Truncated };
        assert_eq!(error.kind(), expected, "{len}: {error}");
        assert!(!path.exists(), "{len}");
        match backup_contents_from(&stream[..len]) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotAHold, "{len}: {error}"),
            Ok(contents) => {
                let [damage] = &contents.damage[..] else { panic!("{len}: {contents:?}") };
                assert!(damage.contains("truncated"), "{len}: {damage}");
            }
        }
    }
}

#[test]
fn any_changed_byte_is_found() {
    let test_dir = TestDir::memory();
    let (_hold, stream) = filled(&test_dir, 2);
    let path = test_dir.path("copy.hold");
    for at in 0..stream.len() {
        for flip in [1, 0x80] {
            let mut bytes = stream.clone();
            bytes[at] ^= flip;
            restore_from(&bytes[..], &path).expect_err("a damaged backup");
            assert!(!path.exists(), "{at}");
            if let Ok(contents) = backup_contents_from(&bytes[..]) {
                assert!(!contents.damage.is_empty(), "{at}");
            } else {
                assert!(at < 16, "{at}: damage is part of the result");
            }
        }
    }
    let mut long = stream.clone();
    long.extend(b"more");
    let damage = backup_contents_from(&long[..]).unwrap().damage;
    assert_eq!(damage, ["4 bytes follow the end of the backup"]);
}

/// One damaged segment: the others, and the other maps, are still counted.
#[test]
fn damage_names_the_bytes_and_the_map() {
    let test_dir = TestDir::memory();
    let (_hold, mut stream) = filled(&test_dir, 2);
    let value = b"names 1";
    let at = stream.windows(value.len()).position(|part| part == value).expect("the value");
    stream[at] ^= 0xff;
    let contents = backup_contents_from(&stream[..]).unwrap();
    let [damage] = &contents.damage[..] else { panic!("{contents:?}") };
    assert!(damage.contains("checksum") && damage.contains("map 'names'"), "{damage}");
    let pairs = |name: &str| contents.maps.iter().find(|map| map.name == name).unwrap().pairs;
    assert_eq!([pairs("cache"), pairs("prices")], [1, 2]);
    assert!(pairs("names") < 2);
}

/// Something that is not a backup, and never ends.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

#[test]
fn a_stream_that_is_not_a_backup_is_not_read_to_its_end() {
    let test_dir = TestDir::memory();
    let error = restore_from(Endless, test_dir.path("copy.hold")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAHold);
    assert_eq!(backup_contents_from(Endless).unwrap_err().kind(), ErrorKind::NotAHold);
}

#[test]
fn errors_of_the_stream_are_those_of_the_backup() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(28))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let test_dir = TestDir::memory();
    let (hold, stream) = filled(&test_dir, 2);
    let error = hold.backup_to(Full).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28), "{error}");
    let broken = stream[..100].chain(Broken);
    let error = restore_from(broken, test_dir.path("copy.hold")).unwrap_err();
    assert!(error.to_string().starts_with("the input: "), "{error}");
    assert!(!test_dir.path("copy.hold").exists());
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(5))
    }
}

/// The reader of a stream is so slow that all segments change between two of its reads. Only the
/// first pass waits for it: the later ones are short, so that writers do not wait.
#[test]
fn a_slow_reader_is_waited_for_in_one_pass() {
    struct Slow<'a> {
        map: &'a commonhold::map::Map,
        received: &'static AtomicU64,
        round: u32,
    }
    impl Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.round += 1;
            for id in (0..20_000u32).step_by(40) {
                self.map.set(id.to_le_bytes(), [self.round.to_le_bytes(); 25].concat()).unwrap();
            }
            self.received.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static RECEIVED: AtomicU64 = AtomicU64::new(0);
    static BEFORE_FREEZE: AtomicU64 = AtomicU64::new(0);
    let test_dir = TestDir::memory();
    Child::run("a backup to a slow reader", || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("pairs", MapOptions::general()).unwrap();
        (0..20_000u32).for_each(|id| _ = map.set(id.to_le_bytes(), [0; 100]).unwrap());
        let whole = hold.backup_to(io::sink()).unwrap().bytes;
        steps::observe(|step| {
            if step == "freeze.closed" {
                BEFORE_FREEZE.store(RECEIVED.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        });
        let slow = Slow { map: &map, received: &RECEIVED, round: 0 };
        let report = hold.backup_to(slow).unwrap();
        assert_eq!((report.pairs, report.bytes), (20_000, RECEIVED.load(Ordering::SeqCst)));
        let before = BEFORE_FREEZE.load(Ordering::SeqCst);
        assert!(before > 0 && before <= whole, "{before} bytes of {whole} before the freeze");
    })
    .finish();
}

/// The length of a frame is damaged, and the stream does not end: nothing of it is kept in memory.
#[test]
fn a_damaged_length_is_not_read() {
    let test_dir = TestDir::memory();
    let (_hold, mut stream) = filled(&test_dir, 2);
    // The first frame is that of the hold: its kind, then the length.
    stream[16 + 1 + 5] = 1;
    Child::run("reads", || {
        let endless = stream.chain(io::repeat(7).take(1 << 30));
        let before = peak_bytes();
        let contents = backup_contents_from(endless).unwrap();
        assert!(contents.damage[0].contains("damaged from byte 16 on"), "{contents:?}");
        let more = peak_bytes() - before;
        assert!(more < 100 << 20, "{more} bytes");
    })
    .finish();
}

/// The same with a damaged length of a segment, which may be long, and of a pair.
#[test]
fn a_damaged_length_of_a_segment_is_not_read() {
    let test_dir = TestDir::memory();
    let (_hold, stream) = filled(&test_dir, 2);
    let text =
        |stream: &[u8], at: usize| u64::from_le_bytes(stream[at..at + 8].try_into().unwrap());
    // The frames of the hold and of the first map, then a segment's.
    let mut at = 16;
    while stream[at] != b'S' {
        at += 1 + 8 + text(&stream, at + 1) as usize + 8;
    }
    for damaged in [at + 1 + 4, at + 9 + 32 + 16 + 3] {
        let mut stream = stream.clone();
        stream[damaged] = 1;
        Child::run("reads", || {
            let endless = stream.chain(io::repeat(7).take(5 << 30));
            let before = peak_bytes();
            let contents = backup_contents_from(endless).unwrap();
            assert!(!contents.damage.is_empty(), "{contents:?}");
            let more = peak_bytes() - before;
            assert!(more < 100 << 20, "{more} bytes");
        })
        .finish();
    }
}

/// The most memory of its own that the process has had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// Beyond the limit of a process's files, writing would raise a signal.
#[test]
fn a_stream_longer_than_files_may_be_is_an_error() {
    let test_dir = TestDir::memory();
    let (_hold, stream) = filled(&test_dir, 3_000);
    Child::run("restores with a limit", || {
        let limit = nix::sys::resource::Resource::RLIMIT_FSIZE;
        nix::sys::resource::setrlimit(limit, 1 << 16, 1 << 16).unwrap();
        let error = restore_from(&stream[..], test_dir.path("copy.hold")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(error.to_string().contains("ulimit -f"), "{error}");
    })
    .finish();
}

/// The record of where a map comes from is restored with its map, and with no other one.
#[test]
fn only_the_given_maps_are_restored() {
    let test_dir = TestDir::memory();
    let (hold, _) = filled(&test_dir, 3_000);
    for name in ["prices", "names"] {
        let lineage = hold.maps().open_or_create(&lineage_name(name), MapOptions::general());
        lineage.unwrap().set("lineage", name).unwrap();
    }
    let mut stream = Vec::new();
    hold.backup_to(&mut stream).unwrap();
    let path = test_dir.path("copy.hold");
    let options = RestoreOptions::new().map("cache").map("prices").map("cache");
    let report = options.restore_from(&stream[..], &path).unwrap();
    assert_eq!((report.maps, report.pairs), (2, 3_001));
    let copy = Hold::open(&path).unwrap();
    assert!(copy.check().unwrap().ok);
    let mut names: Vec<_> =
        copy.maps().list_all().unwrap().iter().map(|map| map.name.clone()).collect();
    names.sort();
    assert_eq!(names, [".lineage/prices", "cache", "prices"]);
    let map = copy.maps().open("prices").unwrap();
    assert!(map.iter().all(|pair| pair.unwrap().1.starts_with(b"prices ")));
    // A backup does not show Commonhold's own maps, so they cannot be named either.
    for missing in ["price", ".lineage/prices", ""] {
        let path = test_dir.path("none.hold");
        let options = RestoreOptions::new().map("prices").map(missing);
        let error = options.restore_from(&stream[..], &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        let expected =
            format!("contain map '{missing}'; it contains the maps 'cache', 'names' and");
        assert!(text.contains(&expected), "{text}");
        assert!(!path.exists(), "{missing}");
    }
}
