//! Links between the project's documents lead to files and headings that exist.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::pages::Page;

/// All documents, by their path from the root, and how to know whether any other file exists.
pub struct Site<'a> {
    pub pages: &'a HashMap<String, Page>,
    pub exists: &'a dyn Fn(&str) -> bool,
}

impl Site<'_> {
    /// What is wrong with the links of the page at `path`.
    pub fn dead(&self, path: &str) -> Vec<String> {
        let page = &self.pages[path];
        let dead = page.links.iter().filter(|link| !self.leads_somewhere(path, &link.target));
        dead.map(|link| format!("{path}:{}: dead link to `{}`", link.line, link.target)).collect()
    }

    fn leads_somewhere(&self, from: &str, target: &str) -> bool {
        if target.contains("://") || target.starts_with("mailto:") {
            return true;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { Some(from.to_owned()) } else { resolved(from, file) };
        let Some(path) = path else { return false };
        let anchored = |page: &Page| page.anchors.iter().any(|known| known == anchor);
        match self.pages.get(&path) {
            Some(page) => anchor.is_empty() || anchored(page),
            None => anchor.is_empty() && (self.exists)(&path),
        }
    }
}

/// The path to which `target` in the page `from` leads; `None` if it leaves the project.
fn resolved(from: &str, target: &str) -> Option<String> {
    let mut path: PathBuf = Path::new(from).parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    path.to_str().map(str::to_owned)
}

/// Pages of `docs` that the book's table of contents does not name.
pub fn outside_the_book(pages: &HashMap<String, Page>) -> Vec<String> {
    let summary = "docs/SUMMARY.md";
    let named: Vec<String> =
        pages[summary].links.iter().map(|l| format!("docs/{}", l.target)).collect();
    let mut missing: Vec<String> = pages
        .keys()
        .filter(|path| path.starts_with("docs/") && *path != summary && !named.contains(path))
        .map(|path| format!("{path}: not in docs/SUMMARY.md"))
        .collect();
    missing.sort();
    missing
}

/// The paths with a folder that a text names as code: `map/read.rs`, not `read.rs` or `a, b`.
pub fn paths_in_code(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| word.contains('/') && !word.contains([' ', '*', '{']);
    code.filter(is_path).filter(|word| !word.starts_with("./")).map(str::to_owned).collect()
}
