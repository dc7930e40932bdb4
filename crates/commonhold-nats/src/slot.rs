//! The slot of a bridge in its hold: a channel without messages, which has one producer at a time.
//! If the bridge dies, the slot is free again.

use commonhold::channel::{ChannelOptions, Producer};
use commonhold::{Error, ErrorKind, Hold, Result};

/// The smallest ring.
const RING: u64 = 4 << 10;

/// Takes the slot of this name.
///
/// # Errors
/// `Busy` if it is taken: `what` is, which names slot and process.
pub(crate) fn take(hold: &Hold, name: &str, what: &str) -> Result<Producer> {
    let slot = hold.channels().open_or_create(name, ChannelOptions::new(RING))?;
    slot.producer().map_err(|error| match error.kind() {
        ErrorKind::Busy => {
            Error::new(ErrorKind::Busy, format!("{what}: {error}; end that bridge first"))
        }
        _ => error,
    })
}
