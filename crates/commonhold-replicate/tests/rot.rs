//! Journals whose files rot on the disk: what is lost is reported, and nothing else is lost.

use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
#[cfg(feature = "steps")]
use commonhold_replicate::faults::arm;
use commonhold_replicate::journal::{Journal, JournalOptions, Rebuilt, inspect, rebuild};
#[cfg(feature = "steps")]
use commonhold_testing::support::process::Child;
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Changes that the journal has behind the pairs.
const CHANGES: u32 = 1000;

/// A journal's file with two pairs and [`CHANGES`] changes of one key each, all confirmed.
struct Rotten {
    test_dir: TestDir,
    hold: Hold,
    map: Map,
    file: PathBuf,
}

impl Rotten {
    fn new() -> Rotten {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        for key in ["first", "second"] {
            map.set(key, key).unwrap();
        }
        let file = test_dir.path("it.journal");
        let this = Rotten { test_dir, hold, map, file };
        let journal = this.start().unwrap();
        this.map.sync(LONG).unwrap();
        for number in 0..CHANGES {
            this.map.set(number.to_be_bytes(), number.to_le_bytes()).unwrap();
            this.map.sync(LONG).unwrap();
        }
        journal.finish().unwrap();
        this
    }

    fn start(&self) -> commonhold::Result<Journal> {
        Journal::start(&self.hold, "it", &self.file, JournalOptions::default())
    }

    /// Flips a bit of the frame of this key's change.
    fn rot(&self, key: &[u8]) {
        let mut bytes = std::fs::read(&self.file).unwrap();
        let at = bytes.windows(key.len()).rposition(|there| there == key).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&self.file, bytes).unwrap();
    }
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn pairs(map: &Map) -> Pairs {
    map.iter().map(Result::unwrap).collect()
}

fn skipping() -> JournalOptions {
    JournalOptions { skip_damaged: true, ..JournalOptions::default() }
}

/// Rebuilds in a new hold.
fn rebuilt(rotten: &Rotten) -> (Rebuilt, Pairs) {
    let hold = Hold::create(rotten.test_dir.path("again.hold")).unwrap();
    let rebuilt = rebuild(&hold, "it", &rotten.file, &skipping()).unwrap();
    (rebuilt, pairs(&hold.maps().open("it").unwrap()))
}

#[test]
fn a_flipped_bit_in_the_middle_is_an_error() {
    let rotten = Rotten::new();
    rotten.rot(&500u32.to_be_bytes());
    let before = std::fs::read(&rotten.file).unwrap();
    let hold = Hold::create(rotten.test_dir.path("again.hold")).unwrap();
    let options = JournalOptions::default();
    let refusal = rebuild(&hold, "it", &rotten.file, &options);
    refused(refusal, ErrorKind::Damaged, "--skip-damaged");
    assert!(hold.maps().open("it").is_err());
    assert_eq!(std::fs::read(&rotten.file).unwrap(), before);
}

/// Each lost change is in a damaged part, and no part is larger than needed.
#[test]
fn only_the_damaged_changes_are_lost() {
    let rotten = Rotten::new();
    let sound = inspect(&rotten.file).unwrap();
    assert!(sound.is_sound() && sound.cut_off_bytes == 0, "{sound:?}");
    assert_eq!((sound.pairs, sound.changes), (2, CHANGES.into()));
    let lost = [300u32, 500, 501, 700];
    lost.iter().for_each(|number| rotten.rot(&number.to_be_bytes()));
    let mut expected = pairs(&rotten.map);
    lost.iter().for_each(|number| drop(expected.remove(&number.to_be_bytes()[..])));
    let (rebuilt, found) = rebuilt(&rotten);
    assert_eq!(found, expected);
    assert_eq!(rebuilt.position, sound.position);
    assert_eq!(rebuilt.changes + lost.len() as u64, sound.changes);
    let frame = 48;
    let sizes: Vec<u64> =
        rebuilt.damage.iter().map(|part| part.offsets.end - part.offsets.start).collect();
    assert_eq!(sizes, [frame, 2 * frame, frame]);
    for part in &rebuilt.damage {
        assert_eq!(part.bytes.end - part.bytes.start, part.offsets.end - part.offsets.start);
        assert!(!part.in_pairs);
    }
}

