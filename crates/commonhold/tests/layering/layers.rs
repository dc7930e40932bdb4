//! The layers of the library and of the workspace, and what breaks them.
//!
//! Invariant: dependencies point down only. Inside the library the order is
//! `hold -> {map, queue, channel, log} -> stream -> memory -> sync -> os`; modules of one rank do
//! not know each other. Among the crates it is
//! `{hold, bench} -> lab -> {commonhold-replicate, commonhold-files} -> commonhold-io -> commonhold`,
//! and `commonhold-nats -> commonhold-io`.

use crate::source::{self, CratePath};

/// The modules of a crate with their ranks. A module may use lower ranks and itself.
pub type Ranks = &'static [(&'static str, u32)];

/// The crates whose modules have ranks, by the folder of their sources.
pub const RANKED: [(&str, Ranks); 8] = [
    ("crates/commonhold/src/", LIBRARY),
    ("crates/commonhold-io/src/", IO),
    ("crates/commonhold-replicate/src/", REPLICATE),
    ("crates/commonhold-files/src/", FILES),
    ("crates/commonhold-nats/src/", NATS),
    ("crates/terminal/src/", TERMINAL),
    ("crates/lab/src/", LAB),
    ("crates/hold/src/", COMMAND),
];

/// `error` is usable by all. `steps` is a test instrument that stands in every layer above it.
pub const LIBRARY: Ranks = &[
    ("error", 0),
    ("steps", 5),
    ("os", 10),
    ("sync", 30),
    ("memory", 40),
    ("stream", 45),
    ("map", 50),
    ("queue", 50),
    ("channel", 50),
    ("log", 50),
    ("hold", 60),
    ("raw", 70),
];

const IO: Ranks = &[
    ("callback_gate", 0),
    ("faults", 0),
    ("fault_errno", 0),
    ("named_choice", 0),
    ("owned_threads", 0),
    ("thread_patience", 0),
    ("reports", 10),
    ("sockets", 10),
    ("address", 20),
];

const REPLICATE: Ranks = &[
    ("compression", 0),
    ("faults", 0),
    ("growing_pause", 0),
    ("protocol", 10),
    ("lineage", 15),
    ("origin_clock", 15),
    ("filter", 15),
    ("delivery", 20),
    ("replica", 30),
    ("journal", 40),
    ("origin", 45),
    ("promote", 40),
    ("verify", 40),
    ("holds", 50),
];

const FILES: Ranks = &[
    ("faults", 0),
    ("coding", 0),
    ("requests", 0),
    ("stamp", 0),
    ("directory", 10),
    ("payload", 10),
    ("peers", 10),
    ("layout", 20),
    ("http", 20),
    ("pages", 25),
    ("source", 30),
    ("protocol", 30),
    ("store", 40),
    ("packed", 40),
    ("counts", 50),
    ("freshness_checks", 50),
    ("fresh_contents", 60),
    ("reply", 70),
    ("asked", 75),
    ("connection", 80),
    ("access_log", 85),
    ("worker", 90),
    ("server", 100),
];

const NATS: Ranks = &[
    ("key", 0),
    ("trouble", 0),
    ("feed", 10),
    ("server", 10),
    ("slot", 10),
    ("stream", 15),
    ("bucket", 20),
    ("reader", 20),
    ("status", 20),
    ("bridge", 25),
    ("mirror", 30),
    ("local_copy", 40),
    ("publish", 40),
    ("receive", 40),
    ("send", 40),
    ("command", 60),
    ("cli", 70),
];

const TERMINAL: Ranks = &[
    ("bytes", 0),
    ("descriptors", 0),
    ("help", 0),
    ("interrupt", 0),
    ("sizes", 0),
    ("version", 0),
    ("text", 10),
    ("failure", 20),
    ("output", 30),
    ("progress", 40),
];

const LAB: Ranks = &[("workload", 10), ("bench", 20), ("crashtest", 20), ("demo", 20)];

