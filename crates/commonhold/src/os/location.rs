//! Where a hold lives: from a name to a path, what the file system there supports, and opening
//! existing files.
//!
//! A bare name (`prices`) lives in the directory of bare names, as `prices.hold`. A name with a
//! slash, or one that ends in `.hold`, is a path. [`super::draft`] creates files.
//!
//! # Safety
//! Unsafe only for libc calls on structures and buffers of our own.
#![allow(unsafe_code)]

use super::file::{HoldFile, c_path, checked, open, status, uninterrupted};
use crate::error::{Error, ErrorKind, Result};
use crate::steps::{fault, shortened};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the directory of bare names.
const DIRECTORY_VARIABLE: &str = "COMMONHOLD_DIR";
/// The default directory of bare names: memory.
const MEMORY_DIRECTORY: &str = "/dev/shm";
/// The suffix of a hold's file name.
const SUFFIX: &str = ".hold";
/// The longest bare name, in bytes. Leaves room for the suffix and a draft's name.
const LONGEST_BARE_NAME: usize = 200;

/// The directory of bare names: `$COMMONHOLD_DIR` if it is set and not empty, else `/dev/shm`.
pub(crate) fn default_directory() -> PathBuf {
    let chosen = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    chosen.map_or_else(|| PathBuf::from(MEMORY_DIRECTORY), PathBuf::from)
}

/// The path of the hold called `name`. Bare names live in `directory`, or else in
/// [`default_directory`]. Accesses no file.
///
/// # Errors
/// `Invalid` for a name that is empty, `.`, `..`, too long or contains a NUL byte.
pub(crate) fn resolve(name: &Path, directory: Option<&Path>) -> Result<PathBuf> {
    let bytes = name.as_os_str().as_bytes();
    let invalid = |wrong: String| Error::new(ErrorKind::Invalid, wrong);
    if bytes.is_empty() {
        return Err(invalid("expected a name for the hold, got an empty one".into()));
    }
    if bytes.contains(&0) {
        return Err(invalid(format!("hold name {name:?} contains a NUL byte; leave it out")));
    }
    if bytes.contains(&b'/') || bytes.ends_with(SUFFIX.as_bytes()) {
        return Ok(name.to_path_buf());
    }
    if bytes == b"." || bytes == b".." {
        return Err(invalid(format!("hold name {name:?} is a directory; name a file in it")));
    }
    if bytes.len() > LONGEST_BARE_NAME {
        let length = bytes.len();
        return Err(invalid(format!(
            "hold name {name:?}: expected a bare name of at most {LONGEST_BARE_NAME} bytes, got \
             {length}; shorten it"
        )));
    }
    let mut file_name = OsString::from(name);
    file_name.push(SUFFIX);
    let directory = directory.map_or_else(default_directory, Path::to_path_buf);
    Ok(directory.join(file_name))
}

/// Opens an existing file for use as a hold. Never creates one, and never waits for the other end
/// of a FIFO.
///
/// # Errors
/// Anything but a regular file is refused: `IsADirectory`, or `InvalidInput` naming its type.
pub(crate) fn open_existing(path: &Path, writable: bool) -> io::Result<File> {
    let file = match open(&c_path(path)?, writable) {
        Ok(descriptor) => File::from(descriptor),
        // The answer of a socket, and of a device without a driver.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            return Err(not_regular("a socket or device"));
        }
        Err(error) => return Err(error),
    };
    let kind = match status(file.as_raw_fd())?.st_mode & libc::S_IFMT {
        libc::S_IFREG => None,
        libc::S_IFDIR => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
        libc::S_IFIFO => Some("a FIFO"),
        libc::S_IFCHR | libc::S_IFBLK => Some("a device"),
        _ => Some("something special"),
    };
    if let Some(kind) = kind {
        return Err(not_regular(kind));
    }
    // O_NONBLOCK was only for opening. SAFETY: no memory is passed.
    let flags = checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no memory is passed.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })?;
    Ok(file)
}

