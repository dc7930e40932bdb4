//! The English of what programs print: the string literals of every crate. Help texts are checked
//! by the tests of the command, which read them as a user does.

use crate::english::{self, Phrase};
use crate::source;

/// Phrases that are banned in messages only, and what to write instead.
const BANNED: [Phrase; 9] = [
    ("nobody", "`no process`, `none`"),
    ("somebody", "`another process`"),
    ("whoever", "name who: `every client that ...`"),
    ("want", "`expected ..., got ...`"),
    ("wants", "`needs`, `requests`"),
    ("goes on", "`continues`, `resumes`"),
    ("tries again", "`retries`, `retrying`"),
    ("makes no sense", "`is invalid`"),
    ("as long as it takes", "`without limit`"),
];

/// Where the messages of a program stand.
const FOLDERS: [&str; 2] = ["crates/", "bindings/"];

/// What is wrong with the English of the messages in the file at `path`.
pub fn of_file(path: &str, text: &str) -> Vec<String> {
    let is_program = path.contains("/src/") && !path.contains("/tests/");
    if !is_program || !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    source::literals(program)
        .iter()
        .flat_map(|literal| {
            let mut found = english::of_text(&literal.text);
            found.extend(english::banned(&literal.text, &BANNED));
            found.into_iter().map(|what| format!("line {}: {what}", literal.line))
        })
        .collect()
}
