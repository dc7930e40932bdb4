//! Connections within one machine are not paced.
//!
//! BBR sends at the rate that it estimates for a network path, so that no queue on the path
//! overflows. The loopback interface has no such queue. There, pacing only adds timers to large
//! responses: the kernel sends them in small parts, each from a timer of its own. Where BBR is the
//! system's default, a listener on a loopback address therefore uses Reno, which every kernel has
//! and which every process may choose. The connections that it accepts inherit that.
//!
//! A listener on any other address keeps the system's choice, because its peers may be remote.

use rustix::net::{getsockname, sockopt};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The beginning of the names of the algorithms that pace: `bbr`, `bbr2`, `bbr3`.
const PACED: &str = "bbr";
const UNPACED: &str = "reno";

/// Turns pacing off for the connections that a listener accepts from now on, if all their peers are
/// on this machine. Returns whether it did. Has no effect on other sockets.
pub fn stop_pacing(listener: impl AsFd) -> bool {
    is_loopback(&listener)
        && sockopt::tcp_congestion(&listener).is_ok_and(|name| name.starts_with(PACED))
        // If this fails, responses are paced, and otherwise the same.
        && sockopt::set_tcp_congestion(&listener, UNPACED).is_ok()
}

/// Whether a socket's own address is one that only this machine reaches.
fn is_loopback(socket: impl AsFd) -> bool {
    let own = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
    own.is_some_and(|address| address.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn algorithm(socket: impl AsFd) -> String {
        sockopt::tcp_congestion(socket).unwrap()
    }

    #[test]
    fn only_local_listeners_with_a_paced_algorithm_change() {
        for (address, is_local) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
            let listener = TcpListener::bind(address).unwrap();
            // Not every kernel has BBR, and not every process may choose it.
            let _ = sockopt::set_tcp_congestion(&listener, PACED);
            let before = algorithm(&listener);
            let changes = is_local && before.starts_with(PACED);
            assert_eq!(stop_pacing(&listener), changes);
            assert_eq!(algorithm(&listener), if changes { UNPACED } else { &before });
            let connect = TcpStream::connect(("127.0.0.1", listener.local_addr().unwrap().port()));
            let (client, accepted) = (connect.unwrap(), listener.accept().unwrap().0);
            assert_eq!(algorithm(&accepted), algorithm(&listener), "connections inherit it");
            drop(client);
        }
    }

    #[test]
    fn other_algorithms_and_sockets_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        sockopt::set_tcp_congestion(&listener, UNPACED).unwrap();
        assert!(!stop_pacing(&listener));
        assert_eq!(algorithm(&listener), UNPACED);
        assert!(!stop_pacing(UnixStream::pair().unwrap().0));
    }
}
