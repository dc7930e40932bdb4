//! Rivals that cannot run here. In the project's CI, which installs all of them, this is a failure.
//! Elsewhere, the test checks nothing, and reports that.

use std::{env, io::Write};

/// Prints the rivals that cannot run, and the reasons.
///
/// # Panics
/// In CI.
pub fn tell(who: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "missing in CI: {who}");
    // This bypasses the capture of libtest, which hides the output of `eprintln` if a test passes.
    writeln!(std::io::stderr(), "\n*** SKIPPED: {who}\n").expect("standard error takes a line");
}
