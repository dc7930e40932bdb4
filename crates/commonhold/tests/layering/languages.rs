//! docs/reference/languages.md: the names that it promises for Rust and C exist. The suites of C++,
//! Python and Ruby check their own columns; the symbols of C are compared with the header by
//! `bindings/c/src/abi_tests.rs`.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, sources};

const PAGE: &str = "docs/reference/languages.md";
/// The columns after the operation: Rust, C, C++, Python, Ruby.
const LANGUAGES: usize = 5;
/// The crates whose names stand in the column of Rust.
const CRATES: [&str; 2] = ["crates/commonhold/src/", "crates/commonhold-replicate/src/"];

/// One row of the page's tables.
pub struct Row {
    line: usize,
    cells: Vec<String>,
}

/// The rows of all tables, without their heads.
pub fn rows(page: &str) -> Vec<Row> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| operation |");
    let numbered = page.lines().enumerate().filter(|(_, line)| is_row(line));
    let row = |(number, line): (usize, &str)| {
        let cells = line.trim_matches('|').split('|').skip(1);
        Row { line: number + 1, cells: cells.map(|cell| cell.trim().to_owned()).collect() }
    };
    numbered.map(row).collect()
}

/// The names in a cell: its spans of code.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// What is wrong with the form of a page: a cell has names, or a dash with a note that exists.
pub fn of_page(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for Row { line, cells } in rows(page) {
        if cells.len() != LANGUAGES {
            wrong.push(format!("line {line}: {} languages, not {LANGUAGES}", cells.len()));
        }
        for cell in &cells {
            let note = cell.strip_prefix("- ").filter(|note| note.starts_with("[^"));
            let reason = note.is_some_and(|note| page.contains(&format!("\n{note}: ")));
            if names(cell).next().is_none() && !reason {
                wrong.push(format!("line {line}: `{cell}` has neither a name nor a reason"));
            }
        }
    }
    wrong
}

/// The names in one column that are not among those that exist.
pub fn missing(page: &str, column: usize, exist: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for Row { line, cells } in rows(page) {
        let promised = names(cells.get(column).map_or("", String::as_str));
        let absent = promised.filter(|name| !exist.contains(*name));
        wrong.extend(absent.map(|name| format!("line {line}: {name} does not exist")));
    }
    wrong
}

/// The public functions of a Rust file: methods as `Type::name`, others as `name` and as
/// `module::name` for each module that they are in.
pub fn rust_names(module: &[String], text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut owner = None;
    for line in text.lines() {
        if line.starts_with("impl") {
            owner = type_of(line);
        } else if line.starts_with('}') {
            owner = None;
        }
        let (Some(name), indent) = (public_function(line), line.starts_with("    ")) else {
            continue;
        };
        match (&owner, indent) {
            (Some(owner), true) => drop(found.insert(format!("{owner}::{name}"))),
            (None, false) => {
                found.extend(module.iter().map(|module| format!("{module}::{name}")));
                found.insert(name);
            }
            _ => {}
        }
    }
    found
}

/// The type of an `impl` block that has methods of its own.
fn type_of(line: &str) -> Option<String> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    let is_trait = rest.contains(" for ");
    (!is_trait).then(|| word(rest.trim_start()).to_owned())
}

/// The name of the public function that a line begins.
fn public_function(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["const ", "unsafe "]
        .iter()
        .fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
    rest.strip_prefix("fn ").map(|rest| word(rest).to_owned())
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The functions that a header of C declares.
pub fn c_names(header: &str) -> BTreeSet<String> {
    let declared = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
    let before = declared.filter_map(|line| line.split_once('(')).map(|(before, _)| before);
    let name = |before: &str| before.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
    before.map(name).filter(|name| name.starts_with("ch_")).collect()
}

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).expect(PAGE)
}

#[test]
fn each_cell_of_the_languages_has_a_name_or_a_reason() {
    let page = page();
    assert!(rows(&page).len() > 100, "the page has only {} rows", rows(&page).len());
    let wrong = of_page(&page);
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn names_promised_for_rust_exist() {
    let mut exist = BTreeSet::new();
    for (path, text) in sources() {
        let module = CRATES.iter().find_map(|folder| crate::module_below(folder, &path));
        exist.extend(module.iter().flat_map(|module| rust_names(module, &text)));
    }
    let wrong = missing(&page(), 0, &exist);
    assert!(wrong.is_empty(), "{PAGE}, Rust:\n{}", wrong.join("\n"));
}

#[test]
fn names_promised_for_c_exist() {
    let path = "bindings/c/include/commonhold.h";
    let exist = c_names(&fs::read_to_string(root().join(path)).expect(path));
    let wrong = missing(&page(), 1, &exist);
    assert!(wrong.is_empty(), "{PAGE}, C:\n{}", wrong.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| operation | Rust | C | C++ | Python | Ruby |
|---|---|---|---|---|---|
| get | `Map::get` | `ch_map_get`, `ch_map_get_into` | `map::get` | - [^copy] | `Map#get` |

[^copy]: A copy is needed.
";

    #[test]
    fn cells_without_a_name_need_a_reason() {
        assert_eq!(of_page(TABLE), Vec::<String>::new());
        for bad in ["-", "- [^none]", "get", ""] {
            let found = of_page(&TABLE.replace("- [^copy]", bad));
            assert!(found.len() == 1 && found[0].contains("line 3"), "{bad}: {found:?}");
        }
        assert_eq!(of_page(&TABLE.replace("| `Map#get` |", "|")).len(), 1);
    }

    #[test]
    fn made_up_names_of_rust_are_noticed() {
        let text = "\
impl<K: Codec<u8>, V> Map<K, V> {
    pub fn get(&self) {}
    pub const fn len(&self) {}
    pub(crate) fn hidden(&self) {}
}
impl Iterator for Iter {
    pub fn next(&self) {}
}
pub unsafe fn list() {}
mod tests {
    pub fn inner() {}
}
";
        let exist = rust_names(&["hold".to_owned(), "files".to_owned()], text);
        let expected = ["Map::get", "Map::len", "files::list", "hold::list", "list"];
        assert_eq!(exist.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(missing(TABLE, 0, &exist), Vec::<String>::new());
        let found = missing(&TABLE.replace("Map::get", "Map::gets"), 0, &exist);
        assert_eq!(found, ["line 3: Map::gets does not exist"]);
    }

    #[test]
    fn made_up_names_of_c_are_noticed() {
        let header = "\
/* See ch_map_gone(). */
int ch_map_get(const ch_map *map);
static inline int ch_map_get_into(const ch_map *map) {
    return ch_map_inner(map);
}
const char *ch_version(void);
typedef int (*ch_update_fn)(void *user);
";
        let exist = c_names(header);
        let expected = ["ch_map_get", "ch_map_get_into", "ch_version"];
        assert_eq!(exist.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(missing(TABLE, 1, &exist), Vec::<String>::new());
        let found = missing(&TABLE.replace("ch_map_get_into", "ch_map_get_all"), 1, &exist);
        assert_eq!(found, ["line 3: ch_map_get_all does not exist"]);
    }
}
