//! Files that are no hold, or not any more.
//!
//! Nothing in the file is trusted. Whatever lies at the path - a directory, a FIFO, text, a hold cut off
//! at any length, a hold with any bits flipped or any words overwritten - each operation ends with a
//! clear error or an answer; never with a signal, a panic or a hang. Mutants are tried in child
//! processes under a watchdog, many per child; the board names the one that killed it. The seed and the
//! number of a mutant reproduce it. The same is done to backups: what is restored is right or refused.

use crate::support::process::{Board, Child, End, limit_address_space};
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::map::{MapOptions, Values};
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{Error, ErrorKind, Hold};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MAPS: [(&str, Shape); 4] = [
    ("general", Shape::General),
    ("words", Shape::Fixed(4, 4)),
    ("pairs", Shape::Fixed(8, 8)),
    ("cache", Shape::Cache),
];
const PAIRS: u32 = 700;

/// A hold with something of everything in it, closed cleanly.
fn sample(path: &Path) -> Vec<u8> {
    let hold = Hold::options().max_bytes(64 << 20).create(path).unwrap();
    for (name, shape) in MAPS {
        let map = hold.maps().open_or_create(name, shape.options()).unwrap();
        for id in 0..PAIRS {
            map.set(shape.key(id), shape.value(id, shape.fit(1))).unwrap();
        }
        for id in (0..PAIRS).step_by(5) {
            map.delete(shape.key(id)).unwrap();
        }
    }
    let queue = hold
        .queues()
        .open_or_create("queue", QueueOptions::new(300, 40).queues(["free", "full"]))
        .unwrap();
    queue
        .named("full")
        .unwrap()
        .push_many(&mut queue.named("free").unwrap().pull_many(100).unwrap())
        .unwrap();
    drop(queue);
    let general = hold.maps().open("general").unwrap();
    general.set(Shape::General.key(1 << 20), vec![5; 200_000]).unwrap();
    hold.close().unwrap();
    std::fs::read(path).unwrap()
}

