//! How contents are coded, and the names of coded files.

/// The coding of contents; a file may have compressed companions with the same contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Uncompressed.
    Plain,
    /// Brotli, in a file whose name ends with `.br`.
    Brotli,
    /// Gzip, in a file whose name ends with `.gz`.
    Gzip,
}

impl Coding {
    /// All codings, in the order of their numbers.
    pub(crate) const ALL: [Coding; 3] = [Coding::Plain, Coding::Brotli, Coding::Gzip];

    /// The codings of companions, the better one first.
    pub const COMPRESSED: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

    /// The end of its file's name, behind the plain file's name.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Plain => "",
            Coding::Brotli => ".br",
            Coding::Gzip => ".gz",
        }
    }

    /// HTTP's name for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Coding::Plain => "identity",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }
}
