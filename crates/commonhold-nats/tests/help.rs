//! The texts of `--help`, and that `docs/reference/cli.md` lists the same options.

use crate::bridge::ends;
use std::collections::BTreeSet;
use std::path::Path;

const TABLE: &str = "#### Options of each subcommand of the bridge";

/// The options that a help lists, such as `--server` and `-s`.
fn options(help: &str) -> BTreeSet<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    help.lines()
        .filter(|line| (2..=6).contains(&indent(line)) && line.trim_start().starts_with('-'))
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with('-'))
        .map(|word| word.trim_end_matches(',').to_owned())
        .collect()
}

/// The options in a text of the document.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "`|,.:".contains(c));
    words.filter(|word| word.starts_with('-') && word.len() > 1).map(str::to_owned).collect()
}

#[test]
fn the_document_lists_every_option_and_the_help_is_narrow() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split_once(TABLE).unwrap().1;
    let (table, rest) = section.split_once("Each of them also takes").unwrap();
    let shared = named(rest.split_once("If neither `--server`").unwrap().0);
    let row = |name: &str| {
        let start = format!("| `{name}` |");
        named(table.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default())
    };
    let help = |args: &[&str]| {
        let help = ends("", &[args, &["--help"]].concat(), 0);
        let wide: Vec<_> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{args:?}: {wide:?}");
        help
    };
    let everywhere = options(&help(&[]));
    assert_eq!(everywhere, row("hold nats"));
    for name in ["mirror", "publish", "send", "receive", "put", "get", "delete", "create-bucket"] {
        let own: BTreeSet<_> = options(&help(&[name])).difference(&everywhere).cloned().collect();
        let listed = row(name).union(&shared).cloned().collect::<BTreeSet<_>>();
        assert_eq!(own, listed, "{name}");
    }
}
