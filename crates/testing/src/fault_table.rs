//! A crate's table of faults against its sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut sources(&path));
        } else if !path.ends_with("faults.rs") {
            found.push(path);
        }
    }
    found
}

/// The names in `fault!`, `errno_fault!` or `shortened!`.
fn in_sources(folder: &Path) -> BTreeSet<String> {
    let texts = sources(folder).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let names = |text: String| {
        let parts = ["fault!(", "shortened!("].map(|start| {
            let parts = text.split(start).skip(1);
            let quoted = parts.filter_map(|p| p.trim_start().strip_prefix('"')?.split_once('"'));
            quoted.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        });
        parts.concat()
    };
    texts.flat_map(names).collect()
}

/// Checks that every fault in the sources of the crate at `manifest` is in its table and the other
/// way round, and that each can be armed with each of its errors.
#[track_caller]
pub fn agrees_with_sources(
    table: &[(&str, &[&str])],
    manifest: &str,
    arm: fn(&str) -> commonhold::Result<()>,
) {
    let listed: BTreeSet<_> = table.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), table.len(), "a name is twice in the table");
    let found = in_sources(&Path::new(manifest).join("src"));
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the table: {unlisted:?}");
    let unused: Vec<_> = listed.difference(&found).collect();
    assert!(unused.is_empty(), "in the table, and nowhere else: {unused:?}");
    for (name, errors) in table {
        assert!(!errors.is_empty(), "{name} has no errors");
        for error in *errors {
            // Armed so late that no other test of this process passes it that often.
            let spec = format!("{name}:{error}:once:{}", u64::MAX);
            arm(&spec).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    arm("").unwrap();
}