/// True if every pair of the sample is there and right.
fn is_right(hold: &Hold) -> Result<bool, Error> {
    for (name, shape) in MAPS {
        let map = hold.maps().open(name)?;
        for id in 0..PAIRS {
            let wanted = (id % 5 != 0).then(|| shape.value(id, shape.fit(1)));
            if map.get(shape.key(id))? != wanted {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[track_caller]
fn clear(error: &Error, path: &Path) {
    let text = error.to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    assert!(text.contains(&*name), "the error does not name the file: {text}");
    assert!(text.len() > name.len() + 12, "the error says too little: {text}");
}

#[track_caller]
fn refused(path: &Path, kinds: &[ErrorKind]) {
    for read_only in [false, true] {
        let error = Hold::options().read_only(read_only).open(path).expect_err("an error");
        assert!(kinds.contains(&error.kind()), "{error:?}, not {kinds:?}");
        clear(&error, path);
    }
}

#[test]
fn files_that_are_no_holds_are_reported_as_such() {
    let test_dir = TestDir::memory();
    let not = [ErrorKind::NotAHold, ErrorKind::Invalid];
    for (name, contents) in [
        ("empty.hold", vec![]),
        ("text.hold", b"just text\n".repeat(5000)),
        ("zero.hold", vec![0; 1 << 20]),
    ] {
        std::fs::write(test_dir.path(name), contents).unwrap();
        refused(&test_dir.path(name), &[ErrorKind::NotAHold, ErrorKind::Truncated]);
        assert!(Hold::open_or_create(test_dir.path(name)).is_err(), "{name} was replaced");
    }
    std::fs::create_dir(test_dir.path("directory.hold")).unwrap();
    refused(&test_dir.path("directory.hold"), &not);
    nix::unistd::mkfifo(&test_dir.path("fifo.hold"), Mode::from_bits_truncate(0o600)).unwrap();
    Child::run("opens a FIFO", || refused(&test_dir.path("fifo.hold"), &not)).finish();
    refused(Path::new("/dev/null"), &not);
    std::os::unix::fs::symlink(test_dir.path("nowhere"), test_dir.path("dangling.hold")).unwrap();
    refused(&test_dir.path("dangling.hold"), &[ErrorKind::NotFound]);
    let error = Hold::open_or_create(test_dir.path("dangling.hold")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains("dangling symbolic link"), "{error}");
}

#[test]
fn without_permission_nothing_opens() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    drop(
        Hold::create(&path)
            .unwrap()
            .maps()
            .open_or_create("it", MapOptions::general())
            .unwrap()
            .set("a", "b"),
    );
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(test_dir.dir(), 0o755);
    let root = nix::unistd::getuid().is_root();
    if !root {
        mode(&path, 0o000);
    }
    let as_nobody = |body: &dyn Fn()| {
        Child::run("somebody else", || {
            if root {
                nix::unistd::setgid(65534.into()).unwrap();
                nix::unistd::setuid(65534.into()).unwrap();
            }
            body();
        })
        .finish();
    };
    as_nobody(&|| refused(&path, &[ErrorKind::Permission]));
    // Readable, not writable: reading works, writing is refused.
    mode(&path, 0o444);
    as_nobody(&|| {
        let error = Hold::open(&path).expect_err("an error");
        assert!(matches!(error.kind(), ErrorKind::Permission | ErrorKind::ReadOnly), "{error:?}");
        clear(&error, &path);
        let hold = Hold::options().read_only(true).open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        assert_eq!(map.get("a").unwrap(), Some(b"b".to_vec()));
        assert_eq!(map.set("a", "c").unwrap_err().kind(), ErrorKind::ReadOnly);
    });
    as_nobody(&|| {
        let error = Hold::create(test_dir.path("new.hold")).err();
        let kind = error.map(|e| e.kind());
        assert!(!root || kind == Some(ErrorKind::Permission), "{kind:?}");
    });
}

#[test]
fn a_copy_is_right_or_refused() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    sample(&path);
    std::fs::copy(&path, test_dir.path("closed.hold")).unwrap();
    let copy = Hold::open(test_dir.path("closed.hold")).unwrap();
    assert!(is_right(&copy).unwrap(), "a copy of a closed hold is as good as the hold");
    let hold = Hold::open(&path).unwrap();
    std::fs::copy(&path, test_dir.path("open.hold")).unwrap();
    match Hold::open(test_dir.path("open.hold")) {
        Ok(copy) => assert!(is_right(&copy).unwrap()),
        Err(e) => clear(&e, &test_dir.path("open.hold")),
    }
    assert!(is_right(&hold).unwrap());
}

/// Nobody is kept from the rest of the hold by a map that is not even wanted any more.
#[test]
fn a_damaged_map_can_be_dropped() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let mut bytes = sample(&path);
    let (key, value) = (Shape::General.key(1), Shape::General.value(1, Shape::General.fit(1)));
    let pair = [key.clone(), value].concat();
    let at = bytes.windows(pair.len()).position(|window| window == pair).unwrap();
    // The mark of its record: no sequence.
    bytes[at - 16..at - 8].fill(0);
    store(&path, &bytes);
    let hold = Hold::open(&path).unwrap();
    assert_eq!(
        hold.maps().open("general").unwrap().get(&key).unwrap_err().kind(),
        ErrorKind::Damaged
    );
    assert!(hold.maps().drop("general").unwrap());
    hold.close().unwrap();
    let hold = Hold::open(&path).unwrap();
    for (name, shape) in MAPS.into_iter().filter(|(name, _)| *name != "general") {
        let map = hold.maps().open(name).unwrap();
        map.set(shape.key(PAIRS), shape.value(PAIRS, shape.fit(1))).unwrap();
    }
    assert!(
        hold.maps().open_or_create("general", MapOptions::general()).unwrap().is_empty().unwrap()
    );
}

/// Uses everything there is to use; only errors are allowed to come out.
fn use_everything(path: &Path, test_dir: &TestDir) {
    for read_only in [true, false] {
        match Hold::options().read_only(read_only).open(path) {
            Ok(hold) => use_hold(&hold, test_dir),
            Err(e) => clear(&e, path),
        }
    }
}

fn use_hold(hold: &Hold, test_dir: &TestDir) {
    let _ = (hold.stat(), hold.participants(), hold.maps().list());
    for (name, shape) in MAPS {
        let Ok(map) = hold.maps().open(name) else { continue };
        let keys: Vec<_> = (0..PAIRS).map(|id| shape.key(id)).collect();
        let _ = map.get_many(&keys, &mut Values::default());
        for (id, key) in keys.iter().enumerate() {
            let _ = map.get(key);
            if id % 10 == 0 {
                let _ = map.uid(key).map(|uid| uid.map(|uid| map.get_uid(uid)));
                let _ = map.set(key, shape.value(id as u32, shape.fit(2)));
                let _ = map.delete(&keys[(id + 3) % keys.len()]);
            }
        }
        for id in PAIRS..PAIRS + 200 {
            let _ = map.set(shape.key(id), shape.value(id, shape.fit(1)));
        }
        let _ = map.iter().take(100_000).filter(Result::is_ok).count();
        let _ = (map.random_pair(), map.len(), map.stat());
    }
    if let Ok(queue) = hold.queues().open("queue") {
        use_queue(&queue);
    }
    let _ = hold.structures();
    let _ = hold.check();
    let _ = hold.sweep();
    let _ = hold.trim();
    let backup = test_dir.path("backup");
    let _ = hold.backup(&backup);
    let _ = std::fs::remove_file(&backup);
    let _ = hold.maps().drop("general");
    let _ = hold.queues().drop("queue");
    let _ = hold
        .queues()
        .open_or_create("queue", QueueOptions::new(3, 8))
        .map(|queue| use_queue(&queue));
    let _ = hold.maps().open_or_create("new", MapOptions::general()).map(|m| m.set("a", "b"));
    let _ = hold.maps().open("cache").map(|m| m.clear());
}

fn use_queue(queue: &Queue) {
    let _ = queue.stat();
    for from in queue.all() {
        for to in queue.all() {
            for _ in 0..10 {
                let Ok(Some(element)) = from.pull() else { break };
                let _ = (element.write(0, &[1; 8]), element.to_vec());
                let _ = to.push_pull(element, from);
            }
            let Ok(mut batch) = from.pull_many(50) else { continue };
            for element in batch.iter() {
                let _ = element.to_vec();
            }
            let _ = to.push_many(&mut batch);
        }
        let _ = from.pull_timeout(Duration::from_millis(1));
    }
}

/// Makes mutants of `original` and gives each to `judge`, in children that may not die.
fn mutants(
    name: &str,
    count: usize,
    original: &[u8],
    mutate: &(dyn Fn(usize, &mut Vec<u8>) + Sync),
    judge: &(dyn Fn(&[u8]) + Sync),
) {
    const BATCH: usize = 20;
    let board = Board::new(1);
    let only = std::env::var("COMMONHOLD_MUTANT").ok().map(|n| n.parse().expect("a number"));
    for first in (0..count).step_by(BATCH) {
        let (first, last) = match only {
            Some(_) if first > 0 => break,
            Some(number) => (number, number + 1),
            None => (first, (first + BATCH).min(count)),
        };
        let mut child = Child::run(name, || {
            limit();
            for number in first..last {
                board.put(0, number as u64);
                let mut bytes = original.to_vec();
                mutate(number, &mut bytes);
                judge(&bytes);
            }
        });
        let end = child.wait();
        let number = board[0].load(Ordering::SeqCst);
        assert_eq!(
            end,
            End::Well,
            "{name}: mutant {number}; COMMONHOLD_MUTANT={number} repeats it"
        );
    }
}

/// A damaged number must not be able to eat the machine.
fn limit() {
    setrlimit(Resource::RLIMIT_FSIZE, 256 << 20, 256 << 20).unwrap();
    limit_address_space(8 << 30);
}

/// Overwrites the same file: a hold knows its inode.
fn store(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

fn many(count: usize) -> usize {
    if long() { count * 30 } else { count }
}

/// Where it hurts: half of the damage goes to the first pages and where the file is not zero.
fn place(dice: &mut Dice, bytes: &[u8]) -> usize {
    loop {
        let at = match dice.below(4) {
            0 => dice.below(4096),
            1 => dice.below(131_072),
            _ => dice.below(bytes.len() as u64),
        } as usize;
        if at < bytes.len() && (bytes[at] != 0 || dice.one_in(20)) {
            return at;
        }
    }
}

fn flip(number: usize, bytes: &mut [u8]) {
    let mut dice = Dice::new(number as u64);
    for _ in 0..=dice.below(3) * dice.below(2) {
        let at = place(&mut dice, bytes);
        bytes[at] ^= 1 << dice.below(8);
    }
}

/// Overwrites aligned words by numbers that mean something: extremes, neighbours, others' contents.
fn overwrite(number: usize, bytes: &mut [u8]) {
    let mut dice = Dice::new(number as u64 ^ 0xabcd);
    for _ in 0..=dice.below(4) {
        let at = place(&mut dice, bytes) & !7;
        let other = place(&mut dice, bytes) & !7;
        let Some(old) = bytes.get(other..other + 8).map(<[u8]>::to_vec) else { continue };
        let old = u64::from_le_bytes(old.try_into().unwrap());
        let word = match dice.below(9) {
            0 => 0,
            1 => u64::MAX,
            2 => dice.roll(),
            3 => old.wrapping_add(8),
            4 => bytes.len() as u64 - 8,
            5 => 1 << 62,
            6 => old << 1,
            7 => other as u64,
            _ => old,
        };
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

fn damage(name: &str, test_dir: &TestDir, count: usize, mutate: fn(usize, &mut [u8])) {
    let path = test_dir.path("it.hold");
    let original = sample(&path);
    mutants(name, many(count), &original, &|n, bytes| mutate(n, bytes), &|bytes| {
        store(&path, bytes);
        use_everything(&path, test_dir);
    });
    store(&path, &original);
    assert!(is_right(&Hold::open(&path).unwrap()).unwrap(), "the sample itself is sound");
}

#[test]
fn flipped_bits_in_memory_holds() {
    damage("flipped bits", &TestDir::memory(), 1000, flip);
}

#[test]
fn flipped_bits_in_file_holds() {
    damage("flipped bits in a file", &TestDir::file(), 300, flip);
}

#[test]
fn overwritten_words_in_memory_holds() {
    damage("overwritten words", &TestDir::memory(), 1000, overwrite);
}

#[test]
fn salvage_of_damaged_holds() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let original = sample(&path);
    mutants("salvage", many(300), &original, &|n, bytes| overwrite(n, bytes), &|bytes| {
        store(&path, bytes);
        match commonhold::hold::salvage(&path) {
            Ok(report) => {
                let _ = std::fs::remove_file(&report.kept_old_as);
                use_everything(&path, &test_dir);
            }
            Err(e) => clear(&e, &path),
        }
    });
}

/// Every border in the first pages, every page, and samples.
fn cuts(len: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..8192).step_by(16).collect();
    all.extend((0..len).step_by(4096).flat_map(|n| [n.saturating_sub(1), n, n + 1]));
    let mut dice = Dice::new(5);
    all.extend((0..300).map(|_| dice.below(len as u64) as usize));
    all.extend([len - 1, len - 8, len - 4096]);
    all.retain(|n| *n < len);
    all.sort_unstable();
    all.dedup();
    let most = if long() { usize::MAX } else { 1500 };
    let stride = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(stride).collect()
}

#[test]
fn truncated_at_any_length() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let original = sample(&path);
    let cuts = cuts(original.len());
    let cut = |number: usize, bytes: &mut Vec<u8>| bytes.truncate(cuts[number]);
    mutants("truncated", cuts.len(), &original, &cut, &|bytes| {
        store(&path, bytes);
        match Hold::open(&path) {
            Ok(hold) => assert!(is_right(&hold).unwrap_or(false), "{} bytes: wrong", bytes.len()),
            Err(e) => {
                let fits = [ErrorKind::NotAHold, ErrorKind::Truncated, ErrorKind::Damaged];
                assert!(fits.contains(&e.kind()), "{} bytes: {e:?}", bytes.len());
                clear(&e, &path);
            }
        }
        use_everything(&path, &test_dir);
    });
}

#[test]
fn the_beginning_says_what_it_is() {
    // Any change of magic and version is noticed, and the two are told apart.
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let original = sample(&path);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for bit in 0..12 * 8 {
        let mut bytes = original.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        store(&path, &bytes);
        if let Err(e) = Hold::open(&path) {
            *kinds.entry(format!("{:?}", e.kind())).or_default() += 1;
        }
    }
    assert!(kinds.get("NotAHold").is_some_and(|n| *n >= 64), "{kinds:?}");
    assert!(kinds.contains_key("Version"), "{kinds:?}");
}

/// All pairs of a hold, map by map.
fn contents(hold: &Hold) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let maps = hold.maps().list().unwrap();
    let pairs = |name: &str| hold.maps().open(name).unwrap().iter().map(Result::unwrap).collect();
    maps.iter().map(|m| (m.name.clone(), pairs(&m.name))).collect()
}

