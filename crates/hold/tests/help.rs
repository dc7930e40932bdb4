//! The texts of `--help`, of every subcommand: their width, their English, and that the document
//! of the command (`docs/reference/cli.md`) lists the same subcommands and options.

use crate::english;
use crate::support::TestDir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the document's table of options begins.
const TABLE: &str = "### Options of each subcommand";

/// The help of every subcommand by its words, such as `queue push`; the program's own by none.
fn all() -> BTreeMap<String, String> {
    let test_dir = TestDir::new();
    let mut all = BTreeMap::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let mut args: Vec<String> = words.clone();
        args.push("--help".to_owned());
        let text = test_dir.ok(&args);
        open.extend(subcommands(&text).into_iter().map(|next| [&words[..], &[next]].concat()));
        all.insert(words.join(" "), text);
    }
    assert!(all.len() > 50, "found only {} subcommands", all.len());
    all
}

/// The subcommands that a help lists.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .map(str::to_owned)
        .collect()
}

/// The options that a help lists, such as `--limit` and `-l`.
fn options(help: &str) -> BTreeSet<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    help.lines()
        .filter(|line| (2..=6).contains(&indent(line)) && line.trim_start().starts_with('-'))
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.starts_with('-'))
        .map(|word| word.trim_end_matches(',').to_owned())
        .collect()
}

/// The subcommands and their options in the document's table.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let text = std::fs::read_to_string(path).expect("the document of the command");
    let (_, section) = text.split_once(TABLE).expect("the table of options");
    let rows = section.lines().take_while(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` |"))
        .map(|(name, cell)| {
            let words = cell.split(|c: char| c.is_whitespace() || "`|,".contains(c));
            let options = words.filter(|word| word.starts_with('-'));
            (name.to_owned(), options.map(str::to_owned).collect())
        })
        .collect()
}

/// The row of a subcommand as the table has to have it.
fn row(name: &str, options: &BTreeSet<String>) -> String {
    let shown: Vec<String> = options.iter().map(|option| format!("`{option}`")).collect();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    format!("| `{name}` | {shown} |")
}

#[test]
fn the_document_lists_every_subcommand_and_option() {
    let all = all();
    let everywhere = options(&all[""]);
    let mut documented = documented();
    let mut missing = Vec::new();
    for (words, help) in &all {
        let name = if words.is_empty() { "hold" } else { words };
        let mut options = options(help);
        if !words.is_empty() {
            options.retain(|option| !everywhere.contains(option));
        }
        if documented.remove(name).as_ref() != Some(&options) {
            missing.push(row(name, &options));
        }
    }
    assert!(missing.is_empty(), "docs/reference/cli.md lacks:\n{}", missing.join("\n"));
    assert!(documented.is_empty(), "docs/reference/cli.md has what is not there: {documented:?}");
}

#[test]
fn help_is_narrow_and_in_plain_english() {
    let mut wrong = Vec::new();
    for (words, help) in all() {
        let wide = help.lines().filter(|line| line.chars().count() > 100);
        wrong.extend(wide.map(|line| format!("hold {words}: too wide: {line}")));
        // One line, so that a phrase that is broken between lines is found.
        let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
        wrong.extend(
            english::banned(&text, &english::BANNED)
                .iter()
                .map(|what| format!("hold {words}: {what}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn help_writes_sizes_in_one_way_and_names_the_kind_of_each_structure() {
    let mut wrong = Vec::new();
    for (words, help) in all() {
        // 64K, as users type it; KiB is how reports print it.
        wrong.extend(help.lines().filter(|line| line.contains("iB")).map(str::to_owned));
        let kind = words.split_once(' ').map(|(first, _)| first);
        if let Some(kind) = kind.filter(|kind| ["queue", "channel", "log"].contains(kind)) {
            let line = format!("The name of the {kind} in the hold");
            wrong.extend((!help.contains(&line)).then(|| format!("hold {words}: lacks: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
