//! The server's address, resolved once, so that connecting takes one system call.

use crate::workload::{Result, RunError};
use commonhold_io::address::Address;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, getpeername, sockopt,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The time limit of the first connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server's address as the system knows it.
pub enum Target {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(SocketAddrUnix),
}

impl Target {
    /// Connects once, to find out whether a server listens.
    pub fn find(address: &Address) -> Result<Target> {
        let socket = address
            .connect(PATIENCE)
            .map_err(|e| RunError::new(format!("{e}; check that a server runs there")))?;
        let unfit = |e| RunError::new(format!("{address}: {e}"));
        match address {
            Address::Unix(path) => Ok(Target::Unix(SocketAddrUnix::new(path).map_err(unfit)?)),
            Address::Tcp(..) => {
                let peer = getpeername(&socket).map_err(unfit)?;
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                peer.map(Target::Tcp).ok_or_else(|| unfit(Errno::NOTCONN))
            }
        }
    }

    /// A socket that is connected, or soon will be. It never waits.
    ///
    /// # Errors
    /// `AGAIN` of a unix socket at which too many connections wait: retry later.
    pub fn open(&self) -> std::result::Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = |family| net::socket_with(family, SocketType::STREAM, flags, None);
        let (socket, connected) = match self {
            Target::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = new(family)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                let connected = net::connect(&socket, address);
                (socket, connected)
            }
            Target::Unix(address) => {
                let socket = new(AddressFamily::UNIX)?;
                let connected = net::connect(&socket, address);
                (socket, connected)
            }
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}
