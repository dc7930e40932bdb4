//! The first 512 bytes: the identity of the file, and whether it was closed cleanly.
//!
//! The rest of the first page belongs to the layers below: growth at 512 (`memory::extents`), the
//! table of maps at 1024 (`map::layout::root`), the hold's clock at 1792 (`sync::hold_clock`), the
//! table of participants at 2048 (`sync::participant`), and a word that is always zero at 4032
//! (`sync::space`).

use crate::error::{Error, ErrorKind, Result};
use crate::os::location::{self, BootId};
use crate::sync::space::{Shared, Space};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// "COMMHOLD", little-endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"COMMHOLD");
/// The format this version reads and writes.
pub const FORMAT: u32 = 8;
/// Flag: delete the file when its last user ends.
pub(crate) const DELETE_ON_LAST_EXIT: u32 = 1;

/// Identity and state of the file.
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: AtomicU64,
    pub(crate) format: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) uuid: [AtomicU64; 2],
    /// The inode at creation: a copy made with `cp` has another.
    pub(crate) inode: AtomicU64,
    /// The boot during which the file was last opened for writing.
    pub(crate) boot: [AtomicU64; 2],
    /// 1 if the file was closed cleanly and everything reached the disk; see
    /// [`clean`](super::clean).
    pub(crate) clean: AtomicU32,
    /// 1 for a file hold (records carry checksums), 0 for a memory hold.
    pub(crate) on_disk: AtomicU32,
    /// Syncs of this page alone whose outcome is unknown; see [`clean`](super::clean).
    pub(crate) page_syncs: AtomicU64,
}

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Superblock {}

const _: () = assert!(size_of::<Superblock>() == 72);

/// Offset of [`Superblock::clean`] in the file.
pub(crate) const CLEAN_OFFSET: u64 = std::mem::offset_of!(Superblock, clean) as u64;

pub(crate) fn superblock(space: &Space) -> &Superblock {
    space.view(0)
}

fn this_boot() -> Result<BootId> {
    location::boot_id().map_err(|e| Error::os("/proc/sys/kernel/random/boot_id", &e))
}

/// Two words from 16 bytes.
fn words(bytes: [u8; 16]) -> [u64; 2] {
    let value = u128::from_le_bytes(bytes);
    [value as u64, (value >> 64) as u64]
}

impl Superblock {
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let [low, high] = [0, 1].map(|at| u128::from(self.uuid[at].load(Ordering::Relaxed)));
        (low | high << 64).to_le_bytes()
    }

    /// Fills in everything but the magic, which commits a creation.
    pub(crate) fn fill(&self, inode: u64, in_memory: bool, flags: u32) -> Result<()> {
        let uuid = location::random_bytes::<16>().map_err(|e| Error::os("random uuid", &e))?;
        for (word, value) in self.uuid.iter().zip(words(uuid)) {
            word.store(value, Ordering::Relaxed);
        }
        self.format.store(FORMAT, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.on_disk.store(u32::from(!in_memory), Ordering::Relaxed);
        self.store_boot(this_boot()?);
        self.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// # Errors
    /// `Io` if the boot id cannot be read now.
    pub(crate) fn set_boot(&self) -> Result<()> {
        if !self.is_this_boot()? {
            self.store_boot(this_boot()?);
        }
        Ok(())
    }

    fn store_boot(&self, boot: BootId) {
        for (word, value) in self.boot.iter().zip(words(boot.id)) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// If the environment does not show the boot id, zeros count as this boot: they were stored in
    /// an environment that does not show it either.
    ///
    /// # Errors
    /// As [`Superblock::set_boot`].
    pub(crate) fn is_this_boot(&self) -> Result<bool> {
        let (boot, zeros) = (this_boot()?, [0; 2]);
        let stored = [0, 1].map(|at| self.boot[at].load(Ordering::Relaxed));
        Ok(stored == words(boot.id) || (!boot.is_shown && stored == zeros))
    }

    /// # Errors
    /// `NotAHold`, `Version`.
    pub(crate) fn check_identity(&self, path: &Path) -> Result<()> {
        let path = path.display();
        if self.magic.load(Ordering::Acquire) != MAGIC {
            let text = format!("{path}: not a hold (its header does not match); check the name");
            return Err(Error::new(ErrorKind::NotAHold, text));
        }
        let format = self.format.load(Ordering::Relaxed);
        if format != FORMAT {
            let way_out = match format < FORMAT {
                true => {
                    "run 'hold backup' with the version that wrote it, then 'hold restore' with \
                     this one"
                }
                false => "use the version that wrote it, or a newer one",
            };
            let text = format!(
                "{path}: has format {format}, but this version reads format {FORMAT}; {way_out}"
            );
            return Err(Error::new(ErrorKind::Version, text));
        }
        Ok(())
    }
}
