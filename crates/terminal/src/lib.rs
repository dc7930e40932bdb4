//! What `hold` and its laboratory print and read: results, failures, sizes, progress.
//!
//! ```
//! use commonhold_terminal::{bytes, sizes};
//!
//! assert_eq!(sizes::bytes("64K"), Ok(65_536));
//! assert_eq!(sizes::things(34_924, "pair", "pairs"), "34,924 pairs");
//! assert_eq!(bytes::escaped(b"two\nlines\xff"), "two\\nlines\\xff");
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`failure`] | why a subcommand failed, its exit code, messages on standard error |
//! | [`output`] | standard output, in the format that was asked for |
//! | [`progress`] | progress bars on standard error |
//! | [`interrupt`] | Ctrl-C ends a run early |
//! | [`bytes`], [`text`] | any bytes as text, and text of others that cannot move the cursor |
//! | [`sizes`] | sizes and durations as people write them |
//! | [`help`] | help texts that wrap |
//! | [`descriptors`] | how many files and sockets this process may have open |

pub mod bytes;
pub mod descriptors;
pub mod failure;
pub mod help;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod sizes;
pub mod text;
