//! Channels.
//!
//! | idea | file |
//! |---|---|
//! | creating, opening, statistics | [`open`] |
//! | sending | [`producer`] |
//! | receiving | [`consumer`] |

pub(crate) mod consumer;
pub(crate) mod open;
pub(crate) mod producer;

use commonhold::channel::{Peer, Wait};

/// `ch_peer`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CPeer {
    slot: u32,
    pid: u32,
}

impl From<Peer> for CPeer {
    fn from(Peer { slot, pid }: Peer) -> CPeer {
        CPeer { slot, pid }
    }
}

/// How to wait, by its code.
fn wait(spin: u32) -> Wait {
    if spin == 0 { Wait::Sleep } else { Wait::Spin }
}
