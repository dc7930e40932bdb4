//! Where an origin may listen, and which connections it accepts there.

use crate::origin::OriginOptions;
use crate::origin::limits::STALL_TIME;
use commonhold::{Error, ErrorKind, Result};
use commonhold_io::address::{self, Address};
use std::os::fd::AsFd;

/// Refuses an address where every client of other machines could read `what`.
///
/// # Errors
/// `Invalid`.
pub(crate) fn ensure_authenticates(
    options: &OriginOptions,
    address: &Address,
    what: &str,
) -> Result<()> {
    let is_allowed = options.secret.is_some() || options.allow_unauthenticated;
    if is_allowed || address::is_local(address) {
        return Ok(());
    }
    let text = format!(
        "{address}: other machines can connect, but the origin has no secret; set a secret, or set \
         allow_unauthenticated to let every client read {what}"
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

/// The warning about an address that other machines can connect to.
pub(crate) fn warning(address: &Address) -> Option<String> {
    let text = "other machines can connect, and the connections are not encrypted";
    (!address::is_local(address)).then(|| format!("{address}: {text}"))
}

/// The peer of an accepted connection.
///
/// # Errors
/// The text of the refusal, which names the peer.
pub(crate) fn peer_of(
    options: &OriginOptions,
    socket: &impl AsFd,
) -> std::result::Result<String, String> {
    let (peer, uid) = address::peer(socket.as_fd());
    // TCP does not reveal the user of a process. Over a unix socket, an unknown user is refused.
    let wrong = |uids: &Vec<u32>| uid.is_none_or(|uid| !uids.contains(&uid));
    let is_unix = !peer.starts_with("tcp:");
    if is_unix && options.allowed_uids.as_ref().is_some_and(wrong) {
        let of = uid.map_or("an unknown user".to_owned(), |uid| format!("user {uid}"));
        return Err(format!("{peer}: refused: its process belongs to {of}"));
    }
    if !is_unix {
        address::limit_silence(socket.as_fd(), STALL_TIME);
    }
    Ok(peer)
}
