//! The width and the English of the comments in the sources of the library and of its network
//! crates.

use crate::english;
use crate::prose::WIDEST;

/// The folders whose comments follow the rules of prose.
pub const FOLDERS: [&str; 5] = [
    "crates/commonhold/src/",
    "crates/commonhold-io/",
    "crates/commonhold-replicate/",
    "crates/commonhold-files/",
    "crates/commonhold-nats/",
];

/// What is wrong with the comments of the file at `path` (from the project's root on).
pub fn of_file(path: &str, text: &str) -> Vec<String> {
    match FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        true => of_text(text),
        false => Vec::new(),
    }
}

/// What is wrong with the comments of a source text.
pub fn of_text(text: &str) -> Vec<String> {
    let mut wrong = too_wide(text);
    for (line, paragraph) in paragraphs(text) {
        let found = english::of_text(&paragraph);
        wrong.extend(found.into_iter().map(|what| format!("line {line}: {what}")));
    }
    wrong
}

/// The text of a line that is a comment and nothing else, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
}

/// Comment lines that are too wide. A line that is one long word cannot be broken.
fn too_wide(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let wide = lines.filter(|(_, line)| {
        line.chars().count() > WIDEST && comment(line).is_some_and(|text| text.contains(' '))
    });
    wide.map(|(at, _)| format!("line {}: wider than {WIDEST} columns", at + 1)).collect()
}

/// The paragraphs of all comments, each with the number of its first line; no code, no tables.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut code) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let comment = comment(line);
        let fence = comment.is_some_and(|text| text.starts_with("```"));
        code = comment.is_some() && (code != fence);
        let prose = comment.filter(|text| !(code || fence || text.is_empty()));
        let prose = prose.filter(|text| !text.starts_with(['|', '#']));
        match (prose, found.last_mut()) {
            (Some(text), Some((_, last))) if inside && !text.starts_with("- ") => {
                last.push(' ');
                last.push_str(text);
            }
            (Some(text), _) => found.push((at + 1, text.to_owned())),
            (None, _) => {}
        }
        inside = prose.is_some();
    }
    found
}
