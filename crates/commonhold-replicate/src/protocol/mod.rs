//! The protocol between an origin and a replica; `docs/reference/wire.md` has it byte for byte.
//!
//! | module | idea |
//! |---|---|
//! | `wire` | what both sides send, encoded and decoded |
//! | `inbox` | received bytes, and the frames in them |
//! | `payload` | bytes on their way to a replica, also straight from a stream's memory |
//! | `secret` | proof that both sides know the same secret |

pub(crate) mod inbox;
pub(crate) mod payload;
pub(crate) mod secret;
pub(crate) mod wire;
