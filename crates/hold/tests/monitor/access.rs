//! The secret of the status page: who has it reads everything, and who has not reads nothing.

use super::{Answer, exchange, port_of, serve_with, site};
use crate::support::TestDir;
use crate::support::background::Background;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

const SECRET: &str = "tulips-in-the-rain";

/// The file with the secret, which only its owner may read.
fn secret_file(test_dir: &TestDir, name: &str, text: &str, mode: u32) {
    let path = test_dir.file(name, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
}

fn ask(port: u16, path: &str, fields: &str) -> Answer {
    let close = "Connection: close\r\n\r\n";
    let host = if fields.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    exchange(port, format!("GET {path} HTTP/1.1\r\n{host}{fields}{close}").as_bytes())
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn only_who_has_the_secret_reads_the_page() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    secret_file(&test_dir, "secret", &format!("{SECRET}\n"), 0o600);
    let args = ["monitor", "shop", "--listen", "tcp:0", "--auth-file", "secret"];
    let mut monitor = Background::start(&test_dir, &[&args[..], &["--format", "json"]].concat());
    let said: Value = serde_json::from_str(&monitor.line()).expect("JSON");
    let port = port_of(&said["listening"][0]);
    let paths = ["/_hold/", "/_hold/status.json", "/metrics", "/_hold/page.css", "/other"];
    let wrong = [
        String::new(),
        basic("me", "tulips-in-the-rai"),
        basic("me", "tulips-in-the-rain "),
        basic(SECRET, ""),
        bearer("tulips-in-the-snow"),
        bearer(&STANDARD.encode(format!("me:{SECRET}"))),
        bearer(SECRET).repeat(2),
        format!("X-Authorization: Bearer {SECRET}\r\n"),
        format!("Authorization: Basic {SECRET}\r\n"),
    ];
    for fields in wrong {
        for path in paths {
            let answer = ask(port, path, &fields);
            assert_eq!(answer.status, 401, "{path} {fields}");
            let asks = ["Basic realm=\"hold\"", "Bearer realm=\"hold\""];
            for challenge in asks.map(|scheme| format!("WWW-Authenticate: {scheme}")) {
                assert!(answer.head.contains(&challenge), "{}", answer.head);
            }
            assert!(!answer.body.contains("prices") && !answer.body.contains("hold_"));
        }
    }
    for fields in [bearer(SECRET), basic("me", SECRET), basic("", SECRET)] {
        assert!(ask(port, "/_hold/", &fields).body.contains("prices"), "{fields}");
        assert!(ask(port, "/metrics", &fields).body.contains("hold_map_pairs"), "{fields}");
        assert_eq!(ask(port, "/other", &fields).status, 404);
    }
    // A foreign name is refused as ever: a browser may have stored the secret.
    let foreign = format!("Host: example.org\r\n{}", basic("me", SECRET));
    assert_eq!(ask(port, "/metrics", &foreign).status, 403);
    // A browser asks again on the same connection.
    let request = "GET /_hold/page.css HTTP/1.1\r\nHost: localhost\r\n";
    let both = format!("{request}\r\n{request}{}Connection: close\r\n\r\n", bearer(SECRET));
    let answer = exchange(port, both.as_bytes());
    assert!(answer.status == 401 && answer.body.contains("HTTP/1.1 200 OK"), "{}", answer.body);
}

#[test]
fn a_file_server_has_a_secret_for_its_page_only() {
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    secret_file(&test_dir, "secret", SECRET, 0o600);
    let served = serve_with(&test_dir, OsStr::new("site"), &["--admin-auth-file", "secret"]);
    assert_eq!(ask(served.admin, "/metrics", "").status, 401);
    assert_eq!(ask(served.admin, "/metrics", &bearer(SECRET)).status, 200);
    assert_eq!(ask(served.port, "/f1", "").status, 200);
    drop(served);
    let err = test_dir.fails(2, &["serve", "site", "--admin-auth-file", "secret"]);
    assert!(err.contains("--admin"), "{err}");
}

#[test]
fn a_secret_that_protects_nothing_is_an_error() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    secret_file(&test_dir, "open", SECRET, 0o644);
    secret_file(&test_dir, "short", "tulips\n", 0o600);
    secret_file(&test_dir, "empty", "", 0o600);
    secret_file(&test_dir, "spaces", "tulips in the rain", 0o600);
    secret_file(&test_dir, "lines", "tulips-in-the-rain\nmore", 0o600);
    let expected = [
        ("open", "run 'chmod 600 open'"),
        ("short", "expected a secret of 16 bytes"),
        ("empty", "expected a secret of 16 bytes"),
        ("spaces", "expected printable ASCII characters without spaces"),
        ("lines", "expected printable ASCII characters without spaces"),
        ("absent", "No such file"),
    ];
    for (name, why) in expected {
        let args = ["monitor", "shop", "--listen", "tcp:0", "--auth-file", name];
        let err = test_dir.fails(3, &args);
        assert!(err.contains(&format!("{name}: ")) && err.contains(why), "{err}");
    }
}
