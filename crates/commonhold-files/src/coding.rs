//! How contents are coded, and what a coded file is called.

/// How contents are coded; beside a file may be others with the same contents, compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As they are.
    Plain,
    /// Brotli, in a file whose name ends with `.br`.
    Brotli,
    /// Gzip, in a file whose name ends with `.gz`.
    Gzip,
}

impl Coding {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Coding; 3] = [Coding::Plain, Coding::Brotli, Coding::Gzip];

    /// The codings of the files beside, the better one first.
    pub const BESIDE: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

    /// What its file's name ends with, beyond the plain file's.
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
