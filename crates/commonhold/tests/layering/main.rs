//! Dependencies point down only, files have their shape, every licence is one we may use, the
//! documents link to what exists, and documents, comments and messages read well.
//!
//! These tests read the project's sources, not the library. Each rule is also shown a bad sample
//! (`samples`), so that a rule that lets everything pass is noticed.

mod circles;
mod comments;
mod documents;
mod english;
mod languages;
mod layers;
mod licences;
mod links;
mod manifests;
mod messages;
mod pages;
mod prose;
mod public_api;
mod samples;
mod shape;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

/// Where a file of a crate other than the library may be unsafe, and why.
const UNSAFE_OUTSIDE: [(&str, &str); 25] = [
    (
        "bench/src/rivals/lmdb.rs",
        "opening LMDB is unsafe by its nature: it trusts its file and lock",
    ),
    (
        "bench/src/rivals/mmap_sync.rs",
        "reading mmap-sync is unsafe by its nature: it trusts its files",
    ),
    ("bindings/c/src/ffi/alone.rs", "lets one thread at a time at a value"),
    ("bindings/c/src/ffi/bytes.rs", "bytes, names and buffers that C gives"),
    ("bindings/c/src/ffi/call.rs", "tells C of errors; functions with names that C knows"),
    ("bindings/c/src/ffi/fd.rs", "file descriptors that C gives"),
    ("bindings/c/src/ffi/give.rs", "places of C's for results"),
    ("bindings/c/src/ffi/handle.rs", "handles that C gives back"),
    ("bindings/c/src/ffi/take.rs", "structures that C filled in"),
    ("bindings/c/src/ffi/user.rs", "C's own pointers, passed on from thread to thread"),
    ("bindings/python/src/ffi/descriptor.rs", "file descriptors that Python gives"),
    ("bindings/python/src/ffi/frozen.rs", "a freeze with the hold that it borrows from"),
    ("bindings/python/src/ffi/input.rs", "bytes that Python gives"),
    ("bindings/python/src/ffi/scratch.rs", "room for a value that nobody fills before"),
    ("bindings/python/src/ffi/window.rs", "a hold's memory as a buffer of Python's"),
    ("crates/commonhold-io/src/sockets/calls.rs", "hands the system memory that others write"),
    ("crates/commonhold-io/src/sockets/outgoing.rs", "the promise that such memory is readable"),
    ("crates/commonhold-io/src/sockets/ring.rs", "the entries of io_uring's queues"),
    ("crates/commonhold-io/src/sockets/uring.rs", "gives these to the kernel"),
    ("crates/commonhold-replicate/src/protocol/payload.rs", "the promise for a stream's memory"),
    ("crates/commonhold-files/src/payload.rs", "the promise for contents of files"),
    ("crates/commonhold-io/src/sockets/tests/edge.rs", "forbids a child io_uring by seccomp"),
    ("crates/commonhold-io/src/sockets/tests/mod.rs", "sends memory that was leaked"),
    ("crates/commonhold-io/src/sockets/tests/processes.rs", "sets limits and signals of children"),
    ("crates/commonhold-replicate/tests/links/wire.rs", "asks the kernel for a tunnel by ioctl"),
];

/// The project's root.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the project's root")
}

/// Every file below `folder` whose name ends in `ending`, build results left out, in order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("a folder entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, ending));
        } else if path.is_file() && name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Every Rust file of the project with its path from the root and its text.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let folders = ["crates", "models", "bench", "bindings"];
    let paths = folders.iter().flat_map(|folder| files(&root.join(folder), ".rs"));
    let found: Vec<(String, String)> = paths
        .map(|path| {
            let shown = path.strip_prefix(&root).expect("a path below the root");
            (shown.to_string_lossy().into_owned(), fs::read_to_string(&path).expect("UTF-8"))
        })
        .collect();
    assert!(found.iter().any(|(path, _)| path == "crates/commonhold/src/lib.rs"));
    found
}

