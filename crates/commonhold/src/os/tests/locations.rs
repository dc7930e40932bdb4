//! Names, existing files, drafts.

use super::super::draft::{self, Draft};
use super::super::location::*;
use super::*;
use crate::error::ErrorKind;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

fn entries(folder: &Folder) -> usize {
    std::fs::read_dir(&folder.0).unwrap().count()
}

#[test]
fn bare_names_live_in_the_directory_and_others_are_paths() {
    let directory = Some(Path::new("/some/where"));
    for (name, path) in [
        ("prices", "/some/where/prices.hold"),
        ("pri.ces", "/some/where/pri.ces.hold"),
        ("./prices", "./prices"),
        ("/a/b", "/a/b"),
        ("prices.hold", "prices.hold"),
    ] {
        assert_eq!(resolve(Path::new(name), directory).unwrap(), Path::new(path));
    }
    let long = "n".repeat(200);
    assert!(resolve(Path::new(&long), directory).is_ok());
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    assert!(resolve(Path::new(bytes), directory).is_ok());
}

#[test]
fn names_that_cannot_be_are_refused() {
    for name in ["", ".", "..", "a\0b", "a/\0", &"n".repeat(201)] {
        let error = resolve(Path::new(name), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}: {error}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let folder = Folder::new("kinds");
    let fifo = folder.path("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let socket = folder.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for writable in [false, true] {
        let kind = |path: &Path| open_existing(path, writable).unwrap_err().kind();
        assert_eq!(kind(&folder.0), io::ErrorKind::IsADirectory);
        assert_eq!(kind(&folder.path("absent")), io::ErrorKind::NotFound);
        for special in [&fifo, &socket, Path::new("/dev/null")] {
            assert_eq!(kind(special), io::ErrorKind::InvalidInput);
        }
    }
    folder.hold("a.hold", 1);
    assert_eq!(open_existing(&folder.path("a.hold"), true).unwrap().metadata().unwrap().len(), 1);
}

#[test]
fn file_systems_are_distinguished() {
    assert_eq!(classify(libc::TMPFS_MAGIC as u32), FileSystem::Memory);
    assert_eq!(classify(libc::EXT4_SUPER_MAGIC as u32), FileSystem::Disk);
    assert_eq!(classify(libc::BTRFS_SUPER_MAGIC as u32), FileSystem::Disk);
    for (number, name) in [
        (libc::NFS_SUPER_MAGIC, "NFS"),
        (libc::OVERLAYFS_SUPER_MAGIC, "overlayfs"),
        (libc::FUSE_SUPER_MAGIC, "FUSE"),
        (libc::SMB_SUPER_MAGIC, "SMB"),
        (libc::HUGETLBFS_MAGIC, "hugetlbfs"),
        (libc::MSDOS_SUPER_MAGIC, "FAT"),
        (libc::PROC_SUPER_MAGIC, "procfs"),
    ] {
        assert_eq!(classify(number as u32), FileSystem::Unsupported(name));
    }
    let procfs = Path::new("/proc/self/status");
    let file = open_existing(procfs, false).unwrap();
    let file = HoldFile::new(file, procfs.to_path_buf(), false).unwrap();
    assert_eq!(file_system(&file).unwrap(), FileSystem::Unsupported("procfs"));
}

#[test]
fn the_boot_has_an_identity_and_random_bytes_differ() {
    assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    assert!(boot_id().unwrap().is_shown);
    let id = parse_boot_id("01234567-89ab-cdef-0123-456789abcdef\n").unwrap();
    assert_eq!(id, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef].repeat(2)[..]);
    assert!(parse_boot_id("").is_none() && parse_boot_id(&"g".repeat(32)).is_none());
    assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
}

#[test]
fn a_draft_appears_complete_or_not_at_all() {
    let folder = Folder::new("draft");
    let path = folder.path("a.hold");
    for create in [draft::create, draft::create_named] {
        let abandoned = Draft::begin(&path, 0o600, create).unwrap();
        abandoned.file().set_len(10).unwrap();
        assert!(!path.exists());
        drop(abandoned);
        assert_eq!(entries(&folder), 0);

        let wanted = Draft::begin(&path, 0o600, create).unwrap();
        let late = Draft::begin(&path, 0o600, create).unwrap();
        wanted.file().set_len(10).unwrap();
        let file = wanted.file().try_clone().unwrap();
        wanted.commit().unwrap().sync().unwrap();
        assert_eq!(late.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((entries(&folder), file.metadata().unwrap().len()), (1, 10));
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_draft_has_exactly_the_mode_asked_for() {
    let folder = Folder::new("mode");
    let code = Child::fork(|| {
        // SAFETY: changes this child only.
        unsafe { libc::umask(0o777) };
        for mode in [0o600, 0o666, 0o640] {
            let path = folder.path("a.hold");
            Draft::new(&path, mode).unwrap().commit().unwrap().sync().unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode);
            std::fs::remove_file(folder.path("a.hold")).unwrap();
        }
        0
    });
    assert_eq!(code.join(), 0);
    let kind = |path: &Path, mode| Draft::new(path, mode).err().unwrap().kind();
    assert_eq!(kind(&folder.path("a.hold"), 0o440), io::ErrorKind::InvalidInput);
    assert_eq!(kind(&folder.path("a/"), 0o600), io::ErrorKind::InvalidInput);
    assert_eq!(kind(&folder.path("none/a"), 0o600), io::ErrorKind::NotFound);
}
