//! Bad samples: what each rule must catch, and good ones that it must let pass.

use std::collections::HashMap;

use crate::links::{Site, outside_the_book, paths_in_code};
use crate::pages::Page;
use crate::{circles, comments, layers, licences, messages, prose, shape, source};

const LIB: &str = "mod os; mod map; mod hold;\npub use hold::{Hold, options::Options as Chosen};";

fn upward(module: &[&str], text: &str) -> Vec<String> {
    let module: Vec<String> = module.iter().map(|&part| part.to_owned()).collect();
    layers::upward(&module, text, &layers::Root::read(layers::LIBRARY, LIB))
}

#[track_caller]
fn caught(module: &[&str], text: &str) {
    assert_eq!(upward(module, text).len(), 1, "{module:?} {text}: {:?}", upward(module, text));
}

#[track_caller]
fn passes(module: &[&str], text: &str) {
    assert!(upward(module, text).is_empty(), "{:?}", upward(module, text));
}

#[test]
fn a_way_up_is_caught() {
    caught(&["os", "file"], "use crate::sync::Lock;");
    caught(&["memory", "slab"], "fn f() { crate::map::grow(); }");
    caught(&["map", "read"], "use crate::hold::Hold;");
    caught(&["map", "read"], "use crate::Hold;");
    caught(&["map", "read"], "use crate::Chosen;");
    caught(&["sync"], "use super::memory::Extent;");
    caught(&["map", "read", "fast"], "use super::super::super::hold::Hold;");
    caught(
        &["map", "read"],
        "use crate::{\n    error::Error,\n    memory::{self, slab},\n    hold,\n};",
    );
    caught(&["os"], "#[cfg(test)]\nmod tests { use super::*; use super::super::sync::Lock; }");
    caught(&["error"], "impl From<crate::os::Failure> for E {}");
}

#[test]
fn structures_that_know_each_other_are_caught() {
    caught(&["queue"], "use crate::map::Map;");
    caught(&["map", "write"], "use crate::{log::Line, memory::slab};");
}

#[test]
fn a_way_up_in_other_crates_is_caught() {
    let caught = |folder: &str, module: &str, text: &str| {
        let (_, ranks) = layers::RANKED.into_iter().find(|(of, _)| *of == folder).expect("a crate");
        layers::upward(&[module.to_owned()], text, &layers::Root::read(ranks, "")).len() == 1
    };
    let hold = "crates/hold/src/";
    assert!(caught(hold, "report", "use crate::commands::stat;"));
    assert!(caught(hold, "monitor", "use crate::commands::stat;"));
    assert!(caught(hold, "commands", "use crate::cli::Cli;"));
    assert!(!caught(hold, "monitor", "use crate::report::map;"));
    assert!(caught("crates/lab/src/", "workload", "use crate::bench::Args;"));
    assert!(caught("crates/lab/src/", "demo", "use crate::bench::Args;"));
    assert!(caught("crates/commonhold-io/src/", "sockets", "use crate::address::Address;"));
    assert!(caught("crates/commonhold-replicate/src/", "replica", "use crate::origin::Origin;"));
    assert!(caught("crates/commonhold-files/src/", "store", "use crate::server::Server;"));
}

#[test]
fn arrows_against_the_order_of_folders_are_caught() {
    let file = |path: &str, text: &str| {
        let module = path.split('/').map(str::to_owned).collect::<Vec<_>>();
        (module, text.to_owned())
    };
    let files = [
        file("map", "mod api; mod engine; mod layout; pub use api::one::Map;"),
        file("map/api", "mod one; mod two;"),
        file("map/api/one", "use crate::map::engine::{read, write};"),
        file("map/api/two", "use super::one;"),
        file("map/engine/read", "use crate::map::layout::word::Word; use crate::map::options;"),
        file("map/engine/write", "use crate::map::Map;"),
        file("map/layout/word", "use crate::map::options; fn f() { crate::map::engine::read(); }"),
        file("map/options", "use crate::map::layout::word;"),
    ];
    let arrows = circles::arrows("map", &files);
    assert_eq!(arrows["api/one"].iter().collect::<Vec<_>>(), ["engine/read", "engine/write"]);
    assert_eq!(arrows["api/two"].iter().collect::<Vec<_>>(), ["api/one"]);
    let wrong = circles::upward("map", &arrows);
    let expected = ["`engine/write` uses `api/one`", "`layout/word` uses `engine/read`"];
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(expected.iter().all(|arrow| wrong.iter().any(|it| it.contains(arrow))), "{wrong:?}");
    assert!(wrong.iter().any(|it| it.contains("`options` uses `layout/word`")), "{wrong:?}");
}

