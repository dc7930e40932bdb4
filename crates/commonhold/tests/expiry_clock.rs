//! A cache's pairs live as long as was said, whatever happens to the system's clocks.
//!
//! Each test runs in a child, whose clocks alone are set ahead or behind. A reboot is simulated: the
//! file remembers another boot id, and boot time begins again.

use crate::support::boot::reboot;
use crate::support::process::{Child, PATIENCE, until};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold::steps::shifts;
use commonhold::stream::Follower;
use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;
const MOMENT: Duration = Duration::from_millis(1);

fn in_a_child(body: impl FnOnce()) {
    Child::run("with clocks of its own", body).finish();
}

fn time(ms: i64) -> Duration {
    Duration::from_millis(ms as u64)
}

fn cache(hold: &Hold) -> Map {
    hold.maps().open_or_create("cache", MapOptions::cache()).unwrap()
}

fn set(hold: &Hold, key: &str, ttl: i64) {
    cache(hold).set_with_ttl(key, "value", time(ttl)).unwrap();
}

fn has(hold: &Hold, key: &str) -> bool {
    hold.maps().open("cache").unwrap().get(key).unwrap().is_some()
}

/// Closes it and lets the system restart: real time goes on by `passed`, boot time begins again.
fn restart(hold: Hold, path: &Path, realtime: i64) -> Hold {
    hold.close().unwrap();
    reboot(path);
    shifts::set_realtime_ms(realtime);
    shifts::set_boottime_ms(-HOUR);
    Hold::open(path).unwrap()
}

#[test]
fn a_jump_of_real_time_expires_nothing() {
    let test_dir = TestDir::memory();
    in_a_child(|| {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        set(&hold, "an hour", HOUR);
        shifts::set_realtime_ms(YEAR);
        assert!(has(&hold, "an hour"), "read");
        // A writer's clock is the same, and so is everybody's after it.
        set(&hold, "another", HOUR);
        let mut cursor = commonhold::map::Cursor::START;
        assert_eq!(cache(&hold).try_expire(&mut cursor, 1 << 20).unwrap(), 0);
        shifts::set_realtime_ms(0);
        assert!(has(&hold, "an hour") && has(&hold, "another"));
        let other = Hold::open(hold.path()).unwrap();
        assert!(has(&other, "an hour") && has(&other, "another"));
    });
}

#[test]
fn a_jump_of_real_time_keeps_nothing_longer() {
    let test_dir = TestDir::memory();
    in_a_child(|| {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        // There and back: a clock that never goes back would stand still for a year.
        shifts::set_realtime_ms(YEAR);
        set(&hold, "first", HOUR);
        shifts::set_realtime_ms(0);
        cache(&hold).set_with_ttl("a moment", "value", MOMENT).unwrap();
        until("it has expired", || !has(&hold, "a moment"));
        // Back only.
        cache(&hold).set_with_ttl("a moment", "value", MOMENT).unwrap();
        shifts::set_realtime_ms(-YEAR);
        until("it has expired", || !has(&hold, "a moment"));
        shifts::set_boottime_ms(HOUR);
        assert!(!has(&hold, "first"), "the time really passed");
    });
}

/// Boot time runs while the system sleeps.
#[test]
fn time_in_suspend_counts() {
    let test_dir = TestDir::memory();
    in_a_child(|| {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        set(&hold, "an hour", HOUR);
        set(&hold, "a day", DAY);
        shifts::set_boottime_ms(2 * HOUR);
        assert!(!has(&hold, "an hour") && has(&hold, "a day"));
    });
}

