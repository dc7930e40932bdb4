//! The rivals, one file each, and the list of them.
//!
//! A system that has two honest settings appears twice, under two names: per operation and in
//! batches. Called by the rounds and the worker, which find a rival by its name.

use anyhow::{Result, bail};

use crate::store::Rival;

mod commonhold;
mod hashbrown;
mod lmdb;
mod memcached;
mod redb;
mod redis;
pub mod server;
mod socket;

/// The name under which Commonhold's own results appear.
pub const OURS: &str = "commonhold";

static ALL: [&dyn Rival; 12] = [
    &commonhold::Commonhold,
    &hashbrown::PLAIN,
    &hashbrown::RW_LOCK,
    &hashbrown::MUTEX,
    &lmdb::PER_OPERATION,
    &lmdb::BATCHED,
    &redb::PER_OPERATION,
    &redb::BATCHED,
    &redis::PER_OPERATION,
    &redis::PIPELINED,
    &memcached::PER_OPERATION,
    &memcached::PIPELINED,
];

/// All of them, Commonhold first.
pub fn all() -> &'static [&'static dyn Rival] {
    &ALL
}

/// The one of that name.
///
/// # Errors
/// If there is none; the message lists those that there are.
pub fn named(name: &str) -> Result<&'static dyn Rival> {
    match ALL.iter().find(|rival| rival.name() == name) {
        Some(rival) => Ok(*rival),
        None => {
            let names: Vec<_> = ALL.iter().map(|rival| rival.name()).collect();
            bail!("no rival is named {name:?}; there are {}", names.join(", "))
        }
    }
}

/// The version of a crate this benchmark was built with, from its own lock file.
fn locked_version(name: &str) -> Result<String> {
    version_in(include_str!("../../Cargo.lock"), name)
}

fn version_in(lock: &str, name: &str) -> Result<String> {
    // A lock file may hold several versions of a crate; ours is the newest, as we ask for it.
    let entry = format!("name = \"{name}\"\nversion = \"");
    let versions = lock.match_indices(&entry).filter_map(|(at, found)| {
        let rest = &lock[at + found.len()..];
        rest.split_once('"').map(|(version, _)| version)
    });
    let order = |version: &&str| -> Vec<u64> {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    match versions.max_by_key(order) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("Cargo.lock names no crate {name}: it does not belong to this build"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for rival in all() {
            let same = all().iter().filter(|other| other.name() == rival.name());
            assert_eq!(same.count(), 1, "{}", rival.name());
        }
    }

    #[test]
    fn the_newest_version_in_a_lock_file_counts() {
        let lock = "name = \"a\"\nversion = \"0.9.0\"\n\nname = \"a\"\nversion = \"0.17.1\"\n";
        assert_eq!(version_in(lock, "a").unwrap(), "0.17.1");
        assert!(version_in(lock, "b").is_err());
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = named("nobody").err().expect("nobody is no rival").to_string();
        assert!(message.contains("redis pipeline 64"), "{message}");
    }
}
