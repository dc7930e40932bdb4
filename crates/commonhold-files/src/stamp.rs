//! The version of a file: the facts of a file system that change when a file's contents do.
//!
//! Two versions of the same length that are written within one tick of the file system's clock have
//! the same stamp. So a file that changed just now is not kept ([`Stamp::is_stable`]): it is read
//! again until it has been quiet for a moment. Some file systems have times of whole seconds only,
//! FAT of two; there a moment is longer.

use commonhold::fault;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_seeded};
use rustix::fs::Stat;
use std::io;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Much more than ten milliseconds, the coarsest clock tick from which a file system takes
/// fractions of a second.
const QUIET_NS: i128 = 100_000_000;
/// The tick of FAT, which is the longest of all, plus the constant above.
const QUIET_COARSE_NS: i128 = 2 * SECOND_NS + QUIET_NS;
const SECOND_NS: i128 = 1_000_000_000;

/// A version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device and inode, mixed; of a database the row.
    pub file: u64,
    /// The length in bytes.
    pub len: u64,
    /// When the contents last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When anything about it last changed, which no program can set.
    pub changed_ns: i128,
}

impl Stamp {
    /// The stamp of a file.
    pub(crate) fn of(stat: &Stat) -> Stamp {
        let ns = |seconds: i64, ns: u64| i128::from(seconds) * SECOND_NS + i128::from(ns);
        Stamp {
            file: mixed_numbers(&[stat.st_dev, stat.st_ino]),
            len: stat.st_size as u64,
            modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The present stamp of an open file.
    pub(crate) fn of_open(file: impl AsFd) -> io::Result<Stamp> {
        fault!("files.fstat-open")?;
        Ok(Stamp::of(&rustix::fs::fstat(file)?))
    }

    /// Whether a version of the same file has the same contents. Other changes do not count: a file
    /// that is renamed, or whose name goes to another file, keeps its contents.
    pub(crate) fn has_contents_of(&self, other: &Stamp) -> bool {
        (self.len, self.modified_ns) == (other.len, other.modified_ns)
    }

    /// When the contents last changed.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        let since = u64::try_from(self.modified_ns.max(0)).unwrap_or(u64::MAX);
        UNIX_EPOCH + std::time::Duration::from_nanos(since)
    }

    /// The stamp as one number.
    pub(crate) fn to_bits(self) -> u64 {
        // The times of a file fit into 64 bits until the year 2554.
        mixed_numbers(&[self.file, self.len, self.modified_ns as u64, self.changed_ns as u64])
    }

    /// Whether another change would have another stamp.
    pub(crate) fn is_stable(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i128);
        self.is_stable_at(now)
    }

    fn is_stable_at(&self, now_ns: i128) -> bool {
        let is_coarse = [self.changed_ns, self.modified_ns].iter().all(|ns| ns % SECOND_NS == 0);
        now_ns - self.changed_ns > if is_coarse { QUIET_COARSE_NS } else { QUIET_NS }
    }
}

/// A number for some bytes, the same in all processes.
pub(crate) fn mixed(bytes: &[u8]) -> u64 {
    rapidhash_v3_seeded(bytes, &DEFAULT_RAPID_SECRETS)
}

/// A number for some numbers.
pub(crate) fn mixed_numbers<const N: usize>(numbers: &[u64; N]) -> u64 {
    mixed(numbers.map(u64::to_le_bytes).as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_stable(modified_ns: i128, changed_ns: i128, after_ns: i128) -> bool {
        let stamp = Stamp { file: 1, len: 1, modified_ns, changed_ns };
        stamp.is_stable_at(changed_ns + after_ns)
    }

    #[test]
    fn a_recently_changed_file_may_change_unseen() {
        let at = 1_700_000_000 * SECOND_NS + 1;
        assert!(!is_stable(at, at, 0) && !is_stable(at, at, QUIET_NS));
        assert!(is_stable(at, at, QUIET_NS + 1));
        assert!(!is_stable(at, at, -SECOND_NS), "the clock was set back, or is another's");
    }

    #[test]
    fn just_now_is_longer_where_times_are_whole_seconds() {
        let at = 1_700_000_000 * SECOND_NS;
        assert!(!is_stable(at, at, QUIET_NS + 1) && !is_stable(at, at, 2 * SECOND_NS));
        assert!(is_stable(at, at, QUIET_COARSE_NS + 1));
        // A time of modification can be set to anything.
        assert!(is_stable(0, at + 1, QUIET_NS + 1));
        assert!(!is_stable(0, at, QUIET_NS + 1));
    }

    #[test]
    fn contents_are_the_same_whatever_the_file_is_called() {
        let stamp = Stamp { file: 1, len: 1, modified_ns: 1, changed_ns: 1 };
        assert!(Stamp { changed_ns: 2, ..stamp }.has_contents_of(&stamp));
        assert!(!Stamp { modified_ns: 2, ..stamp }.has_contents_of(&stamp));
        assert!(!Stamp { len: 2, ..stamp }.has_contents_of(&stamp));
    }
}
