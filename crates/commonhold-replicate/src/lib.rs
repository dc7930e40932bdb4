//! Copies of [`commonhold`]'s maps on other machines, and journals on disk.
//!
//! An [`Origin`] serves the changes of a map to any number of replicas. A [`Replica`] applies them
//! to a copy of the map, which processes on its machine read at memory speed. A replica that itself
//! serves replicas is a relay. A [`journal::Journal`] writes the same changes to a file, from which
//! the map can be rebuilt after a system crash.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-replicate-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let (one, other) = (dir.join("one.hold"), dir.join("other.hold"));
//! use commonhold::{Hold, map::MapOptions};
//! use commonhold_replicate::{Address, Origin, OriginOptions, Replica, ReplicaOptions};
//! use std::time::Duration;
//!
//! let shop = Hold::open_or_create(&one)?;
//! let prices = shop.maps().open_or_create("prices", MapOptions::general())?;
//! prices.set("apple", "3")?;
//! let origin = Origin::start(&shop, "prices", OriginOptions::default())?;
//! let address = origin.listen(&Address::Unix(dir.join("socket")))?;
//!
//! // Elsewhere:
//! let copy = Hold::open_or_create(&other)?;
//! let replica = Replica::connect(&copy, "prices", &address, ReplicaOptions::default(), ())?;
//! assert!(replica.wait_ready(Duration::from_secs(10)));
//! let prices = copy.maps().open("prices")?;
//! assert_eq!(prices.get("apple")?.as_deref(), Some(&b"3"[..]));
//! # drop((replica, origin, prices, shop, copy));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `origin` | the writable side: its options, its threads, one session for each replica |
//! | `replica` | the reading side: its options, its thread, one connection, applying changes |
//! | `holds` | all maps of a hold: one process serves, follows or records them |
//! | `delivery` | the bytes for one replica or one journal: a full sync, then the stream |
//! | `filter` | the changes of a stream to the keys of one prefix |
//! | `growing_pause` | the pauses between attempts that fail |
//! | `compression` | whether a connection compresses the pairs of a full sync |
//! | `lineage` | where a map comes from, kept in its hold |
//! | `origin_clock` | the clock by which the pairs of a replicated cache expire |
//! | `protocol` | the messages between both sides; secrets |
//! | [`journal`] | a replica that is a file, and a map from such a file |
//! | `verify` | the comparison of a replica with its origin |
//!
//! Dependencies point down: `holds` uses `origin`, `replica` and `journal`; `origin` uses
//! `journal`; `journal` and `verify` use `replica`; `origin` and `journal` use `delivery`; all use
//! `protocol`. The guides are `docs/guide/replication.md` and `docs/operations/journal.md`.

mod compression;
mod delivery;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub mod faults;
mod filter;
mod growing_pause;
mod holds;
pub mod journal;
mod lineage;
mod origin;
mod origin_clock;
mod promote;
mod protocol;
mod replica;
mod verify;

pub use commonhold_io::address::{Address, Listener};
pub use commonhold_io::sockets::LoopKind;
pub use compression::Compression;
pub use holds::journal::{
    HoldJournal, HoldJournalOptions, HoldJournalStatus, JournalState, JournaledMap,
};
pub use holds::origin::{HoldOrigin, HoldOriginOptions, ServedMap};
pub use holds::rebuild::{RebuildOutcome, RebuiltMap, ensure_rebuildable, rebuild_hold};
pub use holds::replica::{
    FollowState, FollowedMap, HoldReplica, HoldReplicaEvents, HoldReplicaOptions, HoldReplicaStatus,
};
pub use origin::session::ReplicaState;
pub use origin::subscriber_table::{OriginReport, ReplicaInfo};
pub use origin::{Notice, Origin, OriginOptions, Transmission};
pub use promote::{Promotion, promote};
pub use protocol::secret::Secret;
pub use replica::tap::Tap;
pub use replica::{Replica, ReplicaEvents, ReplicaOptions, ReplicaStatus};
pub use verify::{Verified, digest, verify};
