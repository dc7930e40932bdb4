//! Sockets that the service manager passes, as systemd does for a socket unit.

use commonhold_terminal::failure::{Failure, Result};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use std::os::fd::OwnedFd;

/// The sockets that the parent of this process has passed, as systemd does.
pub fn inherited_sockets() -> Result<Vec<OwnedFd>> {
    let mut given = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..given.len() {
        if let Ok(Some(socket)) = given.take_unix_listener(index) {
            sockets.push(socket.into());
            continue;
        }
        let socket = given.take_tcp_listener(index).map_err(|_| {
            strange(index, "neither a unix nor a TCP stream socket; see ListenStream= in its unit")
        })?;
        sockets.extend(socket.map(OwnedFd::from));
    }
    for (index, socket) in sockets.iter().enumerate() {
        if !socket_acceptconn(socket).unwrap_or(false) {
            return Err(strange(
                index,
                "a connection, not a listening socket; set Accept=no in its unit",
            ));
        }
    }
    Ok(sockets)
}

fn strange(index: usize, what: &str) -> Failure {
    Failure::failed(format!("socket {index} of LISTEN_FDS is {what}"))
}