#[test]
fn a_lost_pair_and_a_lost_end_of_the_pairs_are_reported() {
    let rotten = Rotten::new();
    let bytes = std::fs::read(&rotten.file).unwrap();
    let place = |key: &str| bytes.windows(key.len()).position(|there| there == key.as_bytes());
    let [kept, lost] =
        if place("first") < place("second") { ["first", "second"] } else { ["second", "first"] };
    rotten.rot(lost.as_bytes());
    let (rebuilt, found) = rebuilt(&rotten);
    assert!(rebuilt.damage.len() == 1 && rebuilt.damage[0].in_pairs, "{:?}", rebuilt.damage);
    assert_eq!(found.len() as u32, CHANGES + 1);
    assert!(found.contains_key(kept.as_bytes()) && !found.contains_key(lost.as_bytes()));
    // The end of the pairs is behind them.
    let mut bytes = std::fs::read(&rotten.file).unwrap();
    bytes[rebuilt.damage[0].bytes.end as usize + 8] ^= 1;
    std::fs::write(&rotten.file, bytes).unwrap();
    std::fs::remove_file(rotten.test_dir.path("again.hold")).unwrap();
    let found = self::rebuilt(&rotten).1;
    assert_eq!(found.len() as u32, CHANGES + 1);
}

/// Sectors that read as zeros, anywhere: what is rebuilt had been in the map.
#[test]
fn lost_sectors_lose_nothing_else() {
    let rotten = Rotten::new();
    let whole = pairs(&rotten.map);
    let bytes = std::fs::read(&rotten.file).unwrap();
    for sector in 1..bytes.len() / 512 {
        let mut damaged = bytes.clone();
        damaged[sector * 512..(sector + 1) * 512].fill(0);
        std::fs::write(&rotten.file, damaged).unwrap();
        let (rebuilt, found) = rebuilt(&rotten);
        assert_eq!(rebuilt.damage.len(), 1, "sector {sector}");
        assert!(found.len() + 12 >= whole.len(), "sector {sector}: {} pairs", found.len());
        assert!(found.iter().all(|(key, value)| whole.get(key) == Some(value)));
        std::fs::remove_file(rotten.test_dir.path("again.hold")).unwrap();
    }
}

/// A journal that begins later must not shorten the file to the part before the damage.
#[test]
fn a_journal_keeps_a_damaged_file() {
    let rotten = Rotten::new();
    for name in ["it.journal.damaged", "it.journal.damaged-2"] {
        rotten.rot(&500u32.to_be_bytes());
        let before = std::fs::read(&rotten.file).unwrap();
        rotten.map.set("behind", name).unwrap();
        let journal = rotten.start().unwrap();
        let kept = rotten.test_dir.path(name);
        assert_eq!(journal.status().damaged_file, Some(kept.display().to_string()));
        journal.finish().unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), before);
        assert!(inspect(&rotten.file).unwrap().is_sound());
    }
    let (rebuilt, found) = rebuilt(&rotten);
    assert!(rebuilt.damage.is_empty());
    assert_eq!(found, pairs(&rotten.map));
}

/// An earlier journal had kept it, and ended before it had a new file.
#[test]
fn a_damaged_file_is_kept_once() {
    let rotten = Rotten::new();
    rotten.rot(&500u32.to_be_bytes());
    let before = std::fs::read(&rotten.file).unwrap();
    let kept = rotten.test_dir.path("it.journal.damaged");
    std::fs::hard_link(&rotten.file, &kept).unwrap();
    let journal = rotten.start().unwrap();
    assert_eq!(journal.status().damaged_file, Some(kept.display().to_string()));
    journal.finish().unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), before);
    assert!(!rotten.test_dir.path("it.journal.damaged-2").exists());
}

/// After a rebuilding with losses, too.
#[test]
fn a_journal_of_the_rebuilt_map_keeps_the_damaged_file() {
    let rotten = Rotten::new();
    rotten.rot(&500u32.to_be_bytes());
    let before = std::fs::read(&rotten.file).unwrap();
    rotten.hold.maps().drop("it").unwrap();
    rebuild(&rotten.hold, "it", &rotten.file, &skipping()).unwrap();
    rotten.start().unwrap().finish().unwrap();
    let kept = rotten.test_dir.path("it.journal.damaged");
    assert_eq!(std::fs::read(kept).unwrap(), before);
    assert_eq!(inspect(&rotten.file).unwrap().pairs, u64::from(CHANGES) + 1);
}

#[cfg(feature = "steps")]
#[test]
fn a_damaged_file_that_cannot_be_kept_stays() {
    let rotten = Rotten::new();
    rotten.rot(&500u32.to_be_bytes());
    let before = std::fs::read(&rotten.file).unwrap();
    Child::run("starts a journal", || {
        arm("journal.link:EPERM:always").unwrap();
        refused(rotten.start(), ErrorKind::Damaged, "cannot be kept");
    })
    .finish();
    assert_eq!(std::fs::read(&rotten.file).unwrap(), before);
}
