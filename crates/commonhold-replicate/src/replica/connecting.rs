//! Connecting in a separate thread, so that a replica can end meanwhile.
//!
//! Looking up a name can take any time, and no call interrupts it. The thread has only the address:
//! if the replica ends first, the thread ends later, without effect.

use crate::protocol::wire::Broken;
use commonhold::fault;
use commonhold_io::address::Address;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The time limit for connecting to one address of a host.
const CONNECTING: Duration = Duration::from_secs(5);
/// The time between two looks at whether the replica is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Connects to the origin; `None` if the replica has to end first, as `is_over` reports.
pub(super) fn connect(
    address: &Address,
    mut is_over: impl FnMut() -> bool,
) -> Result<Option<OwnedFd>, Broken> {
    let (sender, connected) = channel();
    let origin = address.clone();
    let thread = thread::Builder::new().name("replica connect".into()).stack_size(256 << 10);
    // If the receiver is gone, the socket is dropped, which closes the connection.
    let connect = move || drop(sender.send(origin.connect(CONNECTING)));
    fault!("replica.connect-thread")
        .and_then(|()| thread.spawn(connect))
        .map_err(|e| Broken(format!("cannot start a thread: {e}")))?;
    loop {
        match connected.recv_timeout(LOOK) {
            Ok(connected) => return connected.map(Some).map_err(|e| Broken(e.to_string())),
            Err(RecvTimeoutError::Timeout) if is_over() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Broken("the thread that connects has panicked".to_owned()));
            }
        }
    }
}