#[test]
fn circles_without_a_reason_are_caught() {
    let file = |name: &str, text: &str| (vec!["map".to_owned(), name.to_owned()], text.to_owned());
    let files = [
        (vec!["map".to_owned()], "mod a; mod b; pub(crate) use a::Pair;".to_owned()),
        file("a", "use crate::map::b::f;"),
        file("b", "fn g() { super::c::h(); }\n#[cfg(test)]\nmod tests { use super::super::d; }"),
        file("c", "use crate::map::Pair;"),
        file("d", "use super::a;"),
    ];
    let wrong = |closing: &[_]| circles::wrong("map", circles::arrows("map", &files), closing);
    assert_eq!(wrong(&[]), ["map: `a` uses `b`, which closes a circle"]);
    assert_eq!(wrong(&[("map", "c", "a", "a reason")]), Vec::<String>::new());
    assert_eq!(wrong(&[("map", "c", "a", ""), ("map", "d", "a", "")]).len(), 1, "no circle");
    assert_eq!(wrong(&[("map", "c", "a", ""), ("map", "d", "c", "")]).len(), 2, "no arrow");
}

#[test]
fn hiding_a_way_up_is_caught() {
    caught(&["map"], "use crate as root;");
    caught(&["map"], "use super::*;");
    caught(&["map"], "use crate::*;");
    caught(&["brand_new"], "use std::fmt;");
    caught(&["os"], "use crate::unheard_of;");
}

#[test]
fn ways_down_pass() {
    passes(&["map", "read"], "use crate::{error::Result, memory::slab, os::clock, sync::{self}};");
    passes(&["map", "read"], "use super::segment; use self::inner::X; use super::super::sync::Y;");
    passes(&["hold"], "use crate::map::Map; use crate::Chosen;");
    passes(&["os"], "mod tests { use super::*; mod deep { use super::super::file; } }");
    passes(&["sync"], "crate::steps::step!(\"lock.taken\"); pub(crate) fn f(&self) {}");
    passes(&[], "pub use hold::Hold;");
}

#[test]
fn comments_and_literals_are_not_code() {
    passes(
        &["os"],
        "// crate::map\n/* crate::map /* crate::hold */ */ const A: &str = \"crate::map\";",
    );
    passes(&["os"], "const A: &str = r#\"\"crate::map\"#; const B: char = '\"'; // \"");
    caught(&["os"], "const A: &str = r#\"\"\"#; const B: u8 = b'\\''; use crate::map::X; // '");
    let line = source::tokens("/*\n\n*/ \"a\nb\" here").last().map(|t| t.line);
    assert_eq!(line, Some(4));
}

#[test]
fn calling_the_system_from_above_is_caught() {
    let map = ["map".to_owned()];
    assert_eq!(layers::system_calls(&map, "unsafe { libc::mmap() }").len(), 1);
    assert!(layers::system_calls(&["os".to_owned()], "libc::mmap()").is_empty());
    assert!(layers::system_calls(&map, "// libc\nlet s = \"libc\";").is_empty());
}

#[test]
fn unsafe_code_without_its_reason_is_caught() {
    let wrong = |module: &str, text: &str| {
        layers::unexplained_unsafe(&["map".to_owned(), module.to_owned()], text).len()
    };
    let body = "fn f() { unsafe { g() } }";
    let whole = format!("#![allow(unsafe_code)]\n{body}");
    let reason = "//! A thing.\n//!\n//! # Safety\n//! Because.\n";
    assert_eq!(wrong("read", body), 1);
    assert_eq!(wrong("read", &format!("//! A thing.\n{whole}")), 1);
    assert_eq!(wrong("read", &format!("{reason}{whole}")), 0);
    assert_eq!(wrong("read", &format!("//! A thing.\n#[allow(unsafe_code)]\n{body}")), 0);
    assert_eq!(wrong("tests", body), 0);
    assert_eq!(wrong("read", "// unsafe\n#![deny(unsafe_code)]"), 0);
}

