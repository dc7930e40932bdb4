//! **Commonhold**: one file of memory, a *hold*, that many processes share. Maps inside it are read and written at
//! memory speed by any process, without a server, and cannot be broken by killing anybody.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-lib-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! use commonhold::{Hold, MapOptions};
//!
//! let hold = Hold::open_or_create(&name)?; // "shop" would be /dev/shm/shop.hold
//! let stock = hold.map("stock", MapOptions::general())?;
//! stock.set("apple", "12 crates")?;
//! let uid = stock.set("pear", "3 crates")?;
//! assert_eq!(stock.get("apple")?.as_deref(), Some(&b"12 crates"[..]));
//! assert_eq!(stock.get_uid(uid)?.map(|(key, _)| key).as_deref(), Some(&b"pear"[..]));
//! assert_eq!(stock.increment("visits", 1)?, 1);
//! # drop((stock, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! [`Hold`] is the file; [`Map`] the hash table; [`Queue`] moves elements between processes; [`Channel`] has one producer
//! and many consumers; [`Log`] merges what many threads write; [`MapOptions`] says general, fixed-length or cache; [`Error`]
//! tells what is wrong and the way out. Layers point down: `hold -> {map, queue, channel, log} -> memory -> sync -> os`.
//! ARCHITECTURE.md is the tour,
//! docs/internals/concurrency.md the argument.

mod channel;
pub mod error;
mod hold;
mod log;
mod map;
mod memory;
mod os;
mod queue;
#[cfg_attr(not(feature = "steps"), allow(unused))]
#[doc(hidden)]
pub mod steps;
mod stream;
mod sync;

pub use channel::consumer::Consumer;
pub use channel::handle::Channel;
pub use channel::options::{ChannelOptions, Join, Peer, Policy, Received, Wait};
pub use channel::producer::Producer;
pub use channel::raw_bytes::RawBytes;
pub use channel::reserve::Reservation;
pub use channel::status::{ChannelStat, ConsumerInfo, ConsumerState};
pub use error::{Error, ErrorKind, Result};
pub use hold::backup::BackupReport;
pub use hold::check::CheckReport;
pub use hold::files::Listed;
pub use hold::freeze::Freeze;
pub use hold::handle::Hold;
pub use hold::journal_slot::JournalSlot;
pub use hold::options::HoldOptions;
pub use hold::restore::RestoreReport;
pub use hold::salvage::SalvageReport;
pub use hold::stat::{HoldKind, HoldStat, MapInfo, ParticipantInfo, StructureInfo};
pub use log::collect::{Collector, Round};
#[cfg(feature = "log")]
pub use log::facade::LogFacade;
pub use log::handle::Log;
#[cfg(feature = "tracing")]
pub use log::layer::LogLayer;
pub use log::line::{LogLine, ThreadId, ThreadInfo};
pub use log::options::{LogLevel, LogOptions, Overflow, Written};
pub use log::reader::LogReader;
pub use log::rotate::RotatedFile;
pub use log::stat::{LogStat, RingStat};
pub use map::handle::Map;
pub use map::iterate::Cursor;
pub use map::list::ListView;
pub use map::many::Values;
pub use map::options::{MapMode, MapOptions, Uid};
#[cfg(feature = "serde")]
pub use map::typed::JsonView;
pub use map::typed::{StrView, U64View};
#[doc(hidden)]
pub use map::walk::Charged;
pub use map::walk::{Iter, Keys, MapStat, SizeStat};
pub use memory::roots::StructureKind;
#[doc(hidden)]
pub use os::barrier;
#[doc(hidden)]
pub use os::draft::{Draft, Placed};
#[doc(hidden)]
pub use os::lines::SharedLines;
pub use queue::batch::Batch;
pub use queue::element::{Bytes, Element};
pub use queue::handle::Queue;
pub use queue::named::NamedQueue;
pub use queue::notifier::Notifier;
pub use queue::options::QueueOptions;
pub use queue::stat::{Holder, NamedQueueStat, QueueStat};
pub use stream::feed::{Feed, RingBytes};
pub use stream::follow::Follower;
pub use stream::frame::{ChangeKind, RawFrame, StreamFrame};
pub use stream::position::StreamPosition;
pub use stream::words::StreamStat;
pub use sync::thread_patience::limit_thread_patience;

/// The programs in the documents, so that one that no longer compiles fails.
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
