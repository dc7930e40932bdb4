//! A real client. Where it is not installed these tests say so, and have shown nothing.

use super::{Serving, files, site};
use crate::support::TestDir;
use std::process::Command;

/// Runs curl; returns its output, and the codes of the answers.
fn curl(test_dir: &TestDir, args: &[&str]) -> (String, String) {
    let mut command = Command::new("curl");
    command.args(["-q", "--noproxy", "*", "--silent", "--show-error", "--max-time", "60"]);
    command
        .args(["--write-out", "%{stderr}%{http_code} "])
        .args(args)
        .current_dir(test_dir.path(""));
    let output = command.output().expect("curl");
    assert!(output.status.success(), "{args:?}: {output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr).trim().to_owned())
}

fn is_here() -> bool {
    let here = Command::new("curl").arg("--version").output().is_ok();
    if !here {
        eprintln!("not tested: curl is not installed");
    }
    here
}

#[test]
fn curl_receives_the_requested_files() {
    if !is_here() {
        return;
    }
    let test_dir = site();
    let serving = Serving::start(&test_dir, "public", &["--workers", "2"]);
    let url = |path: &str| format!("http://127.0.0.1:{}/{path}", serving.port);
    let (name, contents) = files().remove(30);
    let text = String::from_utf8(contents).expect("text");
    let one = url(&name);
    let ok = |(out, code): (String, String), wanted: &str| {
        assert_eq!(code, wanted, "{out}");
        out
    };
    assert_eq!(ok(curl(&test_dir, &[&one]), "200"), text);
    // Several over one connection.
    let several: Vec<String> = (1..30).map(|number| url(&format!("{number}.txt"))).collect();
    let several: Vec<&str> = several.iter().map(String::as_str).collect();
    let all: Vec<u8> = files().into_iter().skip(1).take(29).flat_map(|(_, bytes)| bytes).collect();
    assert!(ok(curl(&test_dir, &several), "200 ".repeat(29).trim()).into_bytes() == all);
    let head = ok(curl(&test_dir, &["--head", &one]), "200");
    assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
    assert_eq!(ok(curl(&test_dir, &["--range", "5-9", &one]), "206"), text[5..10]);
    assert_eq!(ok(curl(&test_dir, &["--range", "-7", &one]), "206"), text[text.len() - 7..]);
    let parts = ok(curl(&test_dir, &["--range", "0-3,10-12", &one]), "206");
    assert!(
        parts.contains("Content-Range: bytes 0-3/") && parts.contains(&text[10..13]),
        "{parts}"
    );
    ok(curl(&test_dir, &["--range", "99999999-", &one]), "416");
    // An interrupted download is resumed.
    test_dir.file("part", &text[..100]);
    ok(curl(&test_dir, &["--continue-at", "-", "--output", "part", &one]), "206");
    assert_eq!(test_dir.read("part"), text.as_bytes());
    // It does not receive the same part again.
    let tags = ["--etag-save", "tag", "--etag-compare", "tag", &one];
    assert_eq!(ok(curl(&test_dir, &tags), "200"), text);
    assert_eq!(ok(curl(&test_dir, &tags), "304"), "");
    ok(curl(&test_dir, &["--remote-time", "--output", "copy", &one]), "200");
    assert_eq!(ok(curl(&test_dir, &["--time-cond", "copy", &one]), "304"), "");
    ok(curl(&test_dir, &["--http1.0", &one]), "200");
    ok(curl(&test_dir, &["--data", "a=b", &one]), "405");
    ok(curl(&test_dir, &["--path-as-is", &url("../public/1.txt")]), "404");
    ok(curl(&test_dir, &[&url("no%20such")]), "404");
    serving.stop();
}
