//! The meaning of a rival that cannot run here: in the project's CI, which installs all it needs, a
//! failure; elsewhere a test that checks nothing, and reports that.

use std::{env, io::Write};

/// Prints the rivals that cannot run, and the reasons.
///
/// # Panics
/// In CI.
pub fn tell(who: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "missing in CI: {who}");
    // Past libtest's capture, so that it is seen although the test passes. Not eprintln: the test
    // harness would keep it for itself.
    writeln!(std::io::stderr(), "\n*** SKIPPED: {who}\n").expect("standard error takes a line");
}
