//! Files that appear whole or not at all: create, backup, restore and salvage, killed at every step and
//! failed at every call.
//!
//! Each is tried where files without a name are possible, and where they are not (that call is made to
//! fail). Afterwards the directory has exactly what it may have, the name leads to the old file or to
//! the new one, and the same operation succeeds and leaves nothing behind.

use crate::support::process::{Board, Child, End};
use crate::support::test_dir::TestDir;
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold, Result, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAIRS: u32 = 40;
const NAME: &str = "it.hold";
const KEPT: &str = "it.hold.unclean-";
/// File systems without nameless files.
const NAMED: &str = "draft.nameless:EOPNOTSUPP:always";

/// One operation, in a directory that has what it needs.
#[derive(Clone, Copy)]
struct Operation {
    name: &'static str,
    /// What the directory has before.
    prepare: fn(&Materials, &Path),
    run: fn(&Path) -> Result<()>,
    /// The file that it makes.
    makes: &'static str,
    /// Looks at that file, which is there.
    verify: fn(&Path),
}

const ALL: [Operation; 4] = [
    Operation {
        name: "create",
        prepare: |_, _| (),
        run: |dir| Hold::create(dir.join(NAME)).map(drop),
        makes: NAME,
        verify: |dir| assert!(Hold::open(dir.join(NAME)).unwrap().check().unwrap().ok),
    },
    Operation {
        name: "backup",
        prepare: |materials, dir| put(&materials.closed, &dir.join(NAME)),
        run: |dir| Hold::open(dir.join(NAME))?.backup(dir.join("backup")).map(drop),
        makes: "backup",
        verify: |dir| {
            let copy = dir.join("copy.hold");
            commonhold::hold::restore(dir.join("backup"), &copy).unwrap();
            all_there(&copy);
            std::fs::remove_file(copy).unwrap();
        },
    },
    Operation {
        name: "restore",
        prepare: |materials, dir| put(&materials.backup, &dir.join("backup")),
        run: |dir| commonhold::hold::restore(dir.join("backup"), dir.join(NAME)).map(drop),
        makes: NAME,
        verify: |dir| all_there(&dir.join(NAME)),
    },
    Operation {
        name: "salvage",
        prepare: |materials, dir| put(&materials.unclean, &dir.join(NAME)),
        run: |dir| commonhold::hold::salvage(dir.join(NAME)).map(drop),
        makes: NAME,
        verify: |dir| all_there(&dir.join(NAME)),
    },
];

/// Files that the operations begin with.
struct Materials {
    _test_dir: TestDir,
    closed: PathBuf,
    unclean: PathBuf,
    backup: PathBuf,
}

impl Materials {
    /// Made on a disk, so that salvage has checksums to go by.
    fn new() -> Materials {
        let test_dir = TestDir::file();
        let [closed, backup] = ["closed.hold", "backup"].map(|name| test_dir.path(name));
        let unclean = test_dir.path("unclean.hold");
        fill(&closed).backup(&backup).unwrap();
        leave_unclean(|| fill(&unclean));
        Materials { _test_dir: test_dir, closed, unclean, backup }
    }
}

fn leave_unclean(fill: impl Fn() -> Hold) {
    let victim = || {
        let _hold = fill();
        nix::sys::signal::raise(Signal::SIGKILL).unwrap();
    };
    assert_eq!(Child::run("victim", victim).wait(), End::By(Signal::SIGKILL));
}

