//! Limits of the session (`ulimit`) and on mappings.

use super::finding::Finding;
use commonhold_terminal::sizes::{count, shown};
use rustix::process::{Resource, getrlimit};

/// The default maximum size of a hold, which it reserves as address space.
const RESERVATION: u64 = 64 << 30;
/// The most entries of the mapping table that one open hold takes.
const PER_HOLD: u64 = 5;

/// RLIMIT_FSIZE.
pub fn file_size() -> Finding {
    file_size_of(getrlimit(Resource::Fsize).current)
}

fn file_size_of(limit: Option<u64>) -> Finding {
    const NAME: &str = "ulimit -f";
    match limit {
        None => Finding::ok(NAME, "unlimited", "Holds may grow."),
        Some(bytes) => Finding::warn(
            NAME,
            shown(bytes),
            "No hold can grow beyond it: writers get a 'full' error although the disk has room.",
            "Raise it with 'ulimit -f unlimited', in limits.conf, or with LimitFSIZE= in the unit.",
        ),
    }
}

/// RLIMIT_AS.
pub fn address_space() -> Finding {
    address_space_of(getrlimit(Resource::As).current)
}

fn address_space_of(limit: Option<u64>) -> Finding {
    const NAME: &str = "ulimit -v";
    const ADVICE: &str = "Raise it with 'ulimit -v unlimited', or create holds with a smaller \
                          --max-bytes, which reserve less.";
    match limit {
        None => Finding::ok(NAME, "unlimited", "Holds reserve the address space that they need."),
        Some(bytes) if bytes > 2 * RESERVATION => Finding::ok(
            NAME,
            shown(bytes),
            "There is room for the reservations of some holds of the usual size (64 GiB each).",
        ),
        Some(bytes) => Finding::warn(
            NAME,
            shown(bytes),
            "Holds of the usual size reserve 64 GiB of address space (not of memory). Here they \
             reserve less, and report 'full' when it is used up.",
            ADVICE,
        ),
    }
}

/// vm.max_map_count.
pub fn mappings() -> Finding {
    const NAME: &str = "vm.max_map_count";
    const PATH: &str = "/proc/sys/vm/max_map_count";
    let Some(most) = std::fs::read_to_string(PATH).ok().and_then(|t| t.trim().parse().ok()) else {
        return Finding::ok(NAME, "unknown", "The kernel's own default is 65,530.");
    };
    let seen = format!("{}, about {} open holds per process", count(most), count(most / PER_HOLD));
    if most >= 10_000 {
        return Finding::ok(NAME, seen, "Each open hold takes three to five mappings.");
    }
    Finding::warn(
        NAME,
        seen,
        "Each open hold takes three to five mappings, and programs need many of their own.",
        "Raise it: sysctl vm.max_map_count=65530",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn limits_that_are_none_are_well() {
        assert_eq!(file_size_of(None).level, Level::Ok);
        assert_eq!(file_size_of(Some(1 << 20)).level, Level::Warn);
        assert_eq!(address_space_of(None).level, Level::Ok);
        assert_eq!(address_space_of(Some(1 << 40)).level, Level::Ok);
        assert_eq!(address_space_of(Some(8 << 30)).level, Level::Warn);
    }
}