/// The module that a file below `folder` is: `map/read.rs` is `["map", "read"]`.
fn module_below(folder: &str, path: &str) -> Option<Vec<String>> {
    let inside = path.strip_prefix(folder)?.strip_suffix(".rs")?;
    let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

/// The module that a file of the library's `src` is.
fn module_of(path: &str) -> Option<Vec<String>> {
    module_below("crates/commonhold/src/", path)
}

fn verify(rule: impl Fn(&str, &str) -> Vec<String>) {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        wrong.extend(rule(&path, &text).into_iter().map(|what| format!("{path}: {what}")));
    }
    assert!(wrong.is_empty(), "{} broken:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn dependencies_inside_crates_point_down() {
    for (folder, ranks) in layers::RANKED {
        let [lib, main] = ["lib.rs", "main.rs"].map(|name| root().join(folder).join(name));
        let text = fs::read_to_string(lib).or_else(|_| fs::read_to_string(main)).expect("a root");
        let passed_on = layers::Root::read(ranks, &text);
        verify(|path, text| {
            let module = module_below(folder, path);
            module.map_or(Vec::new(), |module| layers::upward(&module, text, &passed_on))
        });
    }
}

#[test]
fn circles_inside_modules_have_a_reason() {
    let module = |(path, text): (String, String)| Some((module_of(&path)?, text));
    let files: Vec<_> = sources().into_iter().filter_map(module).collect();
    let mut wrong = Vec::new();
    for top in circles::MODULES {
        let arrows = circles::arrows(top, &files);
        assert!(arrows.len() > 10, "{top} has only the files {arrows:?}");
        for folder in circles::folders(top) {
            let folder = format!("{folder}/");
            assert!(arrows.keys().any(|file| file.starts_with(&folder)), "{top} has no {folder}");
        }
        wrong.extend(circles::upward(top, &arrows));
        wrong.extend(circles::wrong(top, arrows, &circles::CLOSING));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_lowest_layer_calls_the_system() {
    verify(|path, text| {
        module_of(path).map_or(Vec::new(), |module| layers::system_calls(&module, text))
    });
}

#[test]
fn unsafe_code_of_the_library_is_opted_into_and_explained() {
    verify(|path, text| {
        module_of(path).map_or(Vec::new(), |module| layers::unexplained_unsafe(&module, text))
    });
}

#[test]
fn only_the_library_touches_shared_memory() {
    verify(|path, text| {
        let excused = UNSAFE_OUTSIDE.iter().any(|(file, _)| *file == path);
        if path.starts_with("crates/commonhold/") || excused {
            return Vec::new();
        }
        // Sockets have constants and structures of the system's.
        let sockets =
            ["crates/commonhold-io/", "crates/commonhold-replicate/", "crates/commonhold-files/"];
        layers::shared_memory(text, sockets.iter().any(|folder| path.starts_with(folder)))
    });
}

#[test]
fn dependencies_between_crates_point_down() {
    let root = root();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for folder in ["crates", "models", "bench", "bindings"] {
        for path in files(&root.join(folder), "Cargo.toml") {
            let text = fs::read_to_string(&path).expect("a manifest");
            seen += 1;
            wrong.extend(layers::manifest(&text));
        }
    }
    assert!(seen >= 3, "found only {seen} manifests");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_have_their_shape() {
    verify(shape::of_file);
}

#[test]
fn comments_are_written_in_plain_english() {
    verify(comments::of_file);
    let sources = sources();
    for folder in comments::FOLDERS {
        assert!(sources.iter().any(|(path, _)| path.starts_with(folder)), "no file in {folder}");
    }
}

#[test]
fn messages_are_written_in_plain_english() {
    verify(messages::of_file);
}

#[test]
fn every_licence_is_allowed() {
    let root = root();
    let policy = fs::read_to_string(root.join("deny.toml")).expect("deny.toml");
    let allowed = licences::allowed(&policy);
    let used = licences::used(&root);
    assert!(used.len() > 2, "cargo named only {} packages", used.len());
    let refused: Vec<String> = used
        .iter()
        .filter(|(_, licence)| !licences::is_allowed(licence, &allowed))
        .map(|(package, licence)| format!("{package}: `{licence}` is not in deny.toml"))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
