//! Options that are one of some words: the help lists them, so do errors and completions.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A parser of one of these, each by its word.
pub fn choice<K: Copy + Send + Sync + 'static>(
    all: &'static [K],
    word: fn(K) -> &'static str,
) -> impl TypedValueParser<Value = K> {
    PossibleValuesParser::new(all.iter().map(move |&kind| word(kind))).map(move |chosen| {
        let named = all.iter().copied().find(|&kind| word(kind) == chosen);
        // The parser lets no other word pass.
        named.unwrap_or(all[0])
    })
}
