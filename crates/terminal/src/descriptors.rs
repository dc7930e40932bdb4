//! How many files and sockets this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have so many descriptors, or as many as it may have; how many it may have open
/// from now on.
pub fn allow(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    if limit.current.is_some_and(|current| current < most) {
        // If it cannot be, what is beyond the limit fails or waits, and whoever opens it says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
