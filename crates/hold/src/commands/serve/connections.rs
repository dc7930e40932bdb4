//! The number of connections that a worker may have: those for which there are descriptors. Opening
//! a file takes one, too. If connections had them all, the worker could not answer any more; a
//! connection that is not accepted yet only waits.

use commonhold_files::MOST_OPEN;
use commonhold_terminal::descriptors;

/// Per connection: its own descriptor, and that of the file that is being sent.
const PER_CONNECTION: u64 = 2;
/// Besides those of connections, among them files that are kept open.
const OTHERS: u64 = 256 + MOST_OPEN as u64;
/// If the limit is too low even for those, connections get this fraction of it.
const LEAST_SHARE: u64 = 8;

/// Raises the limit of descriptors for `wanted` connections; returns for how many there are enough.
pub fn allow(wanted: u32) -> u32 {
    let limit = descriptors::allow(u64::from(wanted) * PER_CONNECTION + OTHERS);
    allowed(wanted, limit)
}

fn allowed(wanted: u32, limit: u64) -> u32 {
    let room = limit.saturating_sub(OTHERS) / PER_CONNECTION;
    let room = room.max(limit / LEAST_SHARE).max(1);
    wanted.min(u32::try_from(room).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_left_for_files() {
        assert_eq!(allowed(10_000, 1 << 20), 10_000);
        assert_eq!(allowed(10_000, u64::MAX), 10_000);
        assert_eq!(allowed(u32::MAX, u64::MAX), u32::MAX);
        assert_eq!(allowed(10_000, 20_000 + OTHERS), 10_000);
        assert_eq!(allowed(10_000, 19_998 + OTHERS), 9_999);
        assert_eq!(allowed(10_000, 1024), 128);
        assert_eq!(allowed(10, 1024), 10);
        assert_eq!(allowed(10, 0), 1);
    }
}
