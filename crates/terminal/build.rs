//! Finds the commit that `hold --version` and `hold nats --version` show: the value of the
//! environment variable COMMONHOLD_COMMIT, or else git's. Sources without git, such as those of an
//! archive, have none, and neither have builds that are not fully optimized: each commit would
//! compile the tests again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=COMMONHOLD_COMMIT");
    let given = std::env::var("COMMONHOLD_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(of_git) {
        println!("cargo::rustc-env=COMMONHOLD_COMMIT={commit}");
    }
}

fn of_git() -> Option<String> {
    std::env::var("OPT_LEVEL").ok().filter(|level| level == "3")?;
    // Each commit and each checkout appends a line to this file, also in a worktree.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    // Another repository may contain an archive of the sources.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// What git prints, unless it is missing or fails.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
