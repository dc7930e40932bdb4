//! The rules for the project's documents, applied to all of them.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use crate::links::{self, Site};
use crate::pages::Page;
use crate::{files, prose, root};

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
        .flat_map(|(path, page)| {
            let found = prose::of_page(&texts[path], page);
            found.into_iter().map(move |what| format!("{path}: {what}"))
        })
        .collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{} broken:\n{}", wrong.len(), wrong.join("\n"));
}

/// The longest that the tour may be, in lines.
const LONGEST_TOUR: usize = 150;

/// Where a path in the tour's table may begin.
const TABLE_ROOTS: [&str; 3] = ["", "crates/commonhold/src/", "crates/commonhold/tests/"];

#[test]
fn the_tour_is_short_and_names_files_that_exist() {
    let root = root();
    let tour = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let lines = tour.lines().count();
    assert!(lines <= LONGEST_TOUR, "ARCHITECTURE.md has {lines} lines ({LONGEST_TOUR} at most)");
    let (_, table) = tour.split_once("## Where to change what").expect("the table of changes");
    let paths = links::paths_in_code(table);
    assert!(paths.len() > 40, "the table names only {} files", paths.len());
    let exists = |path: &&String| TABLE_ROOTS.iter().any(|at| root.join(at).join(path).exists());
    let missing: Vec<&String> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}

#[test]
fn the_crash_table_and_the_code_name_the_same_steps() {
    let root = root();
    let read = |path: &str| fs::read_to_string(root.join(path)).expect(path);
    let list = read("crates/commonhold/src/steps/list.rs");
    let steps: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(steps.len() > 150, "found only {} steps", steps.len());
    let page = read("docs/internals/concurrency.md");
    let (_, section) = page.split_once("\n## 20. ").expect("the section of the crash table");
    let (table, _) = section.split_once("\n### ").expect("the end of the crash table");
    let missing: Vec<_> =
        steps.iter().filter(|step| !table.contains(&format!("`{step}`"))).collect();
    assert!(missing.is_empty(), "steps without a row in the crash table: {missing:?}");
    let killed_at = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let named = killed_at.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let unknown: Vec<&str> = named.filter(|name| !steps.contains(name)).collect();
    assert!(unknown.is_empty(), "the crash table has steps that do not exist: {unknown:?}");
}

#[test]
fn the_breaks_that_the_page_of_models_names_exist() {
    let root = root();
    let code: String = files(&root.join("models/src"), ".rs")
        .iter()
        .map(|path| fs::read_to_string(path).expect("UTF-8"))
        .collect();
    let known: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric()).collect();
    let page = fs::read_to_string(root.join("docs/internals/models.md")).expect("the page");
    let (_, breaks) = page.split_once("## The breaks").expect("the section of breaks");
    let (table, _) = breaks.split_once("\n## ").expect("the end of the section");
    let named: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    assert!(named.len() > 40, "found only {} breaks", named.len());
    let unknown: Vec<&str> = named.into_iter().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "models.md names breaks that do not exist: {unknown:?}");
}
