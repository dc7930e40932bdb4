//! The choices of a server, as words that are passed to it: the loop, the map of requests, the
//! cache.
//!
//! A choice has no meaning here; only `hold serve` knows it. So a matrix is simply all combinations
//! of words.

use clap::builder::PossibleValuesParser;

/// A choice's name, which is that of its option, and its values.
pub struct Dimension {
    /// Such as `loop`.
    pub name: &'static str,
    /// Such as `epoll`.
    pub values: &'static [&'static str],
}

const LOOPS: &[&str] = &["epoll", "pool", "uring"];
const REQUESTS: &[&str] = &["std", "hashbrown", "slab"];
const EVICTIONS: &[&str] = &["none", "mutex", "lockfree"];
const CACHES: &[&str] = &["none", "std", "hashbrown", "hold"];
const BACKENDS: &[&str] = &["sendfile", "sqlite"];

/// All of them, in the order of the options.
pub const DIMENSIONS: [Dimension; 5] = [
    Dimension { name: "loop", values: LOOPS },
    Dimension { name: "requests", values: REQUESTS },
    Dimension { name: "eviction", values: EVICTIONS },
    Dimension { name: "cache", values: CACHES },
    Dimension { name: "files", values: BACKENDS },
];

/// Their names, for the command line.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(DIMENSIONS.map(|dimension| dimension.name))
}

/// The chosen values; the server's own defaults for the rest.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choices {
    /// How the server waits for sockets
    #[arg(long = "loop", value_name = "LOOP", value_parser = PossibleValuesParser::new(LOOPS))]
    kind: Option<String>,

    /// The data structure that holds the server's connections
    #[arg(long, value_name = "MAP", value_parser = PossibleValuesParser::new(REQUESTS))]
    requests: Option<String>,

    /// How the server evicts contents when the cache is full
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(EVICTIONS))]
    eviction: Option<String>,

    /// Where the server caches contents
    #[arg(long, value_name = "CACHE", value_parser = PossibleValuesParser::new(CACHES))]
    cache: Option<String>,

    /// Where the server reads files from
    #[arg(long, value_name = "BACKEND", value_parser = PossibleValuesParser::new(BACKENDS))]
    files: Option<String>,
}

/// A name and a word for each choice that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Combination(Vec<(&'static str, String)>);

impl Choices {
    /// As one combination.
    pub fn combination(&self) -> Combination {
        let words = [&self.kind, &self.requests, &self.eviction, &self.cache, &self.files];
        let named = DIMENSIONS.iter().map(|dimension| dimension.name).zip(words);
        Combination(named.filter_map(|(name, word)| Some((name, word.clone()?))).collect())
    }
}

impl Combination {
    /// The value of `name`.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, word)| word.as_str())
    }

    /// The same with another word for `name`.
    fn with(&self, name: &'static str, word: &str) -> Combination {
        let rest = self.0.iter().filter(|(other, _)| *other != name).cloned();
        Combination(rest.chain([(name, word.to_owned())]).collect())
    }

    /// All combinations of the dimensions `varied`; the other choices stay.
    pub fn vary(&self, varied: &[&Dimension]) -> Vec<Combination> {
        varied.iter().fold(vec![self.clone()], |all, dimension| {
            let each = |one: &Combination| -> Vec<Combination> {
                dimension.values.iter().map(|word| one.with(dimension.name, word)).collect()
            };
            all.iter().flat_map(each).collect()
        })
    }

    /// As the server's options.
    pub fn options(&self) -> Vec<String> {
        self.0.iter().flat_map(|(name, word)| [format!("--{name}"), word.clone()]).collect()
    }

    /// For people and results: `loop=epoll cache=hold`.
    pub fn shown(&self) -> String {
        let words: Vec<String> =
            self.0.iter().map(|(name, word)| format!("{name}={word}")).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_matrix_has_every_combination_once() {
        let all: Vec<&Dimension> = DIMENSIONS.iter().collect();
        let matrix = Combination::default().vary(&all);
        let different: HashSet<String> = matrix.iter().map(Combination::shown).collect();
        assert_eq!((matrix.len(), different.len()), (216, 216));
    }

    #[test]
    fn options_that_are_not_varied_stay_as_chosen() {
        let choices =
            Choices { kind: Some("pool".into()), cache: Some("hold".into()), ..Choices::default() };
        let matrix = choices.combination().vary(&[&DIMENSIONS[3]]);
        let caches: Vec<_> = matrix.iter().filter_map(|one| one.word("cache")).collect();
        assert_eq!(caches, CACHES);
        assert!(matrix.iter().all(|one| one.word("loop") == Some("pool")));
        assert_eq!(matrix[0].options(), ["--loop", "pool", "--cache", "none"]);
        assert_eq!(matrix[0].word("files"), None);
    }
}
