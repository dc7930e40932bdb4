//! The choices of the entries that go when there is no room. An eviction knows entries by their
//! tags, and never touches their values.
//!
//! | module | idea |
//! |---|---|
//! | `interface` | the trait |
//! | `none` | no entry goes |
//! | `mutex` | exactly the least recently used entry goes, behind a mutex |
//! | `lockfree` | S3-FIFO: queues and visited bits, without a lock |
//! | `queue` | a queue of `lockfree`, which counts its bytes |
//! | `ghosts` | the keys that went lately |

mod ghosts;
mod interface;
mod lockfree;
mod mutex;
mod none;
mod queue;

pub use interface::Eviction;
pub use lockfree::{Mark, S3Fifo};
pub use mutex::Lru;
pub use none::NoEviction;
