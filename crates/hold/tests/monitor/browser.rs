//! A real browser: Chromium, without a screen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;

/// The browser's program, if it is installed. Missing in CI is a failure; elsewhere it is said aloud that nothing was tested.
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
        let text = "\n*** SKIPPED: the status page in a browser: no chromium here\n";
        // Past libtest's capture, so that it is seen although the test passes.
        writeln!(std::io::stderr(), "{text}").expect("standard error takes a line");
    }
    found
}

/// The document at `url`, as it is after some seconds of the browser's own clock, which stands still while it waits for answers.
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

/// Stands between a browser and a server. Before the page is asked for the second time, and the script asks for it then, `meanwhile`
/// runs; returns the port.
pub fn between(server: u16, meanwhile: impl Fn() + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut loaded, once) = (false, Once::new());
        for mut client in listener.incoming().flatten() {
            let head = head_of(&mut client);
            if head.starts_with("GET /_hold/ ") {
                if loaded {
                    once.call_once(&meanwhile);
                }
                loaded = true;
            }
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).expect("the server");
            let head = head.replace("Connection: keep-alive", "Connection: close");
            upstream.write_all(head.as_bytes()).expect("it takes a request");
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).expect("an answer");
            // A browser that has seen enough goes.
            let _ = client.write_all(&answer);
        }
    });
    port
}

fn head_of(client: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head is text")
}
