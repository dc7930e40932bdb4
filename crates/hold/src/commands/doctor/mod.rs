//! `hold doctor`: checks the properties of a machine that holds depend on.
//!
//! - [`finding`]: what a check found, what it means, what to do
//! - [`location`], [`mounts`]: the directory or file system a hold would live in, and a trial of it
//! - [`memory`], [`limits`], [`kernel`], [`login`]: the machine and the session
//!
//! Invariant: nothing is changed; the trial hold deletes itself, whatever happens to the doctor.
//! Each check names what it read, so that its result can be verified.
//! `docs/operations/environment.md` has the reasons.

mod finding;
mod kernel;
mod limits;
mod location;
mod login;
mod memory;
mod mounts;

use crate::commands::shared::answer;
use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::{Output, is_terminal};
use finding::{Finding, Level};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold doctor`.
pub const EXAMPLES: &str = "\
Examples:
  hold doctor                                   # for holds in memory
  hold doctor ./data                            # also for file holds there
  hold doctor --format json | jq '.checks[] | select(.level != \"ok\")'

Run this command once on each new machine. If you use containers, run it inside them as well.

Exit codes:
  0     no check failed (there may be warnings)
  1     a check failed
  2, 3  error (see 'hold help')";

/// Options of `hold doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Also check the file system of this directory or file
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
}

/// Runs the checks and prints their findings.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("doctor")?;
    let home = home_of_bare_names(directory)?;
    let findings = examine(&home, args.path.as_deref());
    let fails = count(&findings, Level::Fail);
    if output.is_json() {
        let checks: Vec<_> = findings.iter().map(Finding::json).collect();
        output.json(&json!({ "ok": fails == 0, "checks": checks }))?;
        return Ok(answer(fails == 0));
    }
    let shown = |f: &&Finding| !(output.is_quiet() && f.level == Level::Ok);
    for finding in findings.iter().filter(shown) {
        output.text(&finding.text(is_terminal()))?;
    }
    if !output.is_quiet() {
        let warnings = count(&findings, Level::Warn);
        output.text(&format!(
            "\n{} ok, {warnings} warn, {fails} fail",
            findings.len() - warnings - fails
        ))?;
    }
    Ok(answer(fails == 0))
}

fn examine(home: &Path, path: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![kernel::version(), kernel::futex(), kernel::boot_id()];
    findings.extend(location::look("bare names", home));
    if let Some(path) = path {
        findings.extend(location::look("path", path));
    }
    findings.extend([
        memory::cgroup(),
        memory::huge_pages(home),
        limits::file_size(),
        limits::address_space(),
        limits::mappings(),
        login::remove_ipc(home),
        login::protected_regular(),
    ]);
    findings
}

fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|f| f.level == level).count()
}

/// The directory in which holds with bare names live.
fn home_of_bare_names(directory: &Directory) -> Result<PathBuf> {
    let hold = directory.resolve(Path::new("doctor"))?;
    Ok(hold.parent().unwrap_or(Path::new(".")).to_owned())
}
