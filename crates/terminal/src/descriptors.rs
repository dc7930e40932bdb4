//! The number of files and sockets that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors to `wanted`, or as far as allowed; returns the new limit.
pub fn allow(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    if limit.current.is_some_and(|current| current < most) {
        // If this fails, opening beyond the limit fails or waits, and the caller reports it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
