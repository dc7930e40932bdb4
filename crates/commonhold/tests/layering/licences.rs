//! Licences of everything that the project is built on, against the list in `deny.toml`.
//!
//! `cargo deny` reads the same list, and more (advisories, bans); building it takes minutes, so
//! this part of its work is done here for everybody.

use std::path::Path;
use std::process::Command;

/// The licences that `deny.toml` allows.
pub fn allowed(policy: &str) -> Vec<String> {
    let section = policy.split_once("[licenses]").map_or("", |(_, rest)| rest);
    let list = section.split_once("allow = [").map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split(','));
    names.map(|n| n.trim().trim_matches('"').to_owned()).filter(|n| !n.is_empty()).collect()
}

/// Every package that the workspace is built from or tested with, and its licence.
pub fn used(root: &Path) -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--all-features", "--edges", "normal,build,dev"])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"])
        .current_dir(root)
        .output()
        .expect("cargo tree");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree failed: {said}");
    let text = String::from_utf8(output.stdout).expect("UTF-8 from cargo tree");
    let mut found: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(package, licence)| (package.to_owned(), licence.to_owned()))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether a licence expression (SPDX, or the old form with `/`) can be met from `allowed`.
pub fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let verdict = reader.either();
    verdict && reader.words.is_empty()
}

/// Reads an expression by descent: OR binds loosest, then AND, then WITH.
struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Reader<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let is = self.words.first() == Some(&word);
        if is {
            self.words = &self.words[1..];
        }
        is
    }

    fn either(&mut self) -> bool {
        let mut verdict = self.both();
        while self.next_is("OR") {
            verdict |= self.both();
        }
        verdict
    }

    fn both(&mut self) -> bool {
        let mut verdict = self.one();
        while self.next_is("AND") {
            verdict &= self.one();
        }
        verdict
    }

    fn one(&mut self) -> bool {
        if self.next_is("(") {
            let verdict = self.either();
            return self.next_is(")") && verdict;
        }
        let Some((&name, rest)) = self.words.split_first() else { return false };
        self.words = rest;
        let mut name = name.to_owned();
        if self.next_is("WITH") {
            let Some((exception, rest)) = self.words.split_first() else { return false };
            name = format!("{name} WITH {exception}");
            self.words = rest;
        }
        self.allowed.contains(&name)
    }
}
