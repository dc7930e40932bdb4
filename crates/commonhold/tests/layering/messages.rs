//! The English of what programs print: the string literals of every crate.

use crate::{english, source};

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
            let found = english::of_text(&literal.text).into_iter();
            found.map(|what| format!("line {}: {what}", literal.line))
        })
        .collect()
}