#[test]
fn shared_memory_outside_the_library_is_caught() {
    assert_eq!(layers::shared_memory("unsafe { x() }", true).len(), 1);
    assert_eq!(layers::shared_memory("libc::read(x)", false).len(), 1);
    assert!(layers::shared_memory("libc::EAGAIN", true).is_empty());
    assert_eq!(layers::shared_memory("use memmap2::Mmap;", true).len(), 2);
    assert!(layers::shared_memory("#![forbid(unsafe_code)] // mmap", false).is_empty());
}

#[test]
fn crates_that_point_up_are_caught() {
    let library = |dependency: &str| format!("[package]\nname = \"commonhold\"\n{dependency}");
    let wrong = |text: &str| layers::manifest(text).len();
    assert_eq!(wrong(&library("[dependencies]\nlibc.workspace = true")), 0);
    assert_eq!(wrong(&library("[dependencies]\ntokio = \"1\"")), 1);
    assert_eq!(wrong(&library("[dev-dependencies]\ntempfile = \"3\"")), 0);
    assert_eq!(wrong(&library("[dev-dependencies]\nhold = { path = \"../hold\" }")), 1);
    assert_eq!(wrong(&library("[dependencies.commonhold-io]\npath = \"..\"")), 1);
    assert_eq!(wrong(&library("[target.'cfg(unix)'.dependencies]\nmio = \"1\"")), 1);
    assert_eq!(wrong(&library("[dependencies]\nnet = { package = \"commonhold-files\" }")), 1);
    assert_eq!(
        wrong("[package]\nname = \"commonhold-io\"\n[dependencies]\ncommonhold-files = \"1\""),
        1
    );
    assert_eq!(
        wrong("[package]\nname = \"commonhold-c\"\n[dependencies]\ncommonhold-files = \"1\""),
        1
    );
    assert_eq!(wrong("[package]\nname = \"hold\"\n[dependencies]\ncommonhold = \"1\""), 0);
    assert_eq!(wrong("[package]\nname = \"commonhold-lab\"\n[dependencies]\nhold = \"1\""), 1);
    assert_eq!(wrong("[package]\nname = \"stray\""), 1);
}

#[test]
fn bad_shapes_are_caught() {
    let good = "//! What it is.\n";
    assert!(shape::of_file("crates/hold/src/main.rs", good).is_empty());
    assert_eq!(shape::of_file("crates/hold/src/main.rs", "fn main() {}").len(), 1);
    assert_eq!(shape::of_file("crates/hold/src/util.rs", good).len(), 1);
    assert_eq!(shape::of_file("crates/hold/src/misc/a.rs", good).len(), 1);
    assert_eq!(shape::of_file("crates/hold/src/a.rs", &good.repeat(601)).len(), 1);
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let policy = "[licenses]\n# Ours.\nallow = [\n  \"MIT\",  # ours\n  \"Zlib\",\n]\n[bans]\n";
    let allowed = licences::allowed(policy);
    assert_eq!(allowed, ["MIT", "Zlib"]);
    let is_allowed = |expression| licences::is_allowed(expression, &allowed);
    assert!(is_allowed("MIT") && is_allowed("GPL-3.0 OR MIT") && is_allowed("Apache-2.0/MIT"));
    assert!(is_allowed("(GPL-3.0 OR MIT) AND Zlib") && !is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("") && !is_allowed("GPL-3.0") && !is_allowed("MIT WITH an-exception"));
    assert!(!is_allowed("MIT)") && !is_allowed("(MIT"));
}

/// How many of the links of `a.md` are dead, if `b.md` and `picture.svg` exist.
fn dead_links(text: &str) -> usize {
    let mut pages = HashMap::new();
    pages.insert("docs/a.md".to_owned(), Page::read(text));
    pages.insert("b.md".to_owned(), Page::read("# Title, *here* & `x`\n\n## Again\n\n## Again\n"));
    let exists = |path: &str| path == "docs/picture.svg";
    Site { pages: &pages, exists: &exists }.dead("docs/a.md").len()
}

