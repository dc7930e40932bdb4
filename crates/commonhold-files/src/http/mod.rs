//! HTTP/1.1 as far as a file server needs it (RFC 9110, 9112): requests, and the heads of
//! responses.
//!
//! | module | idea |
//! |---|---|
//! | `head` | a request's head, read by `httparse` |
//! | `conditions` | `If-Match` and its kind: whether contents are sent at all |
//! | `range` | the requested part of the contents |
//! | `answer` | the head of a response |
//! | `own_fields` | the fields that an operator adds to responses |
//! | `types` | the type of a file's contents, by its name |
//!
//! A program that serves other data over HTTP can read heads with [`read`] and begin responses with
//! [`status_line`].
//!
//! Invariant: nothing here knows sockets, caches or files.

pub(super) mod answer;
pub(super) mod conditions;
pub(super) mod head;
pub(super) mod own_fields;
pub(super) mod range;
pub(super) mod types;

pub use answer::status_line;
pub use head::{Head, MOST_BYTES, Method, Wrong, read};
pub use own_fields::{CacheControl, CorsOrigin, HeaderField};
