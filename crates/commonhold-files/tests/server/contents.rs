//! Contents, and the heads of their answers.

use super::client::{Client, simple, target};
use super::every::Stage;
use super::site::{COMPRESSED, FILES, bytes};

/// The time of the last change of all files.
const DATE: &str = "Sun, 13 Sep 2020 12:26:40 GMT";

/// The methods of the server.
const METHODS: &str = "GET, HEAD, OPTIONS";

pub fn files_are_what_they_are(stage: &Stage) {
    let mut client = Client::to(stage.address);
    // The second time from the cache, as far as they are kept.
    for _ in 0..2 {
        for (name, len) in FILES {
            let target = target(name);
            let got = client.get(&target);
            assert_eq!((got.status, got.len()), (200, len), "{target}: {}", got.head);
            assert!(got.body == bytes(name, len), "{target}: not its bytes");
            assert_eq!(got.field("Last-Modified"), Some(DATE));
            assert_eq!(got.field("Accept-Ranges"), Some("bytes"));
            assert_eq!(got.field("Connection"), None);
            let etag = got.field("ETag").expect("a tag");
            assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() == 34, "{etag}");
            let head = client.ask("HEAD", &target, "");
            assert_eq!((head.status, head.len()), (200, len), "{target}: {}", head.head);
            for field in ["ETag", "Last-Modified", "Content-Type", "Vary"] {
                assert_eq!(head.field(field), got.field(field), "{target}");
            }
        }
    }
    let kind = |client: &mut Client, target: &str| {
        client.ask("HEAD", target, "").field("Content-Type").unwrap().to_owned()
    };
    assert_eq!(kind(&mut client, "/one.txt?a=b"), "text/plain; charset=utf-8");
    assert_eq!(kind(&mut client, "/huge.bin"), "application/octet-stream");
    assert_eq!(kind(&mut client, "/style.css"), "text/css; charset=utf-8");
    let mut storage = Client::to(stage.storage);
    let paper = storage.get("/ABCD1234");
    assert!(paper.status == 200 && paper.body == bytes(b"ABCD1234", 3000));
    assert_eq!(paper.field("Content-Type"), Some("application/pdf"));
}

pub fn absent_files_are_not_found(stage: &Stage) {
    let mut client = Client::to(stage.address);
    let absent = ["/absent", "/one.txt/", "/one.txt/x", "/sub/absent", "/..", "/sub/../one.txt"];
    for target in absent {
        let answer = client.get(target);
        assert_eq!((answer.status, &answer.body[..]), (404, &b"404 Not Found\r\n"[..]), "{target}");
        assert_eq!(client.ask("HEAD", target, "").status, 404, "{target}");
    }
    let long = format!("/{}", "n".repeat(4000));
    assert_eq!(client.get(&long).status, 404);
    assert_eq!(client.get("/ten.txt").body, bytes(b"ten.txt", 10));
    let mut storage = Client::to(stage.storage);
    for target in ["/NOTHING1", "/ABSENT00", "/ABCD123", "/abcd1234", "/ABCD1234/paper.pdf", "/"] {
        assert_eq!(storage.get(target).status, 404, "{target}");
    }
    assert_eq!(simple(stage.storage, b"NOTHING1"), [0]);
}

pub fn methods_are_get_head_and_options(stage: &Stage) {
    let mut client = Client::to(stage.address);
    for method in ["DELETE", "TRACE"] {
        let answer = client.ask(method, "/one.txt", "");
        assert_eq!((answer.status, answer.field("Allow")), (405, Some(METHODS)), "{method}");
        assert_ne!(answer.field("Connection"), Some("close"));
    }
    for method in ["get", "BREW"] {
        let answer = client.ask(method, "/one.txt", "");
        assert_eq!((answer.status, answer.field("Allow")), (501, None), "{method}");
        assert_ne!(answer.field("Connection"), Some("close"));
    }
    for target in ["/one.txt", "/absent", "*"] {
        let answer = client.ask("OPTIONS", target, "Origin: https://example.org\r\n");
        assert_eq!((answer.status, answer.field("Allow")), (204, Some(METHODS)), "{target}");
        for field in ["Content-Length", "Access-Control-Allow-Origin"] {
            assert_eq!(answer.field(field), None, "{}", answer.head);
        }
    }
    assert_eq!(client.get("/one.txt").status, 200);
    // A body is not waited for, and not taken for a request.
    client.say(
        "POST /one.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\n",
    );
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.field("Connection")), (405, Some("close")));
    client.say_no_more();
    client.is_over();
}

