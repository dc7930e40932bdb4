//! The option for compression, for both sides.

use clap::ValueEnum;
use commonhold_replicate::Compression;

/// Whether full syncs are compressed.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct Compress {
    /// When to compress the pairs of a full sync. A connection uses compression if both sides allow
    /// it
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    compress: When,
}

/// When.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// Over TCP to another machine; a connection to the local end of a tunnel does not count
    Auto,
    /// On every connection
    Always,
    /// On no connection
    Never,
}

impl From<Compress> for Compression {
    fn from(Compress { compress }: Compress) -> Compression {
        match compress {
            When::Auto => Compression::Auto,
            When::Always => Compression::Always,
            When::Never => Compression::Never,
        }
    }
}
