//! Circles among the files of one module of the library: what closes each has its reason here.
//!
//! An arrow is a path in a file's code that leads into another file of the module. A file that adds
//! methods to a type gets no arrows from the callers of these methods. Some modules have folders,
//! and arrows point from folder to folder in one direction only.
//!
//! Invariant: without the arrows of the table there is no circle, and each of them closes one.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// The modules in which each circle has its reason.
pub const MODULES: [&str; 3] = ["map", "hold", "memory"];

/// The arrows that close circles: module, from, to, and the reason.
pub const CLOSING: [(&str, &str, &str, &str); 10] = [
    (
        "map",
        "engine/in_place",
        "engine/short_change",
        "a change in place makes the checks of the short way, which tries it first",
    ),
    (
        "map",
        "engine/read",
        "engine/take",
        "a read gives a value to its receiver, which looks at the pair",
    ),
    ("map", "engine/cache", "engine/write", "an eviction removes a pair as writes do"),
    (
        "map",
        "engine/write",
        "engine/compact",
        "a write into a full hold compacts, which moves pairs by writes",
    ),
    ("memory", "arena", "lane", "entering an arena gives a lane's guard, which keeps the arena"),
    ("memory", "own_participant", "lane", "a participant has lanes, and a lane is of one"),
    ("memory", "roots", "lane", "a name is claimed in a lane, which waits for the lock of names"),
    ("memory", "supply", "lane", "a supply is filled inside its lane, which owns the supply"),
    ("memory", "writer", "lane", "a writer asks which lane lists a lock that it waits for"),
    ("memory", "block", "attach", "a block begins with the participants that are attached to it"),
];

/// Modules with folders, whose files count one by one. The folders are in the order of
/// their dependencies: a file uses its own folder, and folders behind it.
pub const FOLDERS: [(&str, &[&str]); 1] = [("map", &["api", "engine", "layout"])];

/// The files that each file of a module uses; a file of a folder is called `folder/file`.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows inside `top`; `files` are the modules of the library with their texts.
pub fn arrows(top: &str, files: &[(Vec<String>, String)]) -> Arrows {
    let mine = |(module, _): &&(Vec<String>, String)| module.first().is_some_and(|m| m == top);
    let inside: Vec<_> = files.iter().filter(mine).filter(|(m, _)| !is_test(m)).collect();
    let file = |path: &[String]| file_of(folders(top), path);
    let names: BTreeSet<String> = inside.iter().filter_map(|(m, _)| file(&m[1..])).collect();
    let root = inside.iter().find(|(m, _)| m.len() == 1).map_or("", |(_, text)| text);
    let passed_on: BTreeMap<String, String> = source::crate_paths(root, &[top.to_owned()])
        .into_iter()
        .chain(source::root_names(root))
        .filter_map(|path| {
            let all = path.segments.iter().enumerate();
            let mut files = all.filter_map(|(i, _)| file(&path.segments[i..]));
            Some((path.name.clone(), files.find(|file| names.contains(file))?))
        })
        .collect();
    let mut found = Arrows::new();
    for (module, text) in inside {
        let Some(own) = file(&module[1..]) else { continue };
        let uses = found.entry(own.clone()).or_default();
        for path in source::crate_paths(code_of(text), module) {
            let [first, rest @ ..] = &path.segments[..] else { continue };
            let target = file(rest).filter(|target| names.contains(target));
            let target = target.or_else(|| passed_on.get(rest.first()?).cloned());
            uses.extend(target.filter(|target| first == top && *target != own));
        }
    }
    found
}

/// The folders of `top`.
pub fn folders(top: &str) -> &'static [&'static str] {
    FOLDERS.iter().find(|(module, _)| *module == top).map_or(&[], |(_, folders)| folders)
}

/// The file that a path inside a module begins with; `None` for a folder.
fn file_of(folders: &[&str], path: &[String]) -> Option<String> {
    let first = path.first()?;
    if folders.contains(&first.as_str()) {
        return Some(format!("{first}/{}", path.get(1)?));
    }
    Some(first.clone())
}

/// The arrows of `top` that lead into a folder before their own.
pub fn upward(top: &str, arrows: &Arrows) -> Vec<String> {
    let folders = folders(top);
    // A file outside the folders is below all of them.
    let place = |file: &String| {
        let folder = file.split_once('/').map(|(folder, _)| folder);
        folders.iter().position(|name| Some(*name) == folder).unwrap_or(folders.len())
    };
    let all = arrows.iter().flat_map(|(from, uses)| uses.iter().map(move |to| (from, to)));
    all.filter(|(from, to)| place(to) < place(from))
        .map(|(from, to)| format!("{top}: `{from}` uses `{to}`, whose folder is not below its own"))
        .collect()
}

fn is_test(module: &[String]) -> bool {
    module.last().is_some_and(|last| last == "tests" || last.ends_with("_tests"))
}

/// The text without the tests at its end.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// The first arrow that lies on a circle.
pub fn on_a_circle(arrows: &Arrows) -> Option<(&String, &String)> {
    let all = arrows.iter().flat_map(|(from, uses)| uses.iter().map(move |to| (from, to)));
    let mut all = all.filter(|(from, to)| leads(arrows, to, from));
    all.next()
}

fn leads(arrows: &Arrows, from: &String, to: &String) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        next.extend(arrows.get(at).into_iter().flatten().filter(|to| seen.insert(to)));
    }
    false
}

/// What is wrong with the circles of `top`.
pub fn wrong(top: &str, mut arrows: Arrows, closing: &[(&str, &str, &str, &str)]) -> Vec<String> {
    let mine: Vec<_> = closing.iter().filter(|(module, ..)| *module == top).collect();
    let mut wrong = Vec::new();
    for (_, from, to, _) in &mine {
        if !arrows.get_mut(*from).is_some_and(|uses| uses.remove(*to)) {
            wrong.push(format!("{top}: `{from}` does not use `{to}`; take it off the list"));
        }
    }
    if let Some((from, to)) = on_a_circle(&arrows) {
        wrong.push(format!("{top}: `{from}` uses `{to}`, which closes a circle"));
    }
    for (_, from, to, _) in mine {
        if !leads(&arrows, &to.to_string(), &from.to_string()) {
            wrong.push(format!("{top}: `{from}` to `{to}` closes no circle; take it off the list"));
        }
    }
    wrong
}
