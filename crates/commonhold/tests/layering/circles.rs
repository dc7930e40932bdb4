//! Circles among the files of one module of the library: what closes each has its reason here.
//!
//! An arrow is a path in a file's code that leads into another file of the module. A file that adds
//! methods to a type gets no arrows from the callers of these methods.
//!
//! Invariant: without the arrows of the table there is no circle, and each of them closes one.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// The modules in which each circle has its reason.
pub const MODULES: [&str; 3] = ["map", "hold", "memory"];

/// The arrows that close circles: module, from, to, and the reason.
pub const CLOSING: [(&str, &str, &str, &str); 13] = [
    ("map", "bound", "inline", "a binding carries its packing, which works on the binding"),
    ("map", "cells", "inline", "implements the trait that its operations are written over"),
    ("map", "words", "inline", "implements the trait that its operations are written over"),
    ("map", "read", "take", "a read gives a value to its receiver, which looks at the pair"),
    ("map", "cache", "write", "an eviction removes a pair as writes do"),
    ("map", "write", "compact", "a write into a full hold compacts, which moves pairs by writes"),
    ("map", "locked", "recover", "a change that a panic ended is recounted as in a recovery"),
    ("memory", "arena", "lane", "entering an arena gives a lane's guard, which keeps the arena"),
    ("memory", "lane", "block", "a lane names the process of an owner as blocks do"),
    ("memory", "roots", "lane", "a name is claimed in a lane, which waits for the lock of names"),
    ("memory", "supply", "lane", "a supply is filled inside its lane, which owns the supply"),
    ("memory", "writer", "lane", "a writer asks which lane lists a lock that it waits for"),
    ("memory", "block", "attach", "a block begins with the participants that are attached to it"),
];

/// The files that each file of a module uses.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows inside `top`; `files` are the modules of the library with their texts.
pub fn arrows(top: &str, files: &[(Vec<String>, String)]) -> Arrows {
    let mine = |(module, _): &&(Vec<String>, String)| module.first().is_some_and(|m| m == top);
    let inside: Vec<_> = files.iter().filter(mine).filter(|(m, _)| !is_test(m)).collect();
    let names: BTreeSet<&String> = inside.iter().filter_map(|(m, _)| m.get(1)).collect();
    let root = inside.iter().find(|(m, _)| m.len() == 1).map_or("", |(_, text)| text);
    let passed_on: BTreeMap<String, String> = source::crate_paths(root, &[top.to_owned()])
        .into_iter()
        .chain(source::root_names(root))
        .filter_map(|path| {
            let first = path.segments.iter().find(|s| names.contains(s))?.clone();
            Some((path.name, first))
        })
        .collect();
    let mut found = Arrows::new();
    for (module, text) in inside {
        let Some(own) = module.get(1) else { continue };
        let uses = found.entry(own.clone()).or_default();
        for path in source::crate_paths(code_of(text), module) {
            let [first, second, ..] = &path.segments[..] else { continue };
            let target = if names.contains(second) { Some(second) } else { passed_on.get(second) };
            uses.extend(target.filter(|target| first == top && *target != own).cloned());
        }
    }
    found
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
