//! A real client. Where it is not installed these tests say so, and have shown nothing.

use super::{Serving, files, site};
use crate::support::Ground;
use std::process::Command;

/// Runs curl; returns its output, and the codes of the answers.
fn curl(ground: &Ground, args: &[&str]) -> (String, String) {
    let mut command = Command::new("curl");
    command.args(["-q", "--noproxy", "*", "--silent", "--show-error", "--max-time", "60"]);
    command.args(["--write-out", "%{stderr}%{http_code} "]).args(args).current_dir(ground.path(""));
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
    let ground = site();
    let serving = Serving::start(&ground, "public", &["--workers", "2"]);
    let url = |path: &str| format!("http://127.0.0.1:{}/{path}", serving.port);
    let (name, contents) = files().remove(30);
    let text = String::from_utf8(contents).expect("text");
    let one = url(&name);
    let ok = |(out, code): (String, String), wanted: &str| {
        assert_eq!(code, wanted, "{out}");
        out
    };
    assert_eq!(ok(curl(&ground, &[&one]), "200"), text);
    // Several over one connection.
    let several: Vec<String> = (1..30).map(|number| url(&format!("{number}.txt"))).collect();
    let several: Vec<&str> = several.iter().map(String::as_str).collect();
    let all: Vec<u8> = files().into_iter().skip(1).take(29).flat_map(|(_, bytes)| bytes).collect();
    assert!(ok(curl(&ground, &several), "200 ".repeat(29).trim()).into_bytes() == all);
    let head = ok(curl(&ground, &["--head", &one]), "200");
    assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
    assert_eq!(ok(curl(&ground, &["--range", "5-9", &one]), "206"), text[5..10]);
    assert_eq!(ok(curl(&ground, &["--range", "-7", &one]), "206"), text[text.len() - 7..]);
    let parts = ok(curl(&ground, &["--range", "0-3,10-12", &one]), "206");
    assert!(
        parts.contains("Content-Range: bytes 0-3/") && parts.contains(&text[10..13]),
        "{parts}"
    );
    ok(curl(&ground, &["--range", "99999999-", &one]), "416");
    // An interrupted download is resumed.
    ground.file("part", &text[..100]);
    ok(curl(&ground, &["--continue-at", "-", "--output", "part", &one]), "206");
    assert_eq!(ground.read("part"), text.as_bytes());
    // It does not receive the same part again.
    let tags = ["--etag-save", "tag", "--etag-compare", "tag", &one];
    assert_eq!(ok(curl(&ground, &tags), "200"), text);
    assert_eq!(ok(curl(&ground, &tags), "304"), "");
    ok(curl(&ground, &["--remote-time", "--output", "copy", &one]), "200");
    assert_eq!(ok(curl(&ground, &["--time-cond", "copy", &one]), "304"), "");
    ok(curl(&ground, &["--http1.0", &one]), "200");
    ok(curl(&ground, &["--data", "a=b", &one]), "405");
    ok(curl(&ground, &["--path-as-is", &url("../public/1.txt")]), "404");
    ok(curl(&ground, &[&url("no%20such")]), "404");
    serving.stop();
}