fn not_regular(kind: &str) -> io::Error {
    let text = format!("expected a regular file, got {kind}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The kind of file system that a hold lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// The contents are lost after a restart of the system.
    Memory,
    /// The contents are on a disk.
    Disk,
    /// The file system does not support holds: memory would not be shared, or locks, links or
    /// allocation do not work. The text names it.
    Unsupported(&'static str),
}

/// The `statfs` numbers of file systems that do not support holds.
const UNSUPPORTED: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0xaad7_aaea, "PanFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x6573_5546, "FUSE"),
    (0x794c_7630, "overlayfs"),
    (0x6175_6673, "aufs"),
    (0xf15f, "eCryptfs"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0xbacb_acbc, "a VMware shared folder"),
    (0x9584_58f6, "hugetlbfs"),
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "EROFS"),
    (0x9660, "ISO 9660"),
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
];

/// `statfs` numbers of file systems in memory: tmpfs and ramfs.
const MEMORY: &[u32] = &[0x0102_1994, 0x8584_58f6];

/// The file system of the file. Unknown file systems are taken for local disks.
pub(crate) fn file_system(file: &HoldFile) -> io::Result<FileSystem> {
    let fd = file.fd()?;
    let mut status = MaybeUninit::<libc::statfs>::uninit();
    uninterrupted(|| {
        fault!("os.statfs")?;
        // SAFETY: the buffer is ours and as large as the call expects.
        checked(unsafe { libc::fstatfs(*fd, status.as_mut_ptr()) })
    })?;
    // SAFETY: the call succeeded, so it has filled the buffer.
    let number = unsafe { status.assume_init() }.f_type as u32;
    Ok(classify(number))
}

/// The kind of file system with this `statfs` number.
pub(super) fn classify(number: u32) -> FileSystem {
    if MEMORY.contains(&number) {
        return FileSystem::Memory;
    }
    match UNSUPPORTED.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => FileSystem::Unsupported(name),
        None => FileSystem::Disk,
    }
}

/// The identity of this boot of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootId {
    /// The id that the environment shows. If it shows none, this is the id that this process has
    /// read before (a child may have given up its right to read it), or else zeros.
    pub(crate) id: [u8; 16],
    /// False if the environment does not show it.
    pub(crate) is_shown: bool,
}

/// # Errors
/// A temporary failure (no descriptors, no memory) is an error. If it counted as an environment
/// that does not show the id, a cleanly closed hold would look like one of another boot.
pub(crate) fn boot_id() -> io::Result<BootId> {
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let shown = match fault!("os.boot-id").and_then(|()| read()) {
        Ok(text) => parse_boot_id(&text),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => None,
            _ => return Err(error),
        },
    };
    shown.inspect(remember_boot_id);
    Ok(BootId { id: shown.unwrap_or_else(last_boot_id), is_shown: shown.is_some() })
}

/// The boot id that this process has read last. No lock protects it, because a thread may fork
/// while another one holds the lock.
static LAST_BOOT_ID: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn remember_boot_id(id: &[u8; 16]) {
    let number = u128::from_le_bytes(*id);
    LAST_BOOT_ID[0].store(number as u64, Ordering::Relaxed);
    // Release: whoever sees this half sees the other. Neither is ever zero.
    LAST_BOOT_ID[1].store((number >> 64) as u64, Ordering::Release);
}

fn last_boot_id() -> [u8; 16] {
    match LAST_BOOT_ID[1].load(Ordering::Acquire) {
        0 => [0; 16],
        high => {
            let low = LAST_BOOT_ID[0].load(Ordering::Relaxed);
            (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
        }
    }
}

/// Reads 32 hexadecimal digits, with hyphens anywhere between them.
pub(super) fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim_end().bytes().filter(|byte| *byte != b'-');
    let digits = digits.map(|digit| char::from(digit).to_digit(16)).collect::<Option<Vec<_>>>()?;
    let mut id = [0; 16];
    if digits.len() != 2 * id.len() {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    Some(id)
}

/// Random bytes from the kernel, fit for secrets.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut bytes[filled..];
        let len = shortened!("os.random-bytes", rest.len());
        filled += uninterrupted(|| {
            fault!("os.random")?;
            // SAFETY: the buffer is ours, and has at least as many bytes as are asked for.
            checked(unsafe { libc::getrandom(rest.as_mut_ptr().cast(), len, 0) } as libc::c_int)
        })? as usize;
    }
    Ok(bytes)
}
