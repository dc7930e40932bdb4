//! The protocol between an origin and a replica; `docs/reference/wire.md` has it byte for byte.
//!
//! | module | idea |
//! |---|---|
//! | `wire` | what both sides send, encoded and decoded |
//! | `wish` | the map of an origin's hold that a replica wants |
//! | `key_prefix` | the keys that a replica wants |
//! | `catalogue` | the names of a hold's maps, as they come and go |
//! | `inbox` | received bytes, and the frames in them |
//! | `packed` | pairs of a full sync, compressed together |
//! | `skip` | the position behind changes that a replica does not want |
//! | `payload` | bytes on their way to a replica, also straight from a stream's memory |
//! | `secret` | proof that both sides know the same secret |

pub(crate) mod catalogue;
pub(crate) mod inbox;
pub(crate) mod introduction;
pub(crate) mod key_prefix;
pub(crate) mod packed;
pub(crate) mod payload;
pub(crate) mod secret;
pub(crate) mod skip;
pub(crate) mod wire;
pub(crate) mod wish;