fn put(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

fn fill(path: &Path) -> Hold {
    fill_with(path, PAIRS)
}

fn fill_with(path: &Path, pairs: u32) -> Hold {
    let hold = Hold::create(path).unwrap();
    let map = hold.maps().open_or_create("pairs", MapOptions::general()).unwrap();
    for id in 0..pairs {
        map.set(id.to_le_bytes(), [id as u8; 100]).unwrap();
    }
    hold
}

#[track_caller]
fn all_there(path: &Path) {
    // As a program would that makes it if it is not there.
    let hold = Hold::open_or_create(path).unwrap();
    let map = hold.maps().open("pairs").expect("the hold was there already");
    for id in 0..PAIRS {
        assert_eq!(map.get(id.to_le_bytes()).unwrap().as_deref(), Some(&[id as u8; 100][..]));
    }
    assert!(hold.check().unwrap().ok);
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn is_draft(name: &str, of: &str) -> bool {
    name.starts_with(&format!(".{of}.")) && name.ends_with(".draft")
}

impl Operation {
    /// The steps, or the faults, that it passes when nothing disturbs it.
    fn passes(
        &self,
        materials: &Materials,
        faults: &str,
        all: &'static [&'static str],
        observe: fn(Box<dyn Fn(&'static str) + Send + Sync>),
    ) -> Vec<&'static str> {
        let test_dir = TestDir::memory();
        (self.prepare)(materials, test_dir.dir());
        let passed: &Board = Box::leak(Box::new(Board::new(all.len())));
        Child::run(format!("{}, undisturbed", self.name), || {
            steps::arm_fault(faults).unwrap();
            observe(Box::new(move |name| {
                let at = all.iter().position(|known| *known == name).unwrap();
                passed.put(at, 1);
            }));
            (self.run)(test_dir.dir()).unwrap();
        })
        .finish();
        (0..all.len()).filter(|at| passed.get(*at) == 1).map(|at| all[at]).collect()
    }

    /// After it was disturbed: it is done or it is not, and nothing else is there.
    fn verify_disturbed(&self, dir: &Path, before: &BTreeSet<String>, may_leave: bool, what: &str) {
        let after: BTreeSet<_> = names(dir);
        let drafts = after.iter().filter(|name| is_draft(name, self.makes)).count();
        let kept: Vec<_> = after.iter().filter(|name| name.starts_with(KEPT)).collect();
        assert!(drafts <= usize::from(may_leave), "{what}: {after:?}");
        assert!(kept.len() <= usize::from(self.name == "salvage"), "{what}: {after:?}");
        let known = |name: &&String| {
            before.contains(*name)
                || **name == self.makes
                || is_draft(name, self.makes)
                || name.starts_with(KEPT)
        };
        assert!(after.iter().all(|name| known(&name)), "{what}: {after:?}");
        assert!(before.is_subset(&after), "{what}: {after:?}");
        if self.name == "salvage" {
            // Never nothing, and never an empty one.
            match Hold::open_or_create(dir.join(NAME)) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unclean, "{what}: {error}"),
                Ok(hold) => drop(hold),
            }
        }
    }

    /// It is done now, whether it was before or not, and nothing is left of an attempt.
    fn verify_repeated(&self, dir: &Path, before: &BTreeSet<String>, what: &str) {
        let is_left = names(dir).iter().any(|name| is_draft(name, self.makes));
        let is_done = match self.name {
            "salvage" => Hold::open(dir.join(NAME)).is_ok(),
            _ => dir.join(self.makes).exists(),
        };
        if is_done && is_left {
            // By its second name, which goes with the next file of its name.
            (self.verify)(dir);
            std::fs::remove_file(dir.join(self.makes)).unwrap();
        }
        if !is_done || is_left {
            (self.run)(dir).unwrap_or_else(|error| panic!("{what}, repeated: {error}"));
        }
        (self.verify)(dir);
        let mut expected = before.clone();
        expected.insert(self.makes.to_owned());
        let mut after = names(dir);
        if self.name == "salvage" {
            let kept: Vec<_> = after.iter().filter(|n| n.starts_with(KEPT)).cloned().collect();
            assert_eq!(kept.len(), 1, "{what}: {after:?}");
            let old = Hold::open(dir.join(&kept[0])).err().map(|error| error.kind());
            assert_eq!(old, Some(ErrorKind::Unclean), "{what}: the damaged file is kept");
            after.remove(&kept[0]);
        }
        assert_eq!(after, expected, "{what}");
    }

    fn kill_at(&self, materials: &Materials, faults: &str, step: &str, what: &str) {
        let test_dir = TestDir::memory();
        (self.prepare)(materials, test_dir.dir());
        let before = names(test_dir.dir());
        let mut victim = Child::run(what.to_owned(), || {
            steps::arm_fault(faults).unwrap();
            steps::arm(&format!("{step}:kill")).unwrap();
            (self.run)(test_dir.dir()).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{what}");
        // A nameless file that is to take a used name has another one for an instant.
        let may_leave = !faults.is_empty() || step == "draft.linked";
        self.verify_disturbed(test_dir.dir(), &before, may_leave, what);
        Child::run(format!("{what}, repeated"), || {
            steps::arm_fault(faults).unwrap();
            self.verify_repeated(test_dir.dir(), &before, what);
        })
        .finish();
    }

    /// In a child: arms one fault, and looks.
    fn fail_at(&self, materials: &Materials, named: &str, fault: &str, what: &str) {
        let test_dir = TestDir::memory();
        (self.prepare)(materials, test_dir.dir());
        let before = names(test_dir.dir());
        steps::arm_fault(&format!("{fault},{named}")).unwrap();
        let result = (self.run)(test_dir.dir());
        steps::arm_fault(named).unwrap();
        self.verify_disturbed(test_dir.dir(), &before, false, what);
        if let Err(error) = &result {
            let after = names(test_dir.dir());
            // What fails once the file is there and whole says so.
            assert!(
                after == before || error.to_string().contains("is complete"),
                "{what}: {error}"
            );
        }
        self.verify_repeated(test_dir.dir(), &before, what);
    }
}

#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    let (materials, mut passed) = (Materials::new(), BTreeSet::new());
    let observe = |f: Box<dyn Fn(&'static str) + Send + Sync>| steps::observe(f);
    for (how, faults) in [
        ("nameless", String::new()),
        ("named", NAMED.to_owned()),
        ("named, without RENAME_NOREPLACE", format!("{NAMED},draft.rename:EINVAL:once")),
    ] {
        for operation in ALL {
            if faults.contains("rename") && operation.name == "salvage" {
                continue;
            }
            for step in operation.passes(&materials, &faults, steps::ALL, observe) {
                let what = format!("{} ({how}) killed at {step}", operation.name);
                operation.kill_at(&materials, &faults, step, &what);
                passed.insert(step);
            }
        }
    }
    let missed = steps::ALL.iter().filter(is_own).filter(|step| !passed.contains(**step));
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "nothing passes {missed:?}");
}

#[test]
fn a_failure_leaves_the_old_file_or_the_new_one() {
    let (materials, mut tried) = (Materials::new(), BTreeSet::new());
    let observe = |f: Box<dyn Fn(&'static str) + Send + Sync>| steps::observe_faults(f);
    let all: Vec<&str> = steps::FAULTS.iter().map(|(name, _)| *name).collect();
    let all: &'static [&str] = all.leak();
    for (how, named) in [("nameless", ""), ("named", NAMED)] {
        for operation in ALL {
            let passed = operation.passes(&materials, named, all, observe);
            tried.extend(passed.iter().copied());
            for fault in passed.iter().filter(|fault| !named.starts_with(**fault)) {
                let errors = steps::FAULTS.iter().find(|(name, _)| name == fault).unwrap().1;
                Child::run(format!("{} ({how}) with {fault}", operation.name), || {
                    for (error, often) in
                        errors.iter().flat_map(|error| [(error, "once"), (error, "always")])
                    {
                        // Asked to try again for ever, it may try for ever.
                        if steps::is_transient(error) && often == "always" {
                            continue;
                        }
                        let armed = format!("{fault}:{error}:{often}");
                        let what = format!("{} ({how}) with {armed}", operation.name);
                        operation.fail_at(&materials, named, &armed, &what);
                    }
                })
                .finish();
            }
        }
    }
    let faults = steps::FAULTS.iter().map(|(name, _)| name).filter(is_own);
    let missed: Vec<_> = faults.filter(|name| !tried.contains(**name)).collect();
    let elsewhere = [&"salvage.copy", &"salvage.read-page"];
    assert_eq!(missed, elsewhere, "nothing passes these, or another test is not needed");
}

/// Whether these tests alone pass the step or fault.
fn is_own(name: &&&str) -> bool {
    ["draft.", "salvage."].iter().any(|area| name.starts_with(area))
}

/// Nobody gets at either file while a salvage holds the old one; the new one is anybody's once it is there.
#[test]
fn a_salvage_that_is_stopped_shows_the_old_file_or_the_new_one() {
    let materials = Materials::new();
    for (step, is_new) in
        [("salvage.kept", false), ("draft.linked", false), ("draft.replaced", true)]
    {
        let test_dir = TestDir::memory();
        let path = test_dir.path(NAME);
        std::fs::copy(&materials.unclean, &path).unwrap();
        let mut stopped = Child::run(format!("stopped at {step}"), || {
            steps::arm(&format!("{step}:stop")).unwrap();
            commonhold::hold::salvage(&path).unwrap();
        });
        assert!(stopped.wait_stopped());
        match is_new {
            true => all_there(&path),
            false => {
                let kind = |error: Option<commonhold::Error>| error.map(|e| e.kind());
                assert_eq!(kind(commonhold::hold::salvage(&path).err()), Some(ErrorKind::Busy));
                assert_eq!(kind(Hold::open_or_create(&path).err()), Some(ErrorKind::Busy));
            }
        }
        stopped.signal(Signal::SIGCONT);
        assert_eq!(stopped.wait(), End::Well);
        all_there(&path);
    }
}

/// A file that is too short to be mapped is salvaged from a copy: it once was lengthened, and passed for
/// whole after that.
#[test]
fn salvage_changes_nothing_in_a_file_that_is_too_short() {
    let materials = Materials::new();
    for len in [4096, 5000, 65536, 131_071] {
        let test_dir = TestDir::memory();
        let path = test_dir.path(NAME);
        std::fs::copy(&materials.unclean, &path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let before = std::fs::read(&path).unwrap();
        let mut victim = Child::run("salvage", || {
            steps::arm("salvage.kept:kill").unwrap();
            commonhold::hold::salvage(&path).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
        assert!(std::fs::read(&path).unwrap() == before, "{len} bytes");
        let errors = steps::FAULTS.iter().find(|(name, _)| *name == "salvage.copy").unwrap().1;
        let attempts = || {
            for error in errors.iter().filter(|error| **error != "EINTR") {
                steps::arm_fault(&format!("salvage.copy:{error}:once")).unwrap();
                assert!(commonhold::hold::salvage(&path).is_err(), "{error}");
                assert!(std::fs::read(&path).unwrap() == before, "{len} bytes, {error}");
                assert_eq!(names(test_dir.dir()).len(), 2, "{len} bytes, {error}");
            }
        };
        Child::run("salvage that fails", attempts).finish();
        let report = commonhold::hold::salvage(&path).unwrap();
        assert!(std::fs::read(&report.kept_old_as).unwrap() == before, "{len} bytes");
        assert_eq!(names(test_dir.dir()).len(), 2, "{len} bytes");
        Hold::open(&path).unwrap();
    }
}

/// A touch of a sector that has gone bad was SIGBUS.
#[test]
fn salvage_passes_over_what_cannot_be_read() {
    const MANY: u32 = 2000;
    let test_dir = TestDir::file();
    let (path, unclean) = (test_dir.path(NAME), test_dir.path("unclean.hold"));
    leave_unclean(|| fill_with(&unclean, MANY));
    let pages = std::fs::metadata(&unclean).unwrap().len() / 4096;
    // One page at a time that is not among the first, without which it is no hold.
    for page in (17..pages.min(256)).step_by(5) {
        std::fs::copy(&unclean, &path).unwrap();
        Child::run(format!("salvage without page {page}"), || {
            let faults = format!("salvage.read:EIO:once,salvage.read-page:EIO:once:{}", page + 1);
            steps::arm_fault(&faults).unwrap();
            let report = commonhold::hold::salvage(&path).unwrap();
            let (from, to) = (page * 4096, (page + 1) * 4096);
            let told = format!("bytes {from} to {to} of the file cannot be read");
            assert!(report.notes.iter().any(|note| note.contains(&told)), "{:?}", report.notes);
            let hold = Hold::open(&path).unwrap();
            // A page has at most this many of them.
            let kept = hold.maps().open("pairs").unwrap().len().unwrap();
            assert!(kept + 42 >= u64::from(MANY), "page {page}: {kept} pairs, {report:?}");
            assert!(hold.check().unwrap().ok);
            std::fs::remove_file(report.kept_old_as).unwrap();
        })
        .finish();
    }
}

/// A link stays one: the file is saved that it leads to.
#[test]
fn salvage_by_a_symbolic_link_saves_the_file() {
    let materials = Materials::new();
    let (test_dir, other) = (TestDir::memory(), TestDir::memory());
    let (path, link) = (test_dir.path(NAME), other.path("link.hold"));
    std::fs::copy(&materials.unclean, &path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let report = commonhold::hold::salvage(&link).unwrap();
    assert_eq!(report.kept_old_as.parent(), Some(test_dir.dir()));
    assert!(link.is_symlink());
    all_there(&path);
    all_there(&link);
    assert_eq!((names(test_dir.dir()).len(), names(other.dir()).len()), (2, 1));
}

/// What was left is removed with the hold; what somebody works on, or another's, is not.
#[test]
fn drafts_that_were_left_are_removed_and_no_others() {
    let (materials, test_dir) = (Materials::new(), TestDir::memory());
    let path = test_dir.path(NAME);
    let others = [".it.hold.mine.draft", ".other.hold.0123456789abcdef.draft"];
    for name in others.iter().chain(&[".it.hold.0123456789abcdef.draft"]) {
        std::fs::write(test_dir.path(name), b"left").unwrap();
    }
    let mut busy = Child::run("restores", || {
        steps::arm_fault(NAMED).unwrap();
        steps::arm("draft.hold-built:stop").unwrap();
        commonhold::hold::restore(&materials.backup, &path).unwrap();
    });
    assert!(busy.wait_stopped());
    std::fs::write(test_dir.path(".it.hold.fedcba9876543210.draft"), b"left").unwrap();
    drop(Hold::create(&path).unwrap());
    commonhold::hold::remove(&path, false).unwrap();
    let drafts = names(test_dir.dir()).iter().filter(|name| is_draft(name, NAME)).count();
    assert_eq!(drafts, 2, "its own, and one that has no number");
    busy.signal(Signal::SIGCONT);
    assert_eq!(busy.wait(), End::Well);
    all_there(&path);
    let expected: BTreeSet<_> = others.iter().chain(&[NAME]).map(|n| n.to_string()).collect();
    assert_eq!(names(test_dir.dir()), expected);
}
