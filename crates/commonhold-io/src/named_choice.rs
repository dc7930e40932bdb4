//! Choices by name, as a command line shows them.

use std::fmt;

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChoice {
    #[doc(hidden)]
    pub word: String,
    #[doc(hidden)]
    pub valid: Vec<&'static str>,
}

impl fmt::Display for UnknownChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': expected one of {}", self.word.escape_debug(), self.valid.join(", "))
    }
}

impl std::error::Error for UnknownChoice {}

/// Gives each variant its word, and the type a list of its variants.
#[macro_export]
macro_rules! named_choice {
    ($kind:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $kind {
            /// All variants.
            pub const ALL: [$kind; [$($word),+].len()] = [$($kind::$variant),+];

            /// The variant's word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($kind::$variant => $word),+ }
            }
        }

        impl ::std::fmt::Display for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl ::std::str::FromStr for $kind {
            type Err = $crate::named_choice::UnknownChoice;

            fn from_str(word: &str) -> ::std::result::Result<$kind, Self::Err> {
                match word {
                    $($word => Ok($kind::$variant),)+
                    _ => Err($crate::named_choice::UnknownChoice {
                        word: word.to_owned(),
                        valid: vec![$($word),+],
                    }),
                }
            }
        }
    };
}
