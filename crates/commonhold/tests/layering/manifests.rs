//! The facts that all manifests state: licence, version of Rust, edition, and the dependencies,
//! each of which has its reason in docs/internals/decisions.md.

use crate::layers::read_manifest;
use crate::{files, root};
use std::fs;
use std::path::Path;

/// The keys that a package takes from the workspace; `bench`, a workspace of its own, repeats them.
const SHARED: [&str; 3] = ["edition", "rust-version", "license"];

/// The text of a file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value of `key` in a section of a manifest, without its quotes.
fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let (_, rest) = manifest.split_once(&format!("[{section}]\n"))?;
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let mut values = lines.filter_map(|line| line.split_once('='));
    let (_, value) = values.find(|(name, _)| name.trim() == key)?;
    Some(value.trim().trim_matches('"'))
}

/// What a package's manifest states differently from the workspace's.
pub fn differing(workspace: &str, manifest: &str) -> Vec<String> {
    let differs = |key: &&&str| {
        let taken = value(manifest, "package", &format!("{key}.workspace")) == Some("true");
        let own = value(manifest, "package", key);
        !taken && (own.is_none() || own != value(workspace, "workspace.package", key))
    };
    let wrong = SHARED.iter().filter(differs);
    wrong.map(|key| format!("`{key}` is not the workspace's")).collect()
}

/// The dependencies of a manifest that `reasons` does not name.
pub fn without_reason(manifest: &str, reasons: &str) -> Vec<String> {
    let (_, dependencies) = read_manifest(manifest);
    let foreign = dependencies.into_iter().map(|(_, name)| name);
    let foreign = foreign.filter(|name| !name.starts_with("commonhold"));
    let wrong = foreign.filter(|name| !reasons.contains(&format!("`{name}`")));
    wrong.map(|name| format!("decisions.md gives no reason for `{name}`")).collect()
}

/// Each manifest of a package with its path.
fn manifests() -> Vec<(String, String)> {
    let folders = ["crates", "models", "bench", "bindings"].map(|folder| root().join(folder));
    let paths = folders.iter().flat_map(|folder| files(folder, "Cargo.toml"));
    let shown = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.map(|path| (shown(&path), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn manifests_agree_and_dependencies_have_reasons() {
    let (workspace, reasons) = (read("Cargo.toml"), read("docs/internals/decisions.md"));
    let mut wrong = Vec::new();
    for (path, manifest) in manifests() {
        let mut found = differing(&workspace, &manifest);
        found.extend(without_reason(&manifest, &reasons));
        wrong.extend(found.into_iter().map(|what| format!("{path}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn packages_and_documents_agree_with_the_workspace() {
    let workspace = read("Cargo.toml");
    let shared = |key| value(&workspace, "workspace.package", key).expect(key);
    let (licence, rust) = (shared("license"), shared("rust-version"));
    let python = read("bindings/python/pyproject.toml");
    assert_eq!(value(&python, "project", "license"), Some(licence));
    let ruby = read("bindings/ruby/commonhold.gemspec");
    let list: Vec<&str> = licence.split(" OR ").collect();
    assert!(ruby.contains(&format!("spec.licenses = %w[{}]", list.join(" "))), "{licence}");
    let readme = read("README.md");
    assert!(readme.contains(&format!("under {}", list.join(" or "))), "README: {licence}");
    for page in ["README.md", "docs/guide/install.md"] {
        assert!(read(page).contains(&format!("Rust {rust} or newer")), "{page}: not Rust {rust}");
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(read(name).len() > 500, "{name}");
    }
}

#[cfg(test)]
mod samples {
    use super::*;

    const WORKSPACE: &str = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.91\"\n\
                             license = \"MIT OR Apache-2.0\"\n";

    #[test]
    fn other_facts_and_unexplained_dependencies_are_caught() {
        let taken = "[package]\nedition.workspace = true\nrust-version.workspace = true\n\
                     license.workspace = true\n";
        assert_eq!(differing(WORKSPACE, taken), Vec::<String>::new());
        let repeated = WORKSPACE.replace("workspace.", "");
        assert_eq!(differing(WORKSPACE, &repeated), Vec::<String>::new());
        let older = repeated.replace("1.91", "1.90");
        assert_eq!(differing(WORKSPACE, &older), ["`rust-version` is not the workspace's"]);
        assert_eq!(differing(WORKSPACE, "[package]\nedition = \"2024\"\n").len(), 2);
        let manifest = "[dependencies]\nlibc = \"0.2\"\n[dev-dependencies]\nsyn = \"3\"\n";
        assert_eq!(without_reason(manifest, "`libc` calls the system").len(), 1);
        assert_eq!(without_reason(manifest, "`libc`, `syn`").len(), 0);
    }
}
