//! The continuation and the end of connections, in both protocols.

use super::client::{Client, get, request, simple, target};
use super::every::Stage;
use super::site::{FILES, HUGE, LARGE, bytes};

pub fn connections_are_kept_as_was_agreed(stage: &Stage) {
    let mut client = Client::to(stage.address);
    for _ in 0..20 {
        assert_eq!(client.get("/one.txt").status, 200);
    }
    let last = client.ask("GET", "/one.txt", "Connection: close\r\n");
    assert_eq!((last.status, last.field("Connection")), (200, Some("close")));
    client.is_over();
    // HTTP/1.0 ends, unless both say otherwise; without a host it is right, too.
    let mut old = Client::to(stage.address);
    old.say("GET /ten.txt HTTP/1.0\r\n\r\n");
    let answer = old.answer(false);
    assert_eq!((answer.status, answer.field("Connection")), (200, Some("close")));
    assert_eq!(answer.body, bytes(b"ten.txt", 10));
    old.is_over();
    let mut old = Client::to(stage.address);
    for name in ["ten.txt", "large.bin"] {
        old.say(format!("GET /{name} HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
        let answer = old.answer(false);
        assert_eq!((answer.status, answer.field("Connection")), (200, Some("keep-alive")));
    }
    old.say("GET /absent HTTP/1.0\r\n\r\n");
    assert_eq!(old.answer(false).status, 404);
    old.is_over();
    // A request in many parts is one request all the same.
    let mut slow = Client::to(stage.address);
    for part in request("GET", "/ten.txt", "Range: bytes=1-2\r\n").as_bytes().chunks(7) {
        slow.say(part);
    }
    assert_eq!(slow.answer(false).body, bytes(b"ten.txt", 10)[1..3]);
}

pub fn requests_in_one_go_are_answered_in_order(stage: &Stage) {
    let mut client = Client::to(stage.address);
    let mut all = String::new();
    for (name, _) in FILES {
        all += &request("GET", &target(name), "");
        all += &request("HEAD", &target(name), "");
        all += &request("GET", &target(name), "Range: bytes=0-0\r\n");
        all += &request("GET", "/absent", "");
        all += &request("PATCH", "/", "");
    }
    all += &request("GET", "/ten.txt", "Connection: close\r\n");
    // Later bytes get no answer.
    all += &request("GET", "/one.txt", "");
    client.say(all);
    for (name, len) in FILES {
        let answer = client.answer(false);
        assert!(answer.body == bytes(name, len), "{}", answer.head);
        assert_eq!(client.answer(true).len(), len);
        let range = client.answer(false);
        match len {
            0 => assert_eq!(range.status, 416),
            _ => assert_eq!((range.status, &*range.body), (206, &bytes(name, len)[..1])),
        }
        assert_eq!(client.answer(false).status, 404);
        assert_eq!(client.answer(false).status, 405);
    }
    assert_eq!(client.answer(false).body, bytes(b"ten.txt", 10));
    client.is_over();
}

pub fn a_client_that_has_ended_its_requests_gets_its_answers(stage: &Stage) {
    for (name, len) in [(&b"ten.txt"[..], 10), (b"huge.bin", HUGE), (b"empty.bin", 0)] {
        let mut client = Client::to(stage.address);
        client.say(request("GET", &target(name), "").repeat(2));
        client.say_no_more();
        for _ in 0..2 {
            assert!(client.answer(false).body == bytes(name, len));
        }
        client.is_over();
    }
    // Half a request is not a request.
    for half in ["GET /one.txt HTTP/1.1", "GET /one.txt HTTP/1.1\r\nHost: test\r\n"] {
        let mut client = Client::to(stage.address);
        client.say(half);
        client.say_no_more();
        client.is_over();
    }
    drop(Client::to(stage.address));
    assert_eq!(get(stage.address, "/one.txt").status, 200);
}

pub fn the_simple_protocol(stage: &Stage) {
    for (name, len) in FILES {
        // A file's name as it is, whatever its bytes.
        let id = [name, b"\n"].concat();
        assert!(simple(stage.address, &id) == bytes(name, len), "{id:?}");
    }
    assert_eq!(simple(stage.address, b"/ten.txt\r\nand more"), bytes(b"ten.txt", 10));
    for unknown in
        [&b"absent\n"[..], b"../root/one.txt\n", b"one.txt \n", b"a\0b\n", b"/etc/passwd\n"]
    {
        assert_eq!(simple(stage.address, unknown), [0], "{unknown:?}");
    }
    let mut client = Client::to(stage.address);
    client.say("lar");
    client.say("ge.bin");
    client.say_no_more();
    assert!(client.rest() == bytes(b"large.bin", LARGE));
    // Where all ids have the same length, the client need not mark the end of one.
    let paper = bytes(b"ABCD1234", 3000);
    assert!(simple(stage.storage, b"ABCD1234") == paper);
    assert!(simple(stage.storage, b"ABCD1234\n") == paper);
    assert!(simple(stage.storage, b"00000000") == bytes(b"00000000", LARGE));
    let mut client = Client::to(stage.storage);
    client.say("ABCD");
    client.say("1234");
    assert!(client.rest() == paper);
    for unknown in
        [&b"ZZZZZZZZ"[..], b"NOTHING1", b"ABCD123\n", b"ABCD12345\n", b"abcd1234\n", b"\n"]
    {
        let answer = simple(stage.storage, unknown);
        // The first eight characters are an id; later ones are ignored.
        let wanted = if unknown == b"ABCD12345\n" { &paper[..] } else { &[0] };
        assert!(answer == wanted, "{unknown:?}");
    }
    let mut client = Client::to(stage.storage);
    client.say("ABC");
    client.say_no_more();
    assert_eq!(client.rest(), [0]);
}
