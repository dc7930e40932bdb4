//! Connecting in a separate thread, so that a replica can end meanwhile.
//!
//! Looking up a name can take any time, and no call interrupts it. The thread has only the address:
//! if the replica ends first, the thread ends later, without effect.

use crate::protocol::wire::{Broken, broken};
use commonhold::fault;
use commonhold_io::address::Address;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit for connecting to one address of a host.
const CONNECTING: Duration = Duration::from_secs(5);
/// The time limit for looking up a host's name, and connecting to all of its addresses.
const WHOLE: Duration = Duration::from_secs(30);
/// The most threads of this process that nobody waits for any more.
const MOST: usize = 64;
/// Their number.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);
/// The time between two looks at whether the replica is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Connects to the origin; `None` if the replica has to end first, as `is_over` reports.
pub(crate) fn connect(
    address: &Address,
    mut is_over: impl FnMut() -> bool,
) -> Result<Option<OwnedFd>, Broken> {
    if ABANDONED.load(Ordering::Relaxed) >= MOST {
        return broken(format!("cannot connect: {MOST} earlier look-ups of names have not ended"));
    }
    let attempt = Arc::new(Attempt::default());
    let caller = Caller(Arc::clone(&attempt));
    let (sender, connected) = channel();
    let deadline = Instant::now() + WHOLE;
    let origin = address.clone();
    let thread = thread::Builder::new().name("replica connect".into()).stack_size(256 << 10);
    // If the receiver is gone, the socket is dropped, which closes the connection.
    let connect = move || {
        drop(sender.send(origin.connect(CONNECTING)));
        attempt.end();
    };
    fault!("replica.connect-thread")
        .and_then(|()| thread.spawn(connect))
        .inspect_err(|_| caller.0.end())
        .map_err(|e| Broken(format!("cannot start a thread: {e}")))?;
    loop {
        match connected.recv_timeout(LOOK) {
            Ok(connected) => return connected.map(Some).map_err(|e| Broken(e.to_string())),
            Err(RecvTimeoutError::Timeout) if is_over() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                return broken(format!("cannot connect to {address} within {} s", WHOLE.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Broken("the thread that connects has panicked".to_owned()));
            }
        }
    }
}

/// One side that has left: the thread that connects, or the caller that waits for it; or neither.
#[derive(Default)]
struct Attempt(AtomicU8);

const THREAD: u8 = 1;
const CALLER: u8 = 2;

impl Attempt {
    /// The thread has ended.
    fn end(&self) {
        if self.0.swap(THREAD, Ordering::Relaxed) == CALLER {
            ABANDONED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Nobody waits for the thread any more.
    fn abandon(&self) {
        // Counted first, because the thread may end at once.
        ABANDONED.fetch_add(1, Ordering::Relaxed);
        if self.0.swap(CALLER, Ordering::Relaxed) == THREAD {
            ABANDONED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Abandons its attempt when it is dropped.
struct Caller(Arc<Attempt>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold_testing::support::process::until;

    /// Other tests of this process abandon no look-up.
    #[test]
    fn look_ups_that_nobody_waits_for_are_limited() {
        let address: Address = "tcp:127.0.0.1:1".parse().unwrap();
        let attempts: Vec<_> = (0..MOST).map(|_| Attempt::default()).collect();
        attempts.iter().for_each(Attempt::abandon);
        let refused = connect(&address, || false).unwrap_err();
        assert!(refused.0.contains("earlier look-ups"), "{refused:?}");
        attempts.iter().for_each(Attempt::end);
        let refused = connect(&address, || false).unwrap_err();
        assert!(!refused.0.contains("earlier look-ups"), "{refused:?}");
        let ended = Attempt::default();
        ended.end();
        ended.abandon();
        until("its thread to end", || ABANDONED.load(Ordering::Relaxed) == 0);
    }
}
