//! The two protocols that a server of files speaks.

use clap::ValueEnum;

/// The protocol of the client.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: GET, connections kept open
    Http,
    /// Connect, send the id, read to the end; one zero byte for an unknown id
    Simple,
}

impl Protocol {
    /// Its name in the option.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Simple => "simple",
        }
    }
}
