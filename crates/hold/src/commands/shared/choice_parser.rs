//! Options with a fixed set of words: the help, errors and completions list them.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A parser for one of these values, each by its word.
pub fn choice<K: Copy + Send + Sync + 'static>(
    all: &'static [K],
    word: fn(K) -> &'static str,
) -> impl TypedValueParser<Value = K> {
    PossibleValuesParser::new(all.iter().map(move |&kind| word(kind))).map(move |chosen| {
        let named = all.iter().copied().find(|&kind| word(kind) == chosen);
        // The parser accepts no other word.
        named.unwrap_or(all[0])
    })
}
