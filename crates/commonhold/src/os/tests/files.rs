//! The file and its mapping: descriptors that refer to other files, limits, a full file system.

use super::super::file::HoldFile;
use super::super::mapping::{Mapping, page_size};
use super::*;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

const MIB: u64 = 1 << 20;

/// Puts another file behind the descriptor's number.
fn lead_astray(file: &HoldFile) -> i32 {
    let fd = *file.fd().unwrap();
    // SAFETY: only the test's own descriptors are changed.
    unsafe {
        let other = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        assert_eq!(libc::dup2(other, fd), fd);
        libc::close(other);
    }
    fd
}

fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is ours.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

#[test]
fn a_stolen_number_is_noticed_and_left_alone() {
    let folder = Folder::new("astray");
    let code = Child::fork(|| {
        let file = folder.hold("a.hold", 100);
        let stolen = lead_astray(&file);
        assert_eq!(file.len().unwrap(), 100);
        assert_ne!(*file.fd().unwrap(), stolen);
        file.reopen().unwrap();
        let stolen_again = lead_astray(&file);
        drop(file);
        for fd in [stolen, stolen_again] {
            // SAFETY: only asks whether the number is open.
            assert!(unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0, "closed a foreign descriptor");
        }
        0
    });
    assert_eq!(code.join(), 0);
}

#[test]
fn a_name_that_leads_elsewhere_is_not_taken_for_the_file() {
    let folder = Folder::new("replaced");
    let code = Child::fork(|| {
        let file = folder.hold("a.hold", 100);
        std::fs::rename(file.path(), folder.path("b.hold")).unwrap();
        std::fs::write(file.path(), b"another").unwrap();
        assert_eq!(file.len().unwrap(), 100, "the descriptor suffices");
        file.reopen().unwrap();
        lead_astray(&file);
        let error = file.len().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("a.hold"), "{error}");
        0
    });
    assert_eq!(code.join(), 0);
}

#[test]
fn the_length_grows_and_links_are_counted() {
    let folder = Folder::new("length");
    let file = folder.hold("a.hold", 0);
    assert_eq!((file.len().unwrap(), file.links().unwrap()), (0, 1));
    file.allocate(0, MIB).unwrap();
    assert_eq!(file.len().unwrap(), MIB);
    file.set_len(3 * MIB).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.len().unwrap(), 3 * MIB);
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(file.links().unwrap(), 0);
    assert_eq!(file.allocate(u64::MAX, 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.set_len(u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
}

#[test]
fn the_file_size_limit_is_an_error_and_no_signal() {
    let folder = Folder::new("limit");
    let code = Child::fork(|| {
        let file = folder.hold("a.hold", 0);
        set_limit(libc::RLIMIT_FSIZE, MIB);
        for error in [file.set_len(MIB + 1), file.allocate(MIB / 2, MIB)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            assert!(error.to_string().contains("ulimit -f"), "{error}");
        }
        file.allocate(0, MIB).unwrap();
        0
    });
    assert_eq!(code.join(), 0);
}

#[test]
fn growth_shows_up_in_place() {
    let folder = Folder::new("growth");
    let file = folder.hold("a.hold", 0);
    let mapping = Mapping::reserve(&file, 1 << 36, MIB, true).unwrap();
    assert_eq!(mapping.base().as_ptr() as usize % (2 << 20), 0);
    assert_eq!(mapping.reserved(), 1 << 36);
    let other = open(file.path());
    other.set_len(3 * MIB).unwrap();
    let read_only = Mapping::reserve(&other, 1 << 36, MIB, false).unwrap();
    mapping.advise_huge(0);
    mapping.populate(MIB, 2 * MIB).unwrap();
    // SAFETY: the bytes were just populated, and only this test touches them.
    unsafe {
        mapping.base().add(2 * MIB as usize).write_volatile(7);
        assert_eq!(read_only.base().add(2 * MIB as usize).read_volatile(), 7);
    }
    mapping.sync(2 * MIB, 1).unwrap();
    assert_eq!(mapping.populate(1 << 36, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(mapping.sync(1, u64::MAX).unwrap_err().cause().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_reservation_shrinks_to_the_address_space_allowed() {
    let folder = Folder::new("space");
    let code = Child::fork(|| {
        let file = folder.hold("a.hold", 0);
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split_ascii_whitespace().next().unwrap().parse().unwrap();
        set_limit(libc::RLIMIT_AS, pages * page_size() as u64 + 1024 * MIB);
        let mapping = Mapping::reserve(&file, 64 << 30, 64 * MIB, true).unwrap();
        assert!((512 * MIB..1024 * MIB).contains(&mapping.reserved()), "{}", mapping.reserved());
        let error = Mapping::reserve(&file, 64 << 30, 1 << 30, true).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        0
    });
    assert_eq!(code.join(), 0);
}

/// Gives the calling process mounts of its own. An ordinary user becomes root in a user namespace
/// for that, if the system allows it.
fn own_mounts() -> bool {
    // SAFETY: the calls change this process only.
    let (mounts, user, group) =
        unsafe { (libc::unshare(libc::CLONE_NEWNS), libc::geteuid(), libc::getegid()) };
    // SAFETY: as above.
    mounts == 0
        || unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0
            && std::fs::write("/proc/self/setgroups", "deny").is_ok()
            && std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).is_ok()
            && std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).is_ok()
}

/// Mounts a tmpfs of 4 MiB on `folder`, for the calling process alone.
fn mount_tmpfs(folder: &Path) -> bool {
    let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
    let (fs, size, none) = (c"tmpfs".as_ptr(), c"size=4m".as_ptr(), std::ptr::null());
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings outlive the calls, and the mounts are this process's own.
    own_mounts()
        && unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) } == 0
        && unsafe { libc::mount(fs, path.as_ptr(), fs, 0, size.cast()) } == 0
}

#[test]
fn a_full_tmpfs_is_an_error_and_no_signal() {
    let folder = Folder::new("full");
    let code = Child::fork(|| {
        if !mount_tmpfs(&folder.0) {
            return CANNOT_TRY;
        }
        let file = folder.hold("a.hold", 16 * MIB);
        let mapping = Mapping::reserve(&file, 64 * MIB, MIB, true).unwrap();
        mapping.populate(0, MIB).unwrap();
        assert!(file.allocated_bytes().unwrap() >= MIB);
        for full in [mapping.populate(0, 16 * MIB), file.allocate(16 * MIB, 8 * MIB)] {
            assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
        }
        file.punch(0, 16 * MIB).unwrap();
        assert_eq!(file.allocated_bytes().unwrap(), 0);
        file.allocate(0, 2 * MIB).unwrap();
        mapping.populate(0, 2 * MIB).unwrap();
        0
    });
    match code.join() {
        CANNOT_TRY => eprintln!("NOT TRIED: a full tmpfs, because nothing can be mounted here"),
        code => assert_eq!(code, 0),
    }
}