/// Between two boots there is real time only: it counts, forward and for a week at most.
#[test]
fn a_restart_continues_from_the_time_before_it() {
    let test_dir = TestDir::file();
    for (what, realtime, hour, month) in [
        ("at once", 0, true, true),
        ("after two hours", 2 * HOUR, false, true),
        ("after half a year, or with a clock that is wrong", YEAR / 2, false, true),
        ("with a clock that is not set", -50 * YEAR, true, true),
    ] {
        in_a_child(|| {
            let path = test_dir.path("it.hold");
            let hold = Hold::create(&path).unwrap();
            set(&hold, "an hour", HOUR);
            set(&hold, "a month", 30 * DAY);
            cache(&hold).set_with_ttl("gone", "value", MOMENT).unwrap();
            until("it has expired", || !has(&hold, "gone"));
            let hold = restart(hold, &path, realtime);
            assert_eq!((has(&hold, "an hour"), has(&hold, "a month")), (hour, month), "{what}");
            assert!(!has(&hold, "gone"), "{what}");
            // The clock is set right, or wrong: nothing follows it.
            shifts::set_realtime_ms(YEAR);
            assert_eq!((has(&hold, "an hour"), has(&hold, "a month")), (hour, month), "{what}");
            set(&hold, "an hour", HOUR);
            shifts::set_boottime_ms(-HOUR / 2);
            assert!(has(&hold, "an hour"), "{what}");
            shifts::set_boottime_ms(0);
            assert!(!has(&hold, "an hour"), "{what}");
            hold.close().unwrap();
            std::fs::remove_file(&path).unwrap();
        });
    }
}

/// A clock that was wrong during the boot before is no reason to expire anything, either.
#[test]
fn a_clock_that_was_set_before_the_restart_does_not_matter() {
    let test_dir = TestDir::file();
    in_a_child(|| {
        let path = test_dir.path("it.hold");
        shifts::set_realtime_ms(-50 * YEAR);
        let hold = Hold::create(&path).unwrap();
        shifts::set_realtime_ms(0);
        set(&hold, "an hour", HOUR);
        let hold = restart(hold, &path, 0);
        assert!(has(&hold, "an hour"));
    });
}

/// Who reads only, and is the first after a restart, cannot set the hold's clock; a writer comes later.
#[test]
fn readers_after_a_restart_need_no_writer() {
    let test_dir = TestDir::file();
    in_a_child(|| {
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        set(&hold, "an hour", HOUR);
        set(&hold, "a day", DAY);
        hold.close().unwrap();
        reboot(&path);
        shifts::set_realtime_ms(2 * HOUR);
        shifts::set_boottime_ms(-HOUR);
        let reader = Hold::options().read_only(true).open(&path).unwrap();
        assert!(!has(&reader, "an hour") && has(&reader, "a day"));
        shifts::set_realtime_ms(YEAR);
        assert!(has(&reader, "a day"), "a jump of real time means nothing to it");
        shifts::set_realtime_ms(2 * HOUR);
        let hold = Hold::open(&path).unwrap();
        assert!(!has(&hold, "an hour") && has(&hold, "a day"));
        set(&hold, "an hour", HOUR);
        assert!(has(&reader, "an hour") && has(&reader, "a day"));
        shifts::set_boottime_ms(0);
        assert!(!has(&reader, "an hour") && has(&reader, "a day"));
    });
}

/// Without a boot id (a sandbox hides it) two boots look the same; the clock does not go back.
#[test]
fn a_boot_that_looks_like_the_one_before_does_not_set_the_clock_back() {
    let test_dir = TestDir::file();
    in_a_child(|| {
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        cache(&hold).set_with_ttl("a moment", "value", MOMENT).unwrap();
        until("it has expired", || !has(&hold, "a moment"));
        hold.close().unwrap();
        shifts::set_boottime_ms(-HOUR);
        let hold = Hold::open(&path).unwrap();
        assert!(!has(&hold, "a moment"));
        set(&hold, "an hour", HOUR);
        assert!(has(&hold, "an hour"));
    });
}

/// A container may have a boot time of its own; a hold that it shares has one clock.
#[test]
fn time_namespaces_agree() {
    const CLONE_NEWTIME: i32 = 0x80;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    in_a_child(|| {
        let hold = Hold::create(&path).unwrap();
        set(&hold, "an hour", HOUR);
        let flags = CloneFlags::from_bits_retain(CLONE_NEWTIME);
        let both = CloneFlags::CLONE_NEWUSER.union(flags);
        let offsets = || std::fs::write("/proc/self/timens_offsets", format!("boottime {DAY} 0"));
        if (unshare(flags).is_err() && unshare(both).is_err()) || offsets().is_err() {
            return say_uncovered();
        }
        Child::run("in another time namespace", || {
            let other = Hold::open(&path).unwrap();
            assert!(has(&other, "an hour"));
            set(&other, "another", HOUR);
        })
        .finish();
        assert!(has(&hold, "an hour") && has(&hold, "another"));
        shifts::set_boottime_ms(HOUR);
        assert!(!has(&hold, "another"));
    });
}

