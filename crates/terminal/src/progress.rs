//! Progress on a terminal, for subcommands that may take long. Without a terminal there is none.
//!
//! Invariant: progress goes only to standard error, and is erased in the end.

use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A bar for `total` bytes, or a spinner if the number is unknown.
pub fn of_bytes(output: &Output, total: Option<u64>) -> ProgressBar {
    match total {
        Some(total) => bar(output, total, "{bar:40} {binary_bytes} of {binary_total_bytes}"),
        None => spinner(output, "{spinner} {binary_bytes}"),
    }
}

/// A bar for `total` pairs.
pub fn of_pairs(output: &Output, total: u64) -> ProgressBar {
    bar(output, total, "{bar:40} {human_pos} of {human_len} pairs")
}

/// A bar for things of a number that is set later.
pub fn of_things(output: &Output, things: &str) -> ProgressBar {
    bar(output, 0, &format!("{{bar:40}} {{human_pos}} of {{human_len}} {things}"))
}

fn bar(output: &Output, total: u64, template: &str) -> ProgressBar {
    if !is_wanted(output) {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    bar.set_style(style(&format!("{template}  {{msg}}  {{eta}} left")));
    bar
}

fn spinner(output: &Output, template: &str) -> ProgressBar {
    if !is_wanted(output) {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(style(&format!("{template}  {{msg}}  {{elapsed}}")));
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates here are sound")
}

fn is_wanted(output: &Output) -> bool {
    !output.is_quiet() && std::io::stderr().is_terminal()
}
