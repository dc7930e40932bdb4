//! Origins and replicas.
//!
//! | idea | module |
//! |---|---|
//! | the writable side, and its options | `origin` |
//! | one replica, as its origin sees it; what it is sent | `session`, `delivery`, `payload` |
//! | the threads of an origin: those that serve, the one that waits for the stream, and removes what has expired; what they share | `serve`, `watch`, `expiry`, `desk` |
//! | the reading side, and its options; its thread, one connection of it; what it does with what comes, where it stands, where it was killed | `replica`, `follower`, `conversation`, `intake`, `place`, `regain` |
//! | what both say to each other; bytes as they come | `wire`, `inbox` |
//! | where an origin is; who knows the secret | `crate::address`, `secret` |
//! | whether a replica is what its origin is | `verify` |
//! | what `hold stat` is told | `crate::report` |
//! | a replica that only reads, for benchmarks | `tap` |

pub(crate) mod conversation;
pub(crate) mod delivery;
pub(crate) mod desk;
pub(crate) mod expiry;
pub(crate) mod follower;
pub(crate) mod inbox;
pub(crate) mod intake;
pub(crate) mod origin;
pub(crate) mod payload;
pub(crate) mod place;
pub(crate) mod regain;
pub(crate) mod replica;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod tap;
pub(crate) mod verify;
pub(crate) mod watch;
pub(crate) mod wire;

pub use crate::address::{Address, Listener};
pub use crate::report::{REPORTS, Report, reports};
pub use desk::{OriginReport, ReplicaInfo};
pub use origin::{Notice, Origin, OriginOptions, Transmission};
pub use replica::{Replica, ReplicaEvents, ReplicaOptions, ReplicaStatus};
pub use secret::Secret;
pub use session::ReplicaState;
pub use tap::Tap;
pub use verify::{Verified, digest, verify};
