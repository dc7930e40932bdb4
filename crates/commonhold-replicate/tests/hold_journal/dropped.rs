//! Maps that were dropped, or seem to be: what the catalogue notes, and which files are removed.

use super::*;
use std::ffi::OsString;
use std::path::Path;

/// The drop is noted, and the files of the map are still there.
fn with_dropped_map(shop: &Shop) -> PathBuf {
    let journal = shop.start(with_history());
    is(&journal, "apples", JournalState::Recorded);
    let recorded = is(&journal, "pears", JournalState::Recorded);
    let file = PathBuf::from(recorded.journal.unwrap().file);
    let pears = shop.hold().maps().open("pears").unwrap();
    until("a segment", || {
        pears.set("more", now_ms().to_be_bytes()).unwrap();
        !names_in(&segments_of(&file)).is_empty()
    });
    shop.hold().maps().drop("pears").unwrap();
    until("the journal ends", || one(&journal, "pears").is_none());
    journal.finish().unwrap();
    file
}

fn segments_of(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.d", file.display()))
}

/// The names of the files in a directory, which may be missing.
fn names_in(directory: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Puts the segments of a journal into another directory.
fn copy_segments(file: &Path, to: &Path) {
    let from = segments_of(file);
    for name in names_in(&from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// States are kept for so short a time that files of dropped maps are removed at once.
fn keeping_nothing() -> HoldJournalOptions {
    let mut options = with_history();
    options.journal.keep = Some(Duration::from_millis(1));
    options
}

/// Waits until the clock is past the time that states are kept since now.
fn pass_keep() {
    let now = now_ms();
    until("the clock to go on", || now_ms() > now + 1);
}

#[test]
fn files_that_could_not_be_removed_are_tried_again() {
    let shop = Shop::new(&["apples", "pears"]);
    let file = with_dropped_map(&shop);
    pass_keep();
    // No file can be removed in this way.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let journal = shop.start(keeping_nothing());
    let reason = |journal: &HoldJournal| journal.status().error;
    let is_shown = |journal: &HoldJournal| {
        reason(journal).is_some_and(|why| why.contains("pears.journal: cannot be removed"))
    };
    assert!(is_shown(&journal), "{:?}", reason(&journal));
    // Also after later scans, of which one finds this map.
    shop.map("plums");
    is(&journal, "plums", JournalState::Recorded);
    assert!(is_shown(&journal), "{:?}", reason(&journal));
    journal.finish().unwrap();
    // The next process tries it, too.
    let journal = shop.start(keeping_nothing());
    assert!(is_shown(&journal), "{:?}", reason(&journal));
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, "it").unwrap();
    until("the file is removed", || !file.exists());
    until("the reason is gone", || reason(&journal).is_none());
    journal.finish().unwrap();
    assert!(inspect_all(shop.directory(), None).unwrap().is_sound());
}

/// Two holds have maps of one name, and so segments of one name.
#[test]
fn the_segments_of_another_hold_stay() {
    let [shop, other] = [(); 2].map(|()| Shop::new(&["apples", "pears"]));
    let archive = shop.test_dir.path("archive");
    std::fs::create_dir(&archive).unwrap();
    let sharing = |mut options: HoldJournalOptions| {
        options.journal.archive = Some(archive.clone());
        options
    };
    // Segments are plain files, which may be put into any archive.
    copy_segments(&with_dropped_map(&other), &archive);
    let theirs = names_in(&archive);
    // A journal of a map of that name does not begin there.
    let journal = shop.start(sharing(with_history()));
    let refused = is(&journal, "pears", JournalState::Failed);
    assert!(refused.reason.unwrap().contains("choose another directory (--archive)"));
    is(&journal, "apples", JournalState::Recorded);
    drop(journal);
    // One that has segments there removes only these.
    let file = with_dropped_map(&shop);
    copy_segments(&file, &archive);
    assert!(names_in(&archive).len() > theirs.len());
    pass_keep();
    shop.start(sharing(keeping_nothing())).finish().unwrap();
    assert!(!file.exists());
    assert_eq!(names_in(&archive), theirs);
}

/// The process that puts the new map in the place of the old one is stopped in the middle.
#[cfg(feature = "steps")]
#[test]
fn a_map_that_is_being_replaced_is_not_dropped() {
    use crate::party::{Copy, Source};
    use commonhold::raw::{begin_stream_at, create_shadow_map, next_name, swap_in_shadow_map};
    use commonhold_testing::support::standstill::{PATIENCE, go_on, stopped};
    let (source, next) = (Source::new(MapOptions::general()), next_name("it"));
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    drop(copy);
    let [path, directory] = ["copy.hold", "journals"].map(|name| source.test_dir.path(name));
    let hold = Hold::options().lock_timeout(PATIENCE).open(&path).unwrap();
    let start = || HoldJournal::start(&hold, &directory, options()).unwrap();
    let journal = start();
    is(&journal, "it", JournalState::Recorded);
    let end = hold.maps().open("it").unwrap().sync(LONG).unwrap();
    journal.finish().unwrap();
    create_shadow_map(&hold, &next, "it").unwrap().set("second", "2").unwrap();
    assert!(begin_stream_at(&hold, &next, 1 << 20, end).unwrap());
    let still = stopped("shadow.committed", || {
        let hold = Hold::open(&path).unwrap();
        swap_in_shadow_map(&hold, &next, "it").unwrap();
    });
    let journal = start();
    go_on(still);
    is(&journal, "it", JournalState::Recorded);
    hold.maps().open("it").unwrap().sync(LONG).unwrap();
    journal.finish().unwrap();
    let again = Hold::create(source.test_dir.path("again.hold")).unwrap();
    let outcomes = rebuild_hold(&again, &directory, None, &options()).unwrap();
    assert!(matches!(outcome(&outcomes, "it"), RebuildOutcome::Rebuilt(..)), "{outcomes:?}");
    assert!(outcomes[0].file.ends_with("it.journal"), "another life began: {outcomes:?}");
    assert!(again.maps().open("it").unwrap().contains("second").unwrap());
}
