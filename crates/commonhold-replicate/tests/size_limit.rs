//! Journals of a process with a limit on the size of its files (`ulimit -f`). Writing beyond that
//! limit would end the process by a signal.

use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{Journal, JournalOptions};
use commonhold_testing::alone::{LONG, cast};
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Gives each of the first pairs a new value of 1000 bytes.
fn change(map: &Map, pairs: u32, byte: u8) {
    for key in 0..pairs {
        map.set(key.to_be_bytes(), [byte; 1000]).unwrap();
    }
}

/// Lets the files of this process have at most these bytes.
fn limit(bytes: u64) {
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, bytes.min(most), most).unwrap();
}

/// A process with the journal of a map of 1000 pairs.
fn with_journal(does: impl FnOnce(&Map, Journal, u64)) {
    let test_dir = TestDir::memory();
    cast("with RLIMIT_FSIZE", || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        change(&map, 1000, 0);
        let file = test_dir.path("it.journal");
        // The hold has room for the journal's announcements, and does not grow.
        let options = JournalOptions { stream_bytes: 1 << 20, ..JournalOptions::default() };
        let journal = Journal::start(&hold, "it", &file, options).unwrap();
        map.sync(LONG).unwrap();
        does(&map, journal, std::fs::metadata(file).unwrap().len());
    })
    .finish();
}

#[test]
fn a_journal_at_the_limit_reports_it_and_continues_without_the_limit() {
    with_journal(|map, journal, _| {
        limit(100_000);
        change(map, 100, 1);
        let error = map.sync(LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let text = error.to_string();
        assert!(text.contains("it.journal") && text.contains("file size limit"), "{text}");
        limit(u64::MAX);
        until("all is durable", || map.sync(LONG).is_ok());
        journal.finish().unwrap();
    });
}

/// The file has not grown enough to be compacted for that reason.
#[test]
fn a_file_at_the_limit_is_replaced_by_a_smaller_one() {
    with_journal(|map, journal, bytes| {
        limit(bytes + 100_000);
        change(map, 300, 1);
        until("all is durable", || map.sync(LONG).is_ok());
        journal.finish().unwrap();
    });
}