/// Past the test harness, which shows nothing of a test that passes.
fn say_uncovered() {
    use std::io::Write;
    let told = b"NOT COVERED HERE: a time namespace cannot be made\n";
    std::io::stderr().write_all(told).unwrap();
}

/// The next frame of the map's stream says when its pair expires.
fn told(follower: &mut Follower) -> u64 {
    follower.recv_timeout(PATIENCE).unwrap().expect("a frame").expires_ms
}

/// What leaves the hold says real time, as the system shows it then.
#[test]
fn a_stream_has_real_times() {
    let test_dir = TestDir::memory();
    in_a_child(|| {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = cache(&hold);
        hold.maps().begin_stream("cache", 1 << 20).unwrap();
        let mut follower = map.follow().unwrap();
        for shift in [0, YEAR, -YEAR] {
            shifts::set_realtime_ms(shift);
            let real = || {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                since.as_millis() as i64 + shift
            };
            let before = real();
            set(&hold, "an hour", HOUR);
            let expires = told(&mut follower) as i64;
            let expected = before + HOUR - 5..=real() + HOUR + 5;
            assert!(expected.contains(&expires), "{expires} is not in {expected:?}");
            map.set("for ever", "value").unwrap();
            assert_eq!(told(&mut follower), 0);
        }
    });
}

/// A backup is read by another hold, perhaps on a machine with another clock.
#[test]
fn a_backup_keeps_what_a_pair_has_left() {
    let test_dir = TestDir::memory();
    for (made, restored, hour) in [
        (0, 0, true),
        // The clock of the hold and real time have parted before.
        (YEAR, YEAR, true),
        (0, 2 * HOUR, false),
        // It says that it is read before it was made.
        (YEAR, 0, true),
    ] {
        in_a_child(|| {
            let (path, backup) = (test_dir.path("it.hold"), test_dir.path("backup"));
            let hold = Hold::create(&path).unwrap();
            set(&hold, "an hour", HOUR);
            set(&hold, "a day", DAY);
            shifts::set_realtime_ms(made);
            hold.backup(&backup).unwrap();
            shifts::set_realtime_ms(restored);
            let report = commonhold::hold::restore(&backup, test_dir.path("copy.hold")).unwrap();
            assert_eq!(report.pairs, 1 + u64::from(hour), "{made} {restored}");
            let copy = Hold::open(test_dir.path("copy.hold")).unwrap();
            assert!(has(&copy, "an hour") == hour && has(&copy, "a day"), "{made} {restored}");
            shifts::set_boottime_ms(HOUR);
            assert!(!has(&copy, "an hour") && has(&copy, "a day"), "{made} {restored}");
            shifts::set_boottime_ms(DAY);
            assert!(!has(&copy, "a day"), "{made} {restored}");
            for file in [path, backup, test_dir.path("copy.hold")] {
                std::fs::remove_file(file).unwrap();
            }
        });
    }
}

/// What is salvaged keeps what it had left, too.
#[test]
fn salvage_keeps_what_a_pair_has_left() {
    let test_dir = TestDir::file();
    in_a_child(|| {
        let path = test_dir.path("it.hold");
        let victim = || {
            let hold = Hold::create(&path).unwrap();
            set(&hold, "an hour", HOUR);
            set(&hold, "a day", DAY);
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
        };
        Child::run("victim", victim).wait();
        reboot(&path);
        shifts::set_realtime_ms(2 * HOUR);
        shifts::set_boottime_ms(-HOUR);
        let report = commonhold::hold::salvage(&path).unwrap();
        assert_eq!(report.kept, 1, "{report:?}");
        let hold = Hold::open(&path).unwrap();
        assert!(!has(&hold, "an hour") && has(&hold, "a day"));
        shifts::set_boottime_ms(23 * HOUR);
        assert!(!has(&hold, "a day"));
    });
}