pub fn codings_are_sent_to_clients_that_accept_them(stage: &Stage) {
    let mut client = Client::to(stage.address);
    let mut coded = |name: &[u8], accepted: &str, wanted: Option<&str>| {
        let fields = match accepted {
            "" => String::new(),
            accepted => format!("Accept-Encoding: {accepted}\r\n"),
        };
        for _ in 0..2 {
            let answer = client.ask("GET", &target(name), &fields);
            assert_eq!((answer.status, answer.field("Content-Encoding")), (200, wanted));
            assert_eq!(answer.field("Vary"), Some("Accept-Encoding"), "{}", answer.head);
            let suffix = match wanted {
                Some("br") => &b".br"[..],
                Some(_) => b".gz",
                None => b"",
            };
            let (file, compressed) =
                ([name, suffix].concat(), COMPRESSED.map(|(name, len, _)| (name, len)));
            let (_, len) =
                *FILES.iter().chain(&compressed).find(|(name, _)| *name == file).unwrap();
            assert!(answer.body == bytes(&file, len), "{accepted}: {}", answer.head);
            let kind = answer.field("Content-Type").unwrap();
            assert!(kind.starts_with("text/"), "{kind}");
        }
    };
    coded(b"page.html", "", None);
    coded(b"page.html", "gzip, deflate, br", Some("br"));
    coded(b"page.html", "gzip", Some("gzip"));
    coded(b"page.html", "br;q=0, gzip;q=0.5", Some("gzip"));
    coded(b"page.html", "identity, deflate", None);
    // Its .br is older than it is.
    coded(b"style.css", "br, gzip", Some("gzip"));
    coded(b"style.css", "br", None);
    let plain = client.ask("GET", "/ten.txt", "Accept-Encoding: br, gzip\r\n");
    assert_eq!((plain.field("Vary"), plain.field("Content-Encoding")), (None, None));
    let tag = |client: &mut Client, fields: &str| {
        client.ask("HEAD", "/page.html", fields).field("ETag").unwrap().to_owned()
    };
    let tags = ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip\r\n"]
        .map(|fields| tag(&mut client, fields));
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
}

pub fn directories_have_an_index(stage: &Stage) {
    let mut client = Client::to(stage.address);
    assert!(client.get("/").body == bytes(b"index.html", 700));
    assert!(client.get("/sub/").body == bytes(b"sub/index.html", 800));
    assert!(client.get("/sub/?q").body == bytes(b"sub/index.html", 800));
    assert_eq!(client.get("/bare/").status, 404);
    for (target, to) in [
        ("/sub", "/sub/"),
        ("/sub?a=b/c", "/sub/?a=b/c"),
        ("/%73ub", "/%73ub/"),
        ("HTTP://test:80/sub?a", "/sub/?a"),
    ] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.field("Location")), (301, Some(to)), "{target}");
    }
    // Names that are similar to the directory's, and paths below a file.
    for target in ["/su", "/sub0", "/sub.", "/one.txt/", "/sub/index.html/x"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(simple(stage.address, b"\n"), bytes(b"index.html", 700));
    assert_eq!(simple(stage.address, b"sub/\n"), bytes(b"sub/index.html", 800));
    assert_eq!(simple(stage.address, b"sub\n"), [0]);
}
