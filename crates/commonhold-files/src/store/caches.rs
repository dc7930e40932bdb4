//! The maps of a hold that are caches of files.
//!
//! Servers with different evictions or limits cannot share a map. So the map's name contains both:
//! each server finds its own, whichever others use the hold, and drops no map that another one
//! uses.

use super::EvictionKind;
use commonhold::{Hold, Result};

/// The prefix of all names, and the whole name in earlier versions.
const PREFIX: &str = ".files";
/// The suffix behind a map's name: the map with its bytes.
const BYTES_SUFFIX: &str = ".bytes";

/// The name of the map for contents with these choices.
#[must_use]
pub fn name_of(eviction: EvictionKind, cache_bytes: u64) -> String {
    format!("{PREFIX}.{eviction}.{cache_bytes}")
}

/// Whether a map of this name is such a cache, with any choices, or has its bytes.
#[must_use]
pub fn is_one(name: &str) -> bool {
    let choices = name.strip_suffix(BYTES_SUFFIX).unwrap_or(name).strip_prefix(PREFIX);
    let is_choices = |choices: &str| {
        let parts = choices.strip_prefix('.').and_then(|choices| choices.split_once('.'));
        parts.is_some_and(|(eviction, bytes)| {
            eviction.parse::<EvictionKind>().is_ok() && bytes.parse::<u64>().is_ok()
        })
    };
    choices.is_some_and(|choices| choices.is_empty() || is_choices(choices))
}

/// Drops caches of other choices than these, unless another process has the hold open: that process
/// may serve from them.
///
/// # Errors
/// Those of dropping maps.
pub fn drop_others(hold: &Hold, eviction: EvictionKind, cache_bytes: u64) -> Result<()> {
    let own = name_of(eviction, cache_bytes);
    let is_other =
        |name: &str| is_one(name) && name.strip_suffix(BYTES_SUFFIX).unwrap_or(name) != own;
    // Before the check for other processes: a map that one makes after it is not in this list.
    let mut others: Vec<_> = hold.maps().list_all()?.into_iter().map(|map| map.name).collect();
    others.retain(|name| is_other(name));
    if is_alone(hold)? {
        for name in others {
            hold.maps().drop(&name)?;
        }
    }
    Ok(())
}

/// Whether no other process has the hold open.
pub(super) fn is_alone(hold: &Hold) -> Result<bool> {
    let own = std::process::id();
    Ok(hold.participants()?.iter().all(|other| !other.alive || other.pid == own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold::map::MapOptions;

    #[test]
    fn caches_of_other_options_are_dropped_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let hold = Hold::create(dir.path().join("it.hold")).unwrap();
        let own = name_of(EvictionKind::Mutex, 7);
        let kept =
            [&own, ".files.mutex.7.bytes", ".files.mine.7", ".files.mutex", "files", ".filesystem"];
        let others = [".files", ".files.bytes", ".files.lockfree.7", ".files.mutex.8.bytes"];
        for name in kept.iter().chain(&others) {
            hold.maps().open_or_create(name, MapOptions::general()).unwrap();
        }
        drop_others(&hold, EvictionKind::Mutex, 7).unwrap();
        let mut left: Vec<_> =
            hold.maps().list_all().unwrap().into_iter().map(|map| map.name).collect();
        left.sort_unstable();
        let mut wanted = kept.to_vec();
        wanted.sort_unstable();
        assert_eq!(left, wanted);
    }
}
