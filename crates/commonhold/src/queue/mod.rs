//! The queue: elements of one size that move by reference between processes. Nothing is copied, and
//! nothing gets lost.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | the public handles | `handle` (the structure), `named` (one of its queues), `options` |
// | elements in flight | `element`, `batch`; those without a Rust value: `in_flight`, `raw_batch` |
// | where things are in memory | `layout` |
// | moving elements (protocol 5) | `moves` |
// | waiting by a file descriptor | `notifier` |
// | after a death; proving a queue sound | `recover`, `check` |
// | statistics | `stat` |

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod element;
pub(crate) mod handle;
pub(crate) mod in_flight;
pub(crate) mod layout;
pub(crate) mod moves;
pub(crate) mod named;
pub(crate) mod notifier;
pub(crate) mod options;
pub(crate) mod raw_batch;
pub(crate) mod recover;
pub(crate) mod stat;

pub use batch::Batch;
pub use element::{Bytes, Element};
pub use handle::Queue;
pub use named::NamedQueue;
pub use notifier::Notifier;
pub use options::QueueOptions;
pub use stat::{Holder, NamedQueueStat, QueueStat};
