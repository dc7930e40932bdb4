//! A *hold* is a memory-mapped file that many processes share. The maps, queues, channels and logs
//! in a hold work at memory speed, in any process and in any supported language, without a server.
//! A process can be killed at any moment: nothing breaks, and no committed change is lost.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-front-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! use commonhold::Hold;
//! use commonhold::map::MapOptions;
//!
//! let hold = Hold::open_or_create(&name)?; // "shop" would be /dev/shm/shop.hold
//! let stock = hold.maps().open_or_create("stock", MapOptions::general())?;
//! stock.set("apple", "12 crates")?; // visible to every process at once
//! assert_eq!(stock.get("apple")?.as_deref(), Some(&b"12 crates"[..]));
//! # drop((stock, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | the root | [`Hold`], the file; [`HoldOptions`]; [`Error`] with its [`ErrorKind`] |
//! | [`map`] | the hash table: atomic changes, uids, iteration, caches, typed maps |
//! | [`queue`] | elements that move between processes without being copied |
//! | [`channel`] | one producer and many consumers, each of which receives every message |
//! | [`log`] | lines from many threads and processes, merged by time |
//! | [`stream`] | the changes of a map, as they happen |
//! | [`mod@hold`] | structures by name, statistics, freezing, backups, holds as files |
//!
//! # Cookbook
//!
//! **Count across processes.** The addition is atomic, even if several processes add at once.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-count-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::MapOptions};
//! # let hold = Hold::create(&name)?;
//! let counts = hold.maps().open_or_create("counts", MapOptions::general())?;
//! assert_eq!(counts.increment("visits", 1)?, 1);
//! # drop((counts, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Change a value atomically.** The closure runs again if another process changed the value in
//! between.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-update-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::MapOptions};
//! # let hold = Hold::create(&name)?;
//! let map = hold.maps().open_or_create("it", MapOptions::general())?;
//! map.set("list", "a")?;
//! map.update("list", |old| old.map(|value| [value, b",b"].concat()))?;
//! assert_eq!(map.get("list")?.as_deref(), Some(&b"a,b"[..]));
//! # drop((map, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Elect one process.** `add` succeeds in only one process. In a cache, the leader's entry
//! expires unless the leader renews it.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-elect-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::CacheOptions};
//! # use std::time::Duration;
//! # let hold = Hold::create(&name)?;
//! let leases = hold.maps().open_or_create("leases", CacheOptions::new())?;
//! let lease = leases.with_ttl(Duration::from_secs(5))?;
//! assert!(lease.add("leader", std::process::id().to_string())?.is_some());
//! assert!(lease.add("leader", "another")?.is_none());
//! # drop((leases, lease, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Cache with a limit and a time to live.**
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-cached-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::CacheOptions};
//! # use std::time::Duration;
//! # let hold = Hold::create(&name)?;
//! let options = CacheOptions::new().max_bytes(64 << 20).ttl(Duration::from_secs(300));
//! let pages = hold.maps().open_or_create("pages", options)?;
//! pages.set("/index", "<html>")?;
//! pages.set_with_ttl("/news", "<html>", Duration::from_secs(5))?;
//! # drop((pages, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Look up many keys at once**, several times faster than one by one.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-many-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::{MapOptions, Values}};
//! # let hold = Hold::create(&name)?;
//! let map = hold.maps().open_or_create("small", MapOptions::fixed(4, 4))?;
//! map.set_many(&[(1u32.to_le_bytes(), *b"one."), (2u32.to_le_bytes(), *b"two.")])?;
//! let mut found = Values::new();
//! let keys = [1, 2, 3].map(u32::to_le_bytes);
//! assert_eq!(map.get_many(&keys, &mut found)?, 2);
//! assert_eq!(found.get(1), Some(&b"two."[..]));
//! # drop((map, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Read or write one key repeatedly.** A handle on a pair remembers where the pair is, and
//! finds it again after any change by any process.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-gauge-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::MapOptions};
//! # let hold = Hold::create(&name)?;
//! let gauges = hold.maps().open_or_create("gauges", MapOptions::general())?;
//! let pressure = gauges.pair("pressure")?;
//! for tenths in 990..1010u64 {
//!     pressure.set(tenths.to_le_bytes())?;
//! }
//! assert_eq!(pressure.get()?.as_deref(), Some(&1009u64.to_le_bytes()[..]));
//! # drop((pressure, gauges, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Give keys and values types.**
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-types-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::{MapOptions, Text, U64}};
//! # let hold = Hold::create(&name)?;
//! let map = hold.maps().open_or_create("ages", MapOptions::general())?;
//! let ages = map.typed::<Text, U64>();
//! ages.set("anna", 42)?;
//! for pair in &ages {
//!     assert_eq!(pair?, ("anna".to_owned(), 42));
//! }
//! # drop((map, ages, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Pass work to another process.** If that process dies with the element in flight, the element
//! moves to the orphan queue.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-work-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, queue::QueueOptions};
//! # let hold = Hold::create(&name)?;
//! let options = QueueOptions::new(8, 64).queues(["free", "jobs"]);
//! let work = hold.queues().open_or_create("work", options)?;
//! let job = work.named("free")?.pull()?.expect("all elements begin in the first queue");
//! job.write(0, b"resize 4711")?;
//! work.named("jobs")?.push(job)?; // any process may pull it
//! # drop((work, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Send messages to many processes.**
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-send-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, channel::{ChannelOptions, Join, Policy}};
//! # let hold = Hold::create(&name)?;
//! let ticks = hold.channels().open_or_create("ticks", ChannelOptions::new(1 << 16))?;
//! let mut consumer = ticks.consumer(Join::Now, Policy::Lossless)?;
//! ticks.producer()?.send(b"EUR 1.08")?;
//! let mut message = Vec::new();
//! consumer.recv(&mut message)?;
//! assert_eq!(message, b"EUR 1.08");
//! # drop((ticks, consumer, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Follow the changes of a map.**
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-follow-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::MapOptions};
//! # let hold = Hold::create(&name)?;
//! let prices = hold.maps().open_or_create("prices", MapOptions::general())?;
//! hold.maps().begin_stream("prices", 1 << 20)?;
//! let mut changes = prices.follow()?;
//! prices.set("apple", "3")?;
//! assert_eq!(changes.recv()?.key, b"apple");
//! # drop((prices, changes, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! **Read several maps at one moment.** Writers wait until the result is dropped.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-frozen-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! # use commonhold::{Hold, map::MapOptions};
//! # let hold = Hold::create(&name)?;
//! let map = hold.maps().open_or_create("it", MapOptions::general())?;
//! let frozen = hold.freeze()?;
//! assert_eq!(map.len()?, 0);
//! drop(frozen);
//! # drop((map, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! # Crate features
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | the codec `Json` of typed maps; `Serialize` for statistics and reports |
//! | `bytemuck` | the codec `Pod` of typed maps |
//! | `log` | `LogFacade`, which connects the `log` crate to a log in a hold |
//! | `tracing` | `LogLayer`, which connects `tracing-subscriber` to a log in a hold |
//! | `steps` | named steps at which tests kill or stop a process; not for production |
//!
//! # Platforms
//!
//! The crate needs 64-bit Linux 4.14 or later, on x86-64 or aarch64, and a local file system that
//! supports `mmap` and open file description locks, such as tmpfs, ext4, xfs or btrfs. Network,
//! FUSE and overlay file systems are not supported.
//!
//! The first hold in memory that a process opens installs a handler of SIGBUS, which keeps readers
//! alive whose memory was freed while they were stopped, even if the file system is full (Linux
//! 5.14). The handler passes every other SIGBUS on to the handler that was there before. A program
//! with its own handler installs it first.
//!
//! # Limits
//!
//! - A hold in memory does not survive a reboot. A file hold survives a reboot if it was closed
//!   cleanly; a journal (crate `commonhold-replicate`) survives power loss.
//! - Every process that may write to a hold is trusted: it can overwrite any byte of the file.
//! - Operations on several keys are not a transaction; [`Hold::freeze`] gives a consistent view.
//! - A process that is stopped in the middle of an operation delays writers that need the same
//!   lock, without limit unless [`HoldOptions::lock_timeout`] is set.

pub mod channel;
mod error;
pub mod hold;
pub mod log;
pub mod map;
mod memory;
mod os;
pub mod queue;
#[doc(hidden)]
pub mod raw;
#[cfg_attr(not(feature = "steps"), allow(unused))]
#[doc(hidden)]
pub mod steps;
pub mod stream;
mod sync;

pub use error::{Error, ErrorKind, Result};
pub use hold::handle::Hold;
pub use hold::options::HoldOptions;

/// Handles that several threads may share, and handles that only one thread at a time may use.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn moved<T: Send>() {}
    shared::<(Hold, Error, map::Map, map::Iter, queue::Queue, channel::Channel, log::Log)>();
    moved::<(channel::Producer, channel::Consumer, stream::Follower, log::Collector)>();
    moved::<(log::LogReader, log::RotatedFile, queue::Notifier)>();
};

/// The programs in the documents. They are compiled as doc tests, so that a broken one fails.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/guide/caching.md")]
    struct Caching;
    #[doc = include_str!("../../../docs/guide/messaging.md")]
    struct Messaging;
}
