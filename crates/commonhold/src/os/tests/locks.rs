//! A byte lock lasts exactly as long as its process.

use super::super::byte_lock::*;
use super::super::file::HoldFile;
use super::*;
use std::sync::atomic::AtomicBool;

const ALIVE: &[(u64, LockKind)] =
    &[(OPEN_BYTE, LockKind::Shared), (OPEN_BYTE + 4, LockKind::Exclusive)];

fn take(file: &HoldFile) -> HeldBytes {
    HeldBytes::try_lock(file, ALIVE).unwrap().expect("nobody else has it")
}

fn alive(file: &HoldFile) -> bool {
    is_locked(file, participant_byte(3)).unwrap()
}

#[test]
fn the_bytes_of_participants_follow_the_open_byte() {
    assert_eq!(participant_byte(3), OPEN_BYTE + 4);
    assert!(participant_byte(u32::MAX) < i64::MAX as u64);
}

#[test]
fn a_process_sees_its_own_locks_and_those_alone() {
    let folder = Folder::new("own");
    let file = folder.hold("a.hold", 0);
    assert!(!alive(&file) && !in_use(&file).unwrap());
    let held = take(&file);
    assert!(alive(&file) && in_use(&file).unwrap());
    assert!(!is_locked(&file, participant_byte(2)).unwrap());
    // A shared lock does not show as exclusive.
    assert!(!is_locked(&file, OPEN_BYTE).unwrap());
    drop(held);
    assert!(!alive(&file) && !in_use(&file).unwrap());
}

#[test]
fn all_bytes_are_locked_or_none() {
    let folder = Folder::new("all");
    let file = folder.hold("a.hold", 0);
    let _first = take(&file);
    let wanted = [(participant_byte(9), LockKind::Exclusive), (OPEN_BYTE, LockKind::Exclusive)];
    assert!(HeldBytes::try_lock(&file, &wanted).unwrap().is_none());
    assert!(!is_locked(&file, participant_byte(9)).unwrap());
    let second = [(OPEN_BYTE, LockKind::Shared), (participant_byte(9), LockKind::Exclusive)];
    assert!(HeldBytes::try_lock(&file, &second).unwrap().is_some());
}

#[test]
fn a_read_only_file_takes_shared_locks_only() {
    let folder = Folder::new("read-only");
    let path = folder.hold("a.hold", 0).path().to_path_buf();
    let file = HoldFile::new(open_existing(&path, false).unwrap(), path.clone(), false).unwrap();
    let error = HeldBytes::try_lock(&file, ALIVE).err().expect("needs write access");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    let reader = HeldBytes::try_lock(&file, &[(OPEN_BYTE, LockKind::Shared)]).unwrap();
    assert!(reader.is_some() && in_use(&file).unwrap());
    let writer = open(&path);
    let _held = take(&writer);
    assert!(alive(&file), "a reader may ask about exclusive locks too");
}

#[test]
fn closing_every_descriptor_keeps_the_lock_and_death_drops_it() {
    let folder = Folder::new("close");
    let file = folder.hold("a.hold", 4096);
    let stage = Stage::new();
    let child = Child::fork(|| {
        let own = open(file.path());
        let _held = take(&own);
        // SAFETY: this child needs none of its descriptors.
        assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) }, 0);
        // Another file under the old number: no query may go to that one. SAFETY: as above.
        while unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } < 40 {}
        assert!(alive(&own));
        assert_eq!(own.len().unwrap(), 4096);
        stage.reach(1);
        sleep_for_ever()
    });
    stage.wait_for(1);
    assert!(alive(&file) && in_use(&file).unwrap());
    child.kill();
    eventually("the dead one's locks are dropped", || !alive(&file) && !in_use(&file).unwrap());
}

#[test]
fn a_forked_child_neither_has_nor_keeps_the_lock() {
    let folder = Folder::new("fork");
    let file = folder.hold("a.hold", 0);
    let held = take(&file);
    let stage = Stage::new();
    let child = Child::fork(|| {
        stage.reach(1);
        sleep_for_ever()
    });
    stage.wait_for(1);
    drop(held);
    assert!(!alive(&file) && !in_use(&file).unwrap());
    child.kill();
}

#[test]
fn the_child_of_a_killed_process_does_not_keep_its_lock() {
    let folder = Folder::new("orphan");
    let file = folder.hold("a.hold", 0);
    let (stage, end) = (Stage::new(), Stage::new());
    let child = Child::fork(|| {
        let _held = take(&open(file.path()));
        // SAFETY: a fork without atfork handlers; the child of it makes only system calls.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if pid == 0 {
            end.wait_for(1);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        stage.reach(1);
        sleep_for_ever()
    });
    stage.wait_for(1);
    assert!(alive(&file));
    child.kill();
    eventually("the dead one's locks are dropped", || !alive(&file) && !in_use(&file).unwrap());
    end.reach(1);
}

#[test]
fn dropping_an_inherited_lock_unmaps_nothing() {
    let folder = Folder::new("inherited");
    let file = folder.hold("a.hold", 0);
    let held = take(&file);
    let code = Child::fork(|| {
        // Fill the hole that the page left, wherever it is.
        let pages: Vec<_> = (0..64).map(|_| Stage::new()).collect();
        // SAFETY: a copy for this child to drop; the parent drops its own.
        drop(unsafe { std::ptr::read(&held) });
        pages.iter().for_each(|page| page.reach(1));
        i32::from(!alive(&file))
    });
    assert_eq!(code.join(), 0, "and the parent has the lock still");
}

/// Without the fork lock of `without_fork`, a child forked while a lock's description still has its
/// descriptor keeps that lock for as long as it lives.
#[test]
fn forking_in_another_thread_never_copies_a_lock() {
    let folder = Folder::new("storm");
    let file = folder.hold("a.hold", 0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut children = Vec::new();
            while !stop.load(Ordering::Relaxed) && children.len() < 300 {
                children.push(Child::fork(|| sleep_for_ever()));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut kept = 0;
        while !stop.load(Ordering::Relaxed) {
            // A lock that a child has copied would conflict here, or show afterwards.
            match HeldBytes::try_lock(&file, ALIVE).unwrap() {
                Some(held) => drop(held),
                None => kept += 1,
            }
            kept += u32::from(alive(&file));
            if kept > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        }
        assert_eq!(kept, 0, "a forked child keeps a lock of its parent");
    });
}
