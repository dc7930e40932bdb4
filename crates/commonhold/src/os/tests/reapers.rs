//! The last user's exit deletes the hold, even when it was killed.

use super::super::byte_lock::{HeldBytes, LockKind, OPEN_BYTE};
use super::super::file::HoldFile;
use super::super::mapping::Mapping;
use super::super::reaper::{private_memory, spawn};
use super::*;

fn hold_open(file: &HoldFile) -> HeldBytes {
    HeldBytes::try_lock(file, &[(OPEN_BYTE, LockKind::Shared)]).unwrap().unwrap()
}

/// A child that has the hold open with a reaper, until killed.
fn user(path: &Path, stage: &Stage) -> Child {
    let child = Child::fork(|| {
        let file = open(path);
        let _held = hold_open(&file);
        let mapping = Mapping::reserve(&file, 1 << 30, 1 << 20, true).unwrap();
        let heap = vec![1u8; 64 << 20];
        let ranges = [(mapping.base().as_ptr() as usize, mapping.reserved() as usize)];
        spawn(path, file.dev(), file.ino(), &ranges).unwrap();
        stage.reach(u32::from(heap[heap.len() / 2]));
        sleep_for_ever()
    });
    stage.wait_for(1);
    child
}

/// The reapers that have the file open.
fn reapers(path: &Path) -> Vec<u32> {
    let of_this_file = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let link = std::fs::read_link(format!("/proc/{pid}/fd/0"));
        name == "hold-reaper\n" && link.is_ok_and(|link| link == path)
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(of_this_file).collect()
}

#[test]
fn the_hold_goes_when_its_last_user_is_killed() {
    let folder = Folder::new("reaper");
    let file = folder.hold("a.hold", 4096);
    let path = std::fs::canonicalize(file.path()).unwrap();
    let (first, second) = (Stage::new(), Stage::new());
    let users = [user(&path, &first), user(&path, &second)];
    eventually("two reapers wait", || reapers(&path).len() == 2);
    let held = hold_open(&file);
    users.into_iter().for_each(Child::kill);
    assert!(path.exists(), "somebody has it open");
    drop(held);
    eventually("the hold is deleted", || !path.exists());
    eventually("the reapers end", || reapers(&path).is_empty());
}

#[test]
fn a_file_that_took_the_name_is_left_alone() {
    let folder = Folder::new("took");
    let path = folder.hold("a.hold", 4096).path().canonicalize().unwrap();
    let child = user(&path, &Stage::new());
    eventually("the reaper waits", || reapers(&path).len() == 1);
    let moved = path.with_file_name("b.hold");
    std::fs::rename(&path, &moved).unwrap();
    std::fs::write(&path, b"another").unwrap();
    assert_eq!(reapers(&moved).len(), 1);
    child.kill();
    eventually("the reaper ends", || reapers(&moved).is_empty());
    assert!(path.exists() && moved.exists());
}

#[test]
fn a_reaper_keeps_nothing_of_its_parent() {
    let folder = Folder::new("keeps");
    let path = folder.hold("a.hold", 4096).path().canonicalize().unwrap();
    let child = user(&path, &Stage::new());
    eventually("the reaper waits", || reapers(&path).len() == 1);
    let own = PathBuf::from(format!("/proc/{}", reapers(&path)[0]));
    assert_eq!(std::fs::read_dir(own.join("fd")).unwrap().count(), 1);
    assert_eq!(std::fs::read_link(own.join("cwd")).unwrap(), Path::new("/"));
    let maps = std::fs::read_to_string(own.join("maps")).unwrap();
    assert!(!maps.contains("a.hold"), "{maps}");
    let status = std::fs::read_to_string(own.join("status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 32 << 10, "the parent's 64 MiB are still there: {kib} KiB");
    child.kill();
    eventually("the hold is deleted", || !path.exists());
}

#[test]
fn the_program_does_not_notice_its_reaper() {
    let folder = Folder::new("notice");
    let path = folder.hold("a.hold", 0).path().to_path_buf();
    let code = Child::fork(|| {
        // SAFETY: changes this child only: SIGCHLD stays pending if it comes.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
        let file = open(&path);
        let _held = hold_open(&file);
        spawn(&path, file.dev(), file.ino(), &[]).unwrap();
        // SAFETY: the sets are ours, and no status is requested.
        unsafe {
            let mut pending = std::mem::zeroed();
            libc::sigpending(&mut pending);
            assert_eq!(libc::sigismember(&pending, libc::SIGCHLD), 0);
            let mut blocked = std::mem::zeroed();
            libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked);
            assert_eq!(libc::sigismember(&blocked, libc::SIGTERM), 0);
            assert_eq!(libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL), -1);
        }
        0
    });
    assert_eq!(code.join(), 0);
    eventually("the hold is deleted", || !path.exists());
}

#[test]
fn only_private_memory_is_dropped() {
    let maps = "\
55d0a0000000-55d0a0200000 rw-p 00000000 fe:01 1234    /usr/bin/program
55d0a1000000-55d0a1021000 rw-p 00000000 00:00 0       [heap]
7f0000000000-7f0004000000 rw-p 00000000 00:00 0
7f0005000000-7f0005001000 rw-p 00000000 00:00 0
7f0006000000-7f0007000000 r--p 00000000 00:00 0
7f0008000000-7f0009000000 rw-s 00000000 00:01 77      /dev/zero (deleted)
7ffc00000000-7ffc00200000 rw-p 00000000 00:00 0       [stack]
";
    let expected = [(0x55d0a1000000, 0x55d0a1021000), (0x7f0000000000, 0x7f0004000000)];
    assert_eq!(private_memory(maps), expected);
}