#[test]
fn damaged_backups_are_refused_or_right() {
    let test_dir = TestDir::memory();
    let (path, backup, target) =
        (test_dir.path("it.hold"), test_dir.path("backup"), test_dir.path("restored.hold"));
    sample(&path);
    let hold = Hold::open(&path).unwrap();
    let wanted = contents(&hold);
    hold.backup(&backup).unwrap();
    let original = std::fs::read(&backup).unwrap();
    let cuts = cuts(original.len());
    let mutate = |number: usize, bytes: &mut Vec<u8>| match number % 3 {
        0 => flip(number, bytes),
        1 => overwrite(number, bytes),
        _ => bytes.truncate(cuts[number % cuts.len()]),
    };
    mutants("backup", many(900), &original, &mutate, &|bytes| {
        store(&backup, bytes);
        match commonhold::hold::restore(&backup, &target) {
            Ok(_) => {
                let hold = Hold::open(&target).unwrap();
                assert!(contents(&hold) == wanted, "restored something else");
                std::fs::remove_file(&target).unwrap();
            }
            Err(e) => {
                clear(&e, &backup);
                assert!(!target.exists(), "half a restored hold was left: {e}");
            }
        }
    });
}

/// Records in the part of an extent that was not cut off are kept.
#[test]
fn salvage_keeps_what_is_left_of_an_extent() {
    const EXTENT: u64 = 65_536;
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    {
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        for id in 0..20_000u32 {
            map.set(id.to_le_bytes(), [7; 100]).unwrap();
        }
    }
    let whole = std::fs::read(&path).unwrap();
    let kept = |len: u64| {
        let cut = test_dir.path("cut.hold");
        std::fs::write(&cut, &whole[..len as usize]).unwrap();
        let kept = commonhold::hold::salvage(&cut).unwrap().kept;
        std::fs::remove_file(&cut).unwrap();
        kept
    };
    let extents = whole.len() as u64 / EXTENT;
    let more = (extents / 2..extents - 1)
        .step_by(3)
        .filter(|extent| kept(extent * EXTENT + 61_440) > kept(extent * EXTENT));
    assert!(more.count() > 0, "of {extents} extents none keeps anything when it is cut");
}
