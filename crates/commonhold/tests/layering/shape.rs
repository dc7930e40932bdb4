//! The shape of files: none too long, each saying at its top what it is, each with a real name.

/// The longest file that is allowed, in lines. Most should stay under 400.
const MOST_LINES: usize = 600;

/// Names of files and folders that say nothing.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "helper", "helpers", "manager", "common", "misc"];

/// What is wrong with the shape of the file at `path` (from the project's root on).
pub fn of_file(path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        wrong.push(format!("has {lines} lines; split it by its ideas ({MOST_LINES} at most)"));
    }
    if !text.starts_with("//!") {
        wrong.push("does not open with `//!` and what it is".to_owned());
    }
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    for name in stem.split('/').filter(|name| EMPTY_NAMES.contains(name)) {
        wrong.push(format!("`{name}` names no idea; name what it holds"));
    }
    wrong
}