/// The command: what it prints about holds (`report`) knows of no subcommand.
const COMMAND: Ranks = &[
    ("formats", 10),
    ("target", 20),
    ("making", 30),
    ("report", 40),
    ("monitor", 50),
    ("top", 55),
    ("commands", 60),
    ("cli", 70),
];

/// The crates of the workspace, and which of them each may depend on.
///
/// The bindings depend on what they offer, so neither knows of the file server.
const CRATES: [(&str, &[&str]); 14] = [
    ("commonhold", &[]),
    ("commonhold-testing", &["commonhold"]),
    ("commonhold-budgets", &["commonhold"]),
    ("commonhold-io", &["commonhold", "commonhold-testing"]),
    ("commonhold-replicate", &["commonhold", "commonhold-io", "commonhold-testing"]),
    ("commonhold-files", &["commonhold", "commonhold-io", "commonhold-testing"]),
    ("commonhold-terminal", &["commonhold"]),
    ("commonhold-nats", &["commonhold", "commonhold-io", "commonhold-terminal"]),
    (
        "commonhold-lab",
        &["commonhold", "commonhold-io", "commonhold-replicate", "commonhold-terminal"],
    ),
    (
        "hold",
        &[
            "commonhold",
            "commonhold-io",
            "commonhold-replicate",
            "commonhold-files",
            "commonhold-terminal",
            "commonhold-lab",
        ],
    ),
    ("commonhold-c", &["commonhold", "commonhold-io", "commonhold-replicate"]),
    ("commonhold-python", &["commonhold", "commonhold-replicate"]),
    ("commonhold-models", &[]),
    ("commonhold-bench", &["commonhold", "commonhold-replicate", "commonhold-lab"]),
];

/// All that the library may be built on.
const LIBRARY_BUILT_ON: [&str; 9] = [
    "bytemuck",
    "crc32fast",
    "libc",
    "rapidhash",
    "serde",
    "serde_json",
    "log",
    "tracing-core",
    "tracing-subscriber",
];

