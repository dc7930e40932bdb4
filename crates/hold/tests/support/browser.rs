//! A real browser: Chromium, without a screen.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The browser's program, if it is installed. Missing in CI is a failure; elsewhere it is said
/// aloud that nothing was tested.
pub fn program() -> Option<&'static str> {
    let runs = |program: &&str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = ["chromium", "chromium-browser"].into_iter().find(|program| runs(program));
    if found.is_none() {
        let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!in_ci, "missing in CI: chromium");
        let text = "\n*** SKIPPED: pages in a browser: no chromium here\n";
        // Past libtest's capture, so that it is seen although the test passes.
        writeln!(std::io::stderr(), "{text}").expect("standard error takes a line");
    }
    found
}

/// The document at `url`, after some seconds of the browser's own clock, which stands
/// still while it waits for answers.
pub fn document(program: &str, profile: &Path, url: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", program, "--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-dev-shm-usage", "--no-first-run", "--virtual-time-budget=3500"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    let output = command.args(["--dump-dom", url]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    String::from_utf8(output.stdout).expect("a document is text")
}
