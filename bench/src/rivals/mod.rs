//! The rivals, one file each, and the list of them.
//!
//! A system that has two fair settings appears twice, under two names: per operation and in
//! batches. The rounds and the worker call this module to find a rival by its name.

use anyhow::{Context, Result, bail};

use crate::{messages::Carrier, rival::Rival, served::Host, store::Keeper};

mod array_queue;
#[cfg(feature = "iceoryx2")]
mod blackboard;
mod bus;
mod commonhold;
mod commonhold_channel;
mod commonhold_log;
mod commonhold_newest;
mod commonhold_origin;
mod commonhold_queue;
mod commonhold_serve;
mod followers;
mod hashbrown;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
pub mod leash;
#[cfg(not(feature = "iceoryx2"))]
mod left_out;
mod lmdb;
mod memcached;
mod mmap_sync;
mod mutex_file;
mod nats;
mod nginx;
mod redb;
mod redis;
mod redis_replicas;
pub mod server;
mod socket;
mod spdlog;
mod stream;
mod sync_channel;
mod tracing_appender;

/// The name under which Commonhold's own results appear.
pub const OURS: &str = "commonhold";

static KEEPERS: [&dyn Keeper; 12] = [
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

static CARRIERS: &[&dyn Carrier] = &[
    &commonhold_channel::CommonholdChannel,
    &commonhold_queue::PROCESSES,
    &commonhold_queue::THREADS,
    &array_queue::Array,
    &sync_channel::ELEMENTS,
    &sync_channel::MESSAGES,
    #[cfg(feature = "iceoryx2")]
    &iceoryx::Iceoryx,
    #[cfg(not(feature = "iceoryx2"))]
    &left_out::ICEORYX2,
    &bus::Broadcast,
    &stream::SOCKET,
    &stream::PIPE,
    &commonhold_log::CommonholdLog,
    &spdlog::Spdlog,
    &tracing_appender::NonBlocking,
    &mutex_file::MutexFile,
    &commonhold_newest::FIXED,
    &commonhold_newest::GENERAL,
    &commonhold_newest::PAIR,
    #[cfg(feature = "iceoryx2")]
    &blackboard::Blackboard,
    #[cfg(not(feature = "iceoryx2"))]
    &left_out::BLACKBOARD,
    &mmap_sync::MmapSync,
    &commonhold_origin::CommonholdOrigin,
    &redis_replicas::Replicas,
    &nats::Nats,
];

static HOSTS: [&dyn Host; 2] = [&commonhold_serve::CommonholdServe, &nginx::Nginx];

/// The rivals that keep keys and values, Commonhold first.
pub fn keepers() -> &'static [&'static dyn Keeper] {
    &KEEPERS
}

/// The rivals that pass messages, Commonhold first in each workload.
pub fn carriers() -> &'static [&'static dyn Carrier] {
    CARRIERS
}

/// The rivals that serve files, Commonhold first.
pub fn hosts() -> &'static [&'static dyn Host] {
    &HOSTS
}

/// All rivals. Commonhold occurs several times, once for each of its structures.
pub fn all() -> impl Iterator<Item = &'static dyn Rival> {
    let keepers = KEEPERS.iter().map(|one| *one as &dyn Rival);
    let carriers = CARRIERS.iter().map(|one| *one as &dyn Rival);
    keepers.chain(carriers).chain(HOSTS.iter().map(|one| *one as &dyn Rival))
}

/// The keeper of that name.
///
/// # Errors
/// If there is none; the message lists all rivals.
pub fn keeper(name: &str) -> Result<&'static dyn Keeper> {
    KEEPERS.iter().copied().find(|rival| rival.name() == name).with_context(|| unknown(name))
}

/// The carrier of that name in that workload.
///
/// # Errors
/// If there is none; the message lists all rivals.
pub fn carrier(name: &str, workload: &str) -> Result<&'static dyn Carrier> {
    let mut carriers = CARRIERS.iter().copied();
    carriers
        .find(|rival| rival.name() == name && rival.plays(workload))
        .with_context(|| unknown(name))
}

/// The host of that name.
///
/// # Errors
/// If there is none; the message lists all rivals.
pub fn host(name: &str) -> Result<&'static dyn Host> {
    HOSTS.iter().copied().find(|rival| rival.name() == name).with_context(|| unknown(name))
}

/// The message for a name that no rival has.
pub fn unknown(name: &str) -> String {
    let mut names: Vec<_> = all().map(Rival::name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    format!("no rival is named {name:?}; there are {}", names.join(", "))
}

/// The version of a crate with which this benchmark was built, from its own lock file.
fn locked_version(name: &str) -> Result<String> {
    version_in(include_str!("../../Cargo.lock"), name)
}

fn version_in(lock: &str, name: &str) -> Result<String> {
    // A lock file may contain several versions of a crate. The benchmark requests the newest.
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
    fn names_are_unique_and_commonhold_is_first_in_every_workload() {
        for workload in crate::workloads::names() {
            let names = all().filter(|rival| rival.plays(workload)).map(Rival::name);
            let names: Vec<_> = names.collect();
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{workload}: {names:?}");
            assert_eq!(names[0], OURS, "{workload}");
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
        let message = keeper("nobody").err().expect("nobody is no rival").to_string();
        assert!(message.contains("redis pipeline 64"), "{message}");
    }
}
