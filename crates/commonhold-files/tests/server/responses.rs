//! Responses that an operator has changed: added fields, pages of errors, pages of applications.

use super::client::{Answer, Client, simple};
use super::site::{LARGE, Site, bytes};
use super::{Choices, Naming, Served};
use commonhold_files::{AccessLogFile, AccessLogFormat, Server, ServerOptions};
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use std::fs;

/// Serves the files in some of all ways.
pub fn each(change: impl Fn(&mut ServerOptions), test: impl Fn(&Served)) {
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
    ("DELETE", "/one.txt", "", 405),
];

pub fn kinds(served: &Served, check: impl Fn(&Answer)) {
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

/// The pages of the tests below.
fn with_pages(options: &mut ServerOptions) {
    options.error_pages = vec!["404=page.html".parse().unwrap(), "403=large.bin".parse().unwrap()];
}

#[test]
fn errors_have_pages() {
    each(with_pages, |served| {
        let mut client = Client::to(served.address);
        // The second time from the cache.
        for target in ["/absent", "/bare/", "/../x", "/sub/absent"].repeat(2) {
            let answer = client.get(target);
            assert_eq!(answer.status, 404, "{target}");
            assert_eq!(answer.body, bytes(b"page.html", 5000), "{target}");
            assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
            assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
            for field in ["ETag", "Last-Modified", "Accept-Ranges", "Content-Encoding"] {
                assert_eq!(answer.field(field), None, "{}", answer.head);
            }
        }
        // Conditions and ranges are those of contents, which are not there.
        let fields = "If-None-Match: *\r\nRange: bytes=0-0\r\nAccept-Encoding: br\r\n";
        let answer = client.ask("GET", "/absent", fields);
        assert_eq!((answer.status, answer.field("Content-Encoding")), (404, Some("br")));
        assert_eq!(answer.body, bytes(b"page.html.br", 2000));
        let head = client.ask("HEAD", "/absent", "");
        assert_eq!((head.status, head.len()), (404, 5000));
        let page = client.get("/page.html");
        assert!(page.status == 200 && page.field("ETag").is_some());
        assert_eq!(client.ask("DELETE", "/absent", "").body, b"405 Method Not Allowed\r\n");
        assert_eq!(simple(served.address, b"absent\n"), [0]);
    });
}

#[test]
fn an_error_whose_page_is_gone_has_a_text() {
    each(
        |options| options.error_pages = vec!["404=absent.html".parse().unwrap()],
        |served| {
            let answer = Client::to(served.address).get("/absent");
            assert_eq!((answer.status, &*answer.body), (404, &b"404 Not Found\r\n"[..]));
        },
    );
}

#[test]
fn paths_of_an_application_get_its_page() {
    let change = |options: &mut ServerOptions| {
        with_pages(options);
        options.fallback = Some("sub/index.html".to_owned());
    };
    each(change, |served| {
        let mut client = Client::to(served.address);
        let page = bytes(b"sub/index.html", 800);
        let etag = client.get("/sub/").field("ETag").unwrap().to_owned();
        for target in ["/users", "/users/7", "/users/", "/v1.2/users?a=b.c", "/bare/"] {
            let answer = client.get(target);
            assert_eq!((answer.status, answer.body == page), (200, true), "{target}");
            assert_eq!(answer.field("ETag"), Some(&*etag), "{target}");
            let fields = format!("If-None-Match: {etag}\r\n");
            assert_eq!(client.ask("GET", target, &fields).status, 304, "{target}");
            let range = client.ask("GET", target, "Range: bytes=1-2\r\n");
            assert_eq!((range.status, &*range.body), (206, &page[1..3]), "{target}");
        }
        for target in ["/absent.js", "/users/7.json", "/.git", "/a/../b", "/a//b"] {
            assert_eq!(client.get(target).status, 404, "{target}");
        }
        assert_eq!(client.get("/sub").field("Location"), Some("/sub/"));
        assert_eq!(client.get("/one.txt").body, bytes(b"one.txt", 1));
        assert_eq!(simple(served.address, b"users\n"), [0]);
    });
}

#[test]
fn pages_outside_are_refused() {
    let site = Site::new();
    for page in ["../secret", ".hidden", "sub/"] {
        let mut options = ServerOptions::new(site.root());
        (options.fallback, options.index) = (Some(page.to_owned()), None);
        let error = Server::start(options, &[]).err().expect("an error").to_string();
        assert!(error.contains(page), "{error}");
    }
}

#[test]
fn a_log_file_has_a_line_for_each_answer() {
    let dir = TestDir::memory();
    let path = dir.path("access.log");
    let change = |options: &mut ServerOptions| {
        let format = AccessLogFormat::Combined;
        options.access_log = Some(AccessLogFile { path: path.clone(), format });
    };
    each(change, |served| {
        let mut client = Client::to(served.address);
        let fields = "User-Agent: a\" 1\r\nReferer: b\r\n";
        assert_eq!(client.ask("GET", "/large.bin?q", fields).status, 200);
        assert_eq!(client.ask("GET", "/ten.txt", "Range: bytes=1-2\r\n").status, 206);
        assert_eq!(client.ask("HEAD", "/ten.txt", "").status, 200);
        assert_eq!(client.get("/absent").status, 404);
        assert_eq!(simple(served.address, b"ten.txt\n").len(), 10);
        client.say("GET /%zz HTTP/1.1\r\n\r\n");
        assert_eq!(client.answer(false).status, 400);
        let ends = [
            format!("] \"GET /large.bin?q HTTP/1.1\" 200 {LARGE} \"b\" \"a\\x22 1\"\n"),
            "] \"GET /ten.txt HTTP/1.1\" 206 2 \"-\" \"-\"\n".to_owned(),
            "] \"HEAD /ten.txt HTTP/1.1\" 200 - \"-\" \"-\"\n".to_owned(),
            "] \"GET /absent HTTP/1.1\" 404 15 \"-\" \"-\"\n".to_owned(),
            "] \"ten.txt\" 200 10 \"-\" \"-\"\n".to_owned(),
            "] \"GET /%zz HTTP/1.1\" 400 17 \"-\" \"-\"\n".to_owned(),
        ];
        let mut text = String::new();
        until("all lines are there", || {
            text = fs::read_to_string(&path).unwrap();
            text.lines().count() == ends.len()
        });
        for end in ends {
            assert!(text.contains(&end), "no {end} in {text}");
        }
        assert!(text.lines().all(|line| line.starts_with("127.0.0.1 - - [")), "{text}");
        fs::remove_file(&path).unwrap();
    });
}
