//! Responses that an operator has changed: added fields, pages of errors, pages of applications.

use super::client::{Answer, Client, simple};
use super::site::{Site, bytes};
use super::{Choices, Naming, Served};
use commonhold_files::ServerOptions;

/// Serves the files in some of all ways.
fn each(change: impl Fn(&mut ServerOptions), test: impl Fn(&Served)) {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), &change);
        test(&served);
        served.finish();
    }
}

/// Requests of all kinds of responses, with their status.
const KINDS: [(&str, &str, &str, u16); 11] = [
    ("GET", "/one.txt", "", 200),
    ("GET", "/large.bin", "", 200),
    ("HEAD", "/large.bin", "", 200),
    ("GET", "/large.bin", "Range: bytes=1-2\r\n", 206),
    ("GET", "/ten.txt", "Range: bytes=1-2,4-5\r\n", 206),
    ("GET", "/ten.txt", "If-None-Match: *\r\n", 304),
    ("GET", "/ten.txt", "If-Match: \"a\"\r\n", 412),
    ("GET", "/ten.txt", "Range: bytes=99-\r\n", 416),
    ("GET", "/sub", "", 301),
    ("GET", "/absent", "", 404),
    ("BREW", "/one.txt", "", 405),
];

fn kinds(served: &Served, check: impl Fn(&Answer)) {
    let mut client = Client::to(served.address);
    for (method, target, fields, status) in KINDS {
        let answer = client.ask(method, target, fields);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.head);
        check(&answer);
    }
    client.say("GET /%zz HTTP/1.1\r\nHost: test\r\n\r\n");
    let answer = client.answer(false);
    assert_eq!(answer.status, 400);
    check(&answer);
}

#[test]
fn fields_are_added_to_all_responses() {
    let change = |options: &mut ServerOptions| {
        options.headers = vec!["X-Frame-Options: DENY".parse().unwrap(), "X-B:c".parse().unwrap()];
        options.cache_control = Some("public, max-age=60".parse().unwrap());
    };
    each(change, |served| {
        kinds(served, |answer| {
            assert_eq!(answer.field("X-Frame-Options"), Some("DENY"), "{}", answer.head);
            assert_eq!(answer.field("X-B"), Some("c"), "{}", answer.head);
            let cached = matches!(answer.status, 200 | 206 | 304).then_some("public, max-age=60");
            assert_eq!(answer.field("Cache-Control"), cached, "{}", answer.head);
            assert_eq!(answer.field("Access-Control-Allow-Origin"), None);
        });
        assert_eq!(simple(served.address, b"ten.txt\n"), bytes(b"ten.txt", 10));
    });
}

#[test]
fn scripts_of_the_origin_may_read_responses() {
    for origin in ["*", "https://example.org"] {
        let change = |options: &mut ServerOptions| options.cors = Some(origin.parse().unwrap());
        each(change, |served| {
            kinds(served, |answer| {
                assert_eq!(answer.field("Access-Control-Allow-Origin"), Some(origin));
                let exposed = answer.field("Access-Control-Expose-Headers").unwrap();
                assert!(exposed.contains("ETag") && exposed.contains("Content-Range"));
                assert_eq!(answer.field("Access-Control-Allow-Methods"), None);
            });
            let mut client = Client::to(served.address);
            let preflight = "Origin: https://example.org\r\nAccess-Control-Request-Method: GET\r\n\
                             Access-Control-Request-Headers: if-none-match,range\r\n";
            let answer = client.ask("OPTIONS", "/ten.txt", preflight);
            assert_eq!((answer.status, answer.field("Content-Length")), (204, None));
            assert_eq!(answer.field("Access-Control-Allow-Origin"), Some(origin));
            assert_eq!(answer.field("Access-Control-Allow-Methods"), Some("GET, HEAD, OPTIONS"));
            let accepted = answer.field("Access-Control-Allow-Headers").unwrap();
            assert!(accepted.contains("If-None-Match") && accepted.contains("Range"));
            assert_eq!(answer.field("Access-Control-Max-Age"), Some("3600"));
            assert_eq!(client.get("/ten.txt").body, bytes(b"ten.txt", 10));
        });
    }
}
