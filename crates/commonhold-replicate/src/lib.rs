//! Maps of [`commonhold`] over the network: a map that is written on one machine is a map that is read on others, and a file from
//! which it is rebuilt.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-net-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let (one, other) = (dir.join("one.hold"), dir.join("other.hold"));
//! use commonhold::{Hold, MapOptions};
//! use commonhold_net::replicate::{Address, Origin, OriginOptions, Replica, ReplicaOptions};
//! use std::time::Duration;
//!
//! let shop = Hold::open_or_create(&one)?;
//! let prices = shop.map("prices", MapOptions::general())?;
//! prices.set("apple", "3")?;
//! let origin = Origin::start(&shop, "prices", OriginOptions::default())?;
//! let address = origin.listen(&Address::Unix(dir.join("socket")))?;
//!
//! // Elsewhere:
//! let copy = Hold::open_or_create(&other)?;
//! let replica = Replica::connect(&copy, "prices", &address, ReplicaOptions::default(), ())?;
//! assert!(replica.wait_ready(Duration::from_secs(10)));
//! let prices = copy.open_map("prices")?;
//! assert_eq!(prices.get("apple")?.as_deref(), Some(&b"3"[..]));
//! # drop((replica, origin, prices, shop, copy));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! [`replicate`] has origins and replicas, [`journal`] the file, [`event`] the sockets, [`files`] the file server. `docs/guide/replication.md`, `docs/operations/journal.md` and
//! `docs/reference/wire.md` are the guides.

mod address;
mod choices;
pub mod event;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub mod faults;
pub mod files;
pub mod journal;
pub mod replicate;
mod report;
mod struck;
mod threads;