#[test]
fn dead_links_are_caught() {
    assert_eq!(dead_links("[x](c.md)"), 1);
    assert_eq!(dead_links("[x](b.md)"), 1);
    assert_eq!(dead_links("[x](../../b.md)"), 1);
    assert_eq!(dead_links("[x](../b.md#other)"), 1);
    assert_eq!(dead_links("[x](#here)"), 1);
    assert_eq!(dead_links("![x](other.svg)"), 1);
    assert_eq!(dead_links("# Here\n[x](../b.md#title-here--x) [x](#here) ![x](picture.svg)"), 0);
    assert_eq!(dead_links("[x](../b.md#again-1) [x](https://example.org/) `[x](c.md)`"), 0);
}

#[test]
fn a_page_outside_the_book_is_caught() {
    let mut pages = HashMap::new();
    pages.insert("docs/SUMMARY.md".to_owned(), Page::read("- [A](guide/a.md)\n"));
    pages.insert("docs/guide/a.md".to_owned(), Page::read(""));
    pages.insert("README.md".to_owned(), Page::read(""));
    assert_eq!(outside_the_book(&pages).len(), 0);
    pages.insert("docs/guide/b.md".to_owned(), Page::read(""));
    assert_eq!(outside_the_book(&pages).len(), 1);
}

fn prose_of(text: &str) -> usize {
    prose::of_page(text, &Page::read(text)).len()
}

#[test]
fn awkward_prose_is_caught() {
    assert_eq!(prose_of("A reader is\ntold of it."), 1);
    assert_eq!(prose_of("- an item\n- it begins anew"), 1);
    assert_eq!(prose_of("| a | b |\n|---|---|\n| it is said | so many |"), 2);
    assert_eq!(prose_of("It ends. Who is too slow is disconnected."), 1);
    assert_eq!(prose_of("# Beside it"), 1);
    assert_eq!(prose_of(&"word ".repeat(21)), 1);
    assert_eq!(prose_of("# What it promises\n\nWho holds it? `who is told` besides."), 0);
    assert_eq!(prose_of(&format!("| a |\n|---|\n| {} |", "word ".repeat(30))), 0);
    assert_eq!(prose_of(&format!("    {}\n\n{}", "is told ".repeat(30), "x".repeat(120))), 0);
}

#[test]
fn paths_differ_from_other_code() {
    let text = "| `map/read.rs`, then `read.rs` | `./test` or `a / b`, `bindings/c` |";
    assert_eq!(paths_in_code(text), ["map/read.rs", "bindings/c"]);
}

#[test]
fn awkward_comments_are_caught() {
    let found = |text: &str| comments::of_text(text).len();
    assert_eq!(found("    /// A reader is\n    /// told of it."), 1);
    assert_eq!(found("//! - an item\n//! - it begins anew"), 1);
    assert_eq!(found("// It ends. Who is too slow is disconnected."), 1);
    assert_eq!(found(&format!("/// {}", "word ".repeat(20))), 1);
    assert_eq!(found("/// ```\n/// \"anew\"\n/// ```\n/// It begins.\n// Again."), 0);
    assert_eq!(found("let text = \"it is told\"; // anew"), 0);
    assert_eq!(found(&format!("/// {}", "x".repeat(120))), 0);
}

#[test]
fn awkward_messages_are_caught() {
    let found = |text: &str| messages::of_file("crates/hold/src/main.rs", text).len();
    assert_eq!(found("fn f() { failed(\"it is \\\n    told\"); }"), 1);
    assert_eq!(found("fn f() { failed(r#\"the \"lock\" is in hand\"#); }"), 1);
    assert_eq!(found("fn f() { failed(\"want 1 to 64\"); }"), 1);
    assert_eq!(found("// is told\nfn f() { failed(\"out of memory\"); }"), 0);
    assert_eq!(found("fn f() {}\n#[cfg(test)]\nmod tests {\n    \"is told\"\n}"), 0);
    assert_eq!(messages::of_file("crates/hold/tests/suite.rs", "\"is told\"").len(), 0);
}

#[test]
fn literals_have_their_lines() {
    let literals = source::literals("let a = \"x\\\"y\";\nlet b = 'c'; /* \"no\" */ r\"z\"");
    let found: Vec<_> = literals.iter().map(|it| (it.line, it.text.as_str())).collect();
    assert_eq!(found, [(1, "x\\\"y"), (2, "\"z")]);
}