fn rank(ranks: Ranks, module: &str) -> Option<u32> {
    ranks.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

/// A crate's ranks, and the names that its root passes on, each with the module it comes from.
pub struct Root {
    ranks: Ranks,
    names: Vec<CratePath>,
}

impl Root {
    pub fn read(ranks: Ranks, lib: &str) -> Root {
        Root { ranks, names: source::root_names(lib) }
    }

    fn rank(&self, module: &str) -> Option<u32> {
        rank(self.ranks, module)
    }

    /// The top-level module that `path` leads to.
    fn module_of<'a>(&'a self, path: &'a CratePath) -> Option<&'a str> {
        let first = path.segments.first()?;
        if self.rank(first).is_some() {
            return Some(first);
        }
        let passed_on = self.names.iter().find(|p| p.name == *first)?;
        passed_on.segments.first().map(String::as_str)
    }
}

/// What is wrong with the dependencies of one file of a crate; `module` as `["map", "read"]`.
pub fn upward(module: &[String], text: &str, root: &Root) -> Vec<String> {
    let Some(own) = module.first() else { return Vec::new() };
    let Some(own_rank) = root.rank(own) else {
        return vec![format!("module `{own}` has no layer: give it a rank in layers.rs")];
    };
    let mut wrong = Vec::new();
    for path in source::crate_paths(text, module) {
        let shown = path.segments.join("::");
        match root.module_of(&path).map(|target| (target, root.rank(target))) {
            Some((target, _)) if target == own => {}
            Some((_, Some(rank))) if rank < own_rank => {}
            Some((target, Some(_))) => wrong.push(format!(
                "line {}: `{own}` uses `{shown}`, but `{target}` is not below `{own}`",
                path.line
            )),
            _ => wrong.push(format!(
                "line {}: `{own}` uses `crate::{shown}`, of which no layer is known; name the \
                 module it comes from",
                path.line
            )),
        }
    }
    wrong
}

/// The system is called from `os` alone; `steps` names two signals.
pub fn system_calls(module: &[String], text: &str) -> Vec<String> {
    if matches!(module.first().map(String::as_str), Some("os" | "steps") | None) {
        return Vec::new();
    }
    words(text, |w| w == "libc", "calls the system past the layer `os`")
}

/// What is wrong with unsafe code in a file of the library: a file that opts in as a whole says
/// why under `# Safety`; any other opts in item by item. It does not inherit the leave of the
/// module above it, which is meant for that module alone; a folder of tests does.
pub fn unexplained_unsafe(module: &[String], text: &str) -> Vec<String> {
    let used = words(text, |w| w == "unsafe", "is unsafe");
    if used.is_empty() || module.iter().any(|part| part == "tests") {
        return Vec::new();
    }
    let code = source::strip(text).replace(' ', "");
    let mut header = text.lines().take_while(|line| line.starts_with("//!"));
    let explained = header.any(|line| line.trim_end() == "//! # Safety");
    if code.contains("#![allow(unsafe_code)]") && !explained {
        vec!["allows unsafe code without `# Safety` in its module documentation".to_owned()]
    } else if !code.contains("[allow(unsafe_code)]") {
        vec![format!("{}, but the file does not opt in by itself", used[0])]
    } else {
        Vec::new()
    }
}

/// Outside the library no code maps memory or is unsafe; only crates with sockets use `libc`.
pub fn shared_memory(text: &str, sockets: bool) -> Vec<String> {
    // A rival has a name like this.
    let is_rival = |w: &str| ["mmap_sync", "MmapSync"].contains(&w);
    let is_mapping = |w: &str| {
        let maps = w.to_lowercase().contains("mmap") && !is_rival(w);
        maps || w == "unsafe" || (w == "libc" && !sockets)
    };
    words(text, is_mapping, "belongs into crate commonhold only")
}

fn words(text: &str, is_wanted: impl Fn(&str) -> bool, verdict: &str) -> Vec<String> {
    let tokens = source::tokens(text);
    let found = tokens.iter().filter(|t| is_wanted(&t.text));
    found.map(|t| format!("line {}: `{}` {verdict}", t.line, t.text)).collect()
}

/// What is wrong with what a crate is built on, by its manifest.
pub fn manifest(text: &str) -> Vec<String> {
    let (package, dependencies) = read_manifest(text);
    let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == package) else {
        return vec![format!("crate `{package}` has no place: give it one in layers.rs")];
    };
    let mut wrong = Vec::new();
    for (kind, name) in &dependencies {
        let is_ours = CRATES.iter().any(|(ours, _)| ours == name);
        if is_ours && !allowed.contains(&name.as_str()) {
            wrong.push(format!("`{package}` depends on `{name}`, which is not below it"));
        }
        let foreign = !is_ours && !LIBRARY_BUILT_ON.contains(&name.as_str());
        if package == "commonhold" && kind != "dev-dependencies" && foreign {
            wrong.push(format!("the library depends on `{name}`; see LIBRARY_BUILT_ON"));
        }
    }
    wrong
}

/// The package's name, and every dependency with its kind.
pub fn read_manifest(text: &str) -> (String, Vec<(String, String)>) {
    let (mut package, mut found) = (String::new(), Vec::new());
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            if let Some((kind, name)) = dependency_table(&section) {
                found.push((kind, name));
            }
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
            let last = section.rsplit('.').next().unwrap_or_default();
            if section == "package" && key == "name" {
                package = value.trim().trim_matches('"').to_owned();
            } else if last.ends_with("dependencies") && !line.starts_with('#') {
                found.push((last.to_owned(), renamed(value).unwrap_or(key).to_owned()));
            }
        }
    }
    (package, found)
}

/// `[dependencies.name]`, also below a target.
fn dependency_table(section: &str) -> Option<(String, String)> {
    let (before, name) = section.rsplit_once('.')?;
    let kind = before.rsplit('.').next()?;
    kind.ends_with("dependencies").then(|| (kind.to_owned(), name.to_owned()))
}

/// The real name in `short = { package = "long", ... }`.
fn renamed(value: &str) -> Option<&str> {
    let after = value.split_once("package")?.1.trim_start().strip_prefix('=')?;
    after.trim_start().strip_prefix('"')?.split('"').next()
}
