//! The terminal side of `hold` and its laboratory: results, failures, sizes, progress.
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
//! | [`output`] | standard output, in the requested format |
//! | [`progress`] | progress bars on standard error |
//! | [`interrupt`] | Ctrl-C ends a run early |
//! | [`bytes`], [`text`] | any bytes as text, and foreign text that cannot move the cursor |
//! | [`sizes`] | sizes and durations as people write them |
//! | [`help`] | help texts that wrap |
//! | [`version`] | the version, with the commit and the format of holds |
//! | [`descriptors`] | the number of files and sockets that this process may have open |

pub mod bytes;
pub mod descriptors;
pub mod failure;
pub mod help;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod sizes;
pub mod text;
pub mod version;
