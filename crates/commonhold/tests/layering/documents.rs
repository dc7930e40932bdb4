//! The rules for the project's documents, applied to all of them.

use std::collections::HashMap;
use std::fs;

use crate::links::{self, Site};
use crate::pages::Page;
use crate::{files, prose, root};

/// Documents whose prose is not yet held to the rules. The list only shrinks.
const PROSE_PENDING: &[&str] = &[
    "ARCHITECTURE.md",
    "docs/internals/concurrency.md",
    "docs/internals/models.md",
    "docs/reference/format.md",
    "docs/reference/wire.md",
];

/// Every document of the project by its path from the root: its text, and what it consists of.
fn documents() -> (HashMap<String, String>, HashMap<String, Page>) {
    let root = root();
    let texts: HashMap<String, String> = files(&root, ".md")
        .into_iter()
        .map(|path| {
            let shown = path.strip_prefix(&root).expect("a path below the root");
            (shown.to_string_lossy().into_owned(), fs::read_to_string(&path).expect("UTF-8"))
        })
        .collect();
    assert!(texts.len() > 20, "found only {} documents", texts.len());
    let pages = texts.iter().map(|(path, text)| (path.clone(), Page::read(text))).collect();
    (texts, pages)
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = root();
    let (_, pages) = documents();
    let exists = |path: &str| root.join(path).exists();
    let site = Site { pages: &pages, exists: &exists };
    let mut wrong: Vec<String> = pages.keys().flat_map(|path| site.dead(path)).collect();
    wrong.sort();
    wrong.extend(links::outside_the_book(&pages));
    assert!(wrong.is_empty(), "{} dead:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn documents_are_written_in_plain_english() {
    let (texts, pages) = documents();
    let mut wrong: Vec<String> = pages
        .iter()
        .filter(|(path, _)| !PROSE_PENDING.contains(&path.as_str()))
        .flat_map(|(path, page)| {
            let found = prose::of_page(&texts[path], page);
            found.into_iter().map(move |what| format!("{path}: {what}"))
        })
        .collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{} broken:\n{}", wrong.len(), wrong.join("\n"));
}
