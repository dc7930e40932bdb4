//! HTTP/1.1 as far as serving files needs it (RFC 9110, 9112): what is asked for, and the head of
//! what is answered.
//!
//! | module | idea |
//! |---|---|
//! | `head` | a request's head, read by `httparse` |
//! | `conditions` | `If-Match` and its kind: whether contents are sent at all |
//! | `range` | which part of them |
//! | `answer` | the head of a response |
//! | `types` | what a file's contents are, by its name |
//!
//! Who serves other things over HTTP reads heads with [`read`] and begins answers with
//! [`status_line`].
//!
//! Invariant: nothing here knows sockets, caches or files.

pub(super) mod answer;
pub(super) mod conditions;
pub(super) mod head;
pub(super) mod range;
pub(super) mod types;

pub use answer::status_line;
pub use head::{Head, MOST_BYTES, Method, Wrong, read};
