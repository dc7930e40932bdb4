//! What it means that a rival cannot run here: in the project's CI, which installs all it needs, a
//! failure; elsewhere a test that checks nothing, which is said aloud.

use std::{env, io::Write};

/// Says who cannot run and why.
///
/// # Panics
/// In CI.
pub fn tell(who: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "missing in CI: {who}");
    // Past libtest's capture, so that it is seen although the test passes. Not eprintln: the test
    // harness would keep it for itself.
    writeln!(std::io::stderr(), "\n*** SKIPPED: {who}\n").expect("standard error takes a line");
}
