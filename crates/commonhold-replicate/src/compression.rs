//! Whether the pairs of a full sync are compressed on their way.

use commonhold_io::address;
use std::os::fd::BorrowedFd;

/// Whether the pairs of a full sync are compressed between an origin and a replica. A connection
/// uses compression if both sides allow it. Changes are never compressed: the origin sends them
/// straight from the memory of the map's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Over TCP to another machine. A connection to the local end of a tunnel does not count.
    #[default]
    Auto,
    /// On every connection.
    Always,
    /// On none.
    Never,
}

impl Compression {
    /// Whether this side allows it on a connection.
    pub(crate) fn allows(self, socket: BorrowedFd<'_>) -> bool {
        match self {
            Compression::Auto => address::is_of_another_machine(socket),
            Compression::Always => true,
            Compression::Never => false,
        }
    }
}
