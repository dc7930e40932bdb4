//! The connections of each address, and the limit of them.
//!
//! A connection beyond the limit is accepted all the same, for a moment: long enough to answer its
//! request with an error. As many are as may be open within the limit; further ones end at once. So
//! an address never has more than twice its number of connections.
//!
//! Invariant: each [`Admission`] counts once, from its making to its drop.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection beyond the limit may take for its request.
pub(crate) const EXCESS_PATIENCE: Duration = Duration::from_secs(1);
/// Notices come at most this often.
const NOTICE: Duration = Duration::from_secs(10);

/// Takes a line for the operator of a server.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// The address of a socket's peer; `None` if it has none, as over unix sockets.
pub(crate) fn address_of(socket: &OwnedFd) -> Option<IpAddr> {
    let address = rustix::net::getpeername(socket).ok().flatten();
    let address = address.and_then(|any| SocketAddr::try_from(any).ok())?;
    Some(address.ip().to_canonical())
}

/// Addresses that count as one: of IPv6 the network of 64 bits, which usually has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer(IpAddr);

impl Peer {
    fn of(address: IpAddr) -> Peer {
        Peer(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peer(address) = self;
        let network = if address.is_ipv6() { "/64" } else { "" };
        write!(f, "{address}{network}")
    }
}

/// See the module. It is shared by all threads of a server.
pub(crate) struct Peers {
    most: u32,
    counts: Mutex<HashMap<Peer, u32>>,
    notice: Option<Notice>,
    notices: Mutex<Notices>,
}

/// The notices of a server.
#[derive(Default)]
struct Notices {
    last: Option<Instant>,
    /// Connections beyond the limit since then.
    refused: u64,
}

/// A connection of an address, as long as it lives.
pub(crate) struct Admission {
    peers: Arc<Peers>,
    peer: Peer,
    /// The connection is beyond the limit.
    pub(crate) is_excess: bool,
}

/// A lock of data that each change leaves whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    pub(crate) fn new(most: u32, notice: Option<Notice>) -> Arc<Peers> {
        let (counts, notices) = (Mutex::default(), Mutex::default());
        Arc::new(Peers { most, counts, notice, notices })
    }

    /// Counts a connection; `None` if it has to end at once.
    pub(crate) fn admit(self: &Arc<Peers>, address: IpAddr, now: Instant) -> Option<Admission> {
        let peer = Peer::of(address);
        let before = {
            let mut counts = lock(&self.counts);
            let count = counts.entry(peer).or_default();
            let before = *count;
            if before < self.most.saturating_mul(2) {
                *count += 1;
            }
            before
        };
        let is_excess = before >= self.most;
        if is_excess {
            self.note(peer, now);
        }
        let is_counted = before < self.most.saturating_mul(2);
        is_counted.then(|| Admission { peers: Arc::clone(self), peer, is_excess })
    }

    #[cold]
    fn note(&self, peer: Peer, now: Instant) {
        let refused = {
            let mut notices = lock(&self.notices);
            notices.refused += 1;
            let is_recent = |at: Instant| now.saturating_duration_since(at) < NOTICE;
            if notices.last.is_some_and(is_recent) {
                return;
            }
            notices.last = Some(now);
            std::mem::take(&mut notices.refused)
        };
        if let Some(notice) = &self.notice {
            let most = self.most;
            notice(&format!(
                "{peer} already has {most} connections, the most for one address; connections \
                 refused since the last such message: {refused}"
            ));
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = lock(&self.peers.counts).entry(self.peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_count_while_they_live() {
        let (peers, now) = (Peers::new(2, None), Instant::now());
        let one = address("192.0.2.1");
        let mut all: Vec<_> = (0..5).map(|_| peers.admit(one, now)).collect();
        let excess: Vec<_> = all.iter().flatten().map(|admission| admission.is_excess).collect();
        assert_eq!(excess, [false, false, true, true]);
        assert!(all[4].is_none());
        assert!(peers.admit(address("192.0.2.2"), now).is_some_and(|other| !other.is_excess));
        all.truncate(1);
        assert!(peers.admit(one, now).is_some_and(|again| !again.is_excess));
        drop(all);
        assert!(lock(&peers.counts).is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let peer = |text| Peer::of(address(text)).to_string();
        assert_eq!(peer("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(peer("192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn notices_are_rare() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&said);
        let notice: Notice = Arc::new(move |text: &str| lock(&ear).push(text.to_owned()));
        let (peers, now) = (Peers::new(1, Some(notice)), Instant::now());
        let one = address("192.0.2.1");
        let all: Vec<_> = (0..100).map(|_| peers.admit(one, now)).collect();
        assert_eq!(lock(&said).len(), 1);
        assert!(peers.admit(one, now + NOTICE).is_none());
        let last = lock(&said).pop().unwrap();
        assert!(last.starts_with("192.0.2.1 ") && last.ends_with(": 99"), "{last}");
        drop(all);
    }
}
