//! A man page. `clap_mangen` renders name, description and options. This module renders the
//! synopsis and the text after the help (examples, exit codes, ...): `clap_mangen` would leave out
//! values and repetition in the former, and join the lines of the latter.

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use std::io::Result;

/// The page's name: `hold-queue-push`.
pub fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of a built command.
pub fn render(command: &Command) -> Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone()).source(format!("{} {version}", name(command)));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_help() {
        after_help(&help.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let (positional, options): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .partition(|arg| arg.is_positional());
    for arg in options.into_iter().chain(positional) {
        let (open, close) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
        line.push(roman(open));
        line.extend(usage(arg));
        line.push(roman(close));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("SUBCOMMAND"), roman(" ...")]);
    }
    roff.text(line);
    roff
}

/// An option with its value, or an argument, as typed.
fn usage(arg: &Arg) -> Vec<Inline> {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<_> = short.into_iter().chain(long).collect();
    let mut line = Vec::new();
    if !flags.is_empty() {
        line.push(bold(flags.join("|")));
    }
    let takes = arg.get_num_args().is_some_and(|range| range.takes_values());
    if let (true, Some(names)) = (takes, arg.get_value_names()) {
        if !line.is_empty() {
            line.push(roman(" "));
        }
        let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
        line.push(italic(names.join(" ")));
        if arg.is_positional() && arg.get_num_args().is_some_and(|range| range.max_values() > 1) {
            line.push(roman("..."));
        }
    }
    line
}

/// The sections of the text after the help, each a paragraph with its title.
const SECTIONS: [(&str, &str); 4] = [
    ("Exit codes:", "EXIT STATUS"),
    ("Environment:", "ENVIRONMENT"),
    ("", "NOTES"),
    ("Examples:", "EXAMPLES"),
];

fn after_help(help: &str) -> Roff {
    let mut roff = Roff::new();
    for (title, section) in SECTIONS {
        let others =
            |text: &str| SECTIONS.iter().all(|(t, _)| t.is_empty() || !text.starts_with(t));
        let wanted = |text: &&str| match title {
            "" => others(text),
            title => text.starts_with(title),
        };
        let mut begun = false;
        for paragraph in help.split("\n\n").filter(wanted) {
            match begun {
                false => roff.control("SH", [section]),
                true => roff.control("PP", []),
            };
            begun = true;
            lines(paragraph[title.len()..].trim_start_matches('\n'), &mut roff);
        }
    }
    roff
}

/// Indented lines stay unchanged; lines of text flow.
fn lines(text: &str, roff: &mut Roff) {
    let mut kept = false;
    for line in text.lines() {
        let keeps = line.starts_with("  ");
        if keeps != kept {
            roff.control(if keeps { "nf" } else { "fi" }, []);
            kept = keeps;
        }
        let line = if keeps { &line[2..] } else { line.trim_start() };
        roff.text([roman(line)]);
    }
    if kept {
        roff.control("fi", []);
    }
}
