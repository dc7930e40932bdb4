//! The width and the English of prose in documents.

use crate::english::{BANNED, banned, of_text};
use crate::pages::Page;

/// The widest line of prose, in characters. Code, tables and single long words may be wider.
pub const WIDEST: usize = 100;

/// What is wrong with the prose of a page.
pub fn of_page(text: &str, page: &Page) -> Vec<String> {
    let mut wrong = too_wide(text, page);
    for passage in &page.passages {
        let found =
            if passage.heading { banned(&passage.text, &BANNED) } else { of_text(&passage.text) };
        wrong.extend(found.into_iter().map(|what| format!("line {}: {what}", passage.line)));
    }
    wrong
}

/// Lines of prose that are too wide. A line that is one long word, such as an address, cannot be
/// broken.
fn too_wide(text: &str, page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let width = line.chars().count();
        let bound = !page.unbound.iter().any(|lines| lines.contains(&number));
        if bound && width > WIDEST && line.trim().contains(' ') {
            wrong.push(format!("line {number}: {width} columns wide ({WIDEST} at most)"));
        }
    }
    wrong
}
