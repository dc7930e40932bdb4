//! Invalid requests: each gets an answer with the fault, or none, and no other client is harmed.

use super::client::{Answer, Client, get, simple};
use super::site::{COMPRESSED, FILES, Site, bytes};
use super::{Choices, Naming, Served};
use commonhold_files::ProtocolKind;
use commonhold_testing::support::Dice;
use std::collections::HashSet;

const HOST: &str = "Host: test\r\n";

/// All answers; bytes at the end that are not an answer of HTTP.
#[track_caller]
fn answers(client: &mut Client) -> (Vec<Answer>, Vec<u8>) {
    let (all, mut answers) = (client.rest(), Vec::new());
    let mut rest = &all[..];
    while rest.starts_with(b"HTTP/1.1 ") {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(rest[..end].to_vec()).expect("text");
        let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: Vec::new() };
        rest = &rest[end + 4..];
        if !matches!(answer.status, 204 | 304) {
            let len = answer.len().min(rest.len());
            answer.body = rest[..len].to_vec();
            rest = &rest[len..];
        }
        answers.push(answer);
    }
    (answers, rest.to_vec())
}

/// The answers to a client that sends only these bytes.
#[track_caller]
fn said(served: &Served, words: &[u8]) -> (Vec<Answer>, Vec<u8>) {
    let mut client = Client::to(served.address);
    client.try_say(words);
    client.say_no_more();
    answers(&mut client)
}

/// Requests, and the statuses of the answers to them.
fn wrong() -> Vec<(String, &'static [u16])> {
    let get = |rest: &str| format!("GET /one.txt HTTP/1.1\r\n{rest}\r\n");
    let host = |rest: &str| get(&format!("{HOST}{rest}"));
    let next = host("");
    let line = |line: &str| format!("{line}\r\n{HOST}\r\n");
    vec![
        (host(&"A: b\r\n".repeat(99)), &[200]),
        (host(&"A: b\r\n".repeat(100)), &[431]),
        (host(&format!("A: {}\r\n", "b".repeat(17 << 10))), &[431]),
        (host(&format!("A: {}", "b".repeat(60 << 10))), &[431]),
        (line("GET /one.txt HTTP/2.0"), &[505]),
        (line("GET /one.txt HTTP/1.2"), &[505]),
        (line("GET /one.txt HTTP/0.9"), &[505]),
        (line("GET /one.txt HTTP/11"), &[505]),
        (line("PRI * HTTP/2.0"), &[505]),
        (line("GET * HTTP/1.1"), &[400]),
        (line("GET one.txt HTTP/1.1"), &[400]),
        (line("GET ftp://test/one.txt HTTP/1.1"), &[400]),
        (line("CONNECT test:80 HTTP/1.1"), &[400]),
        (line("GET /%zz HTTP/1.1"), &[400]),
        (line("GET /one.txt%2 HTTP/1.1"), &[400]),
        // Behind the second space stands a version; otherwise it is not such a line.
        (line("GET /one txt HTTP/1.1"), &[400]),
        (line("G\u{e9}T /one.txt HTTP/1.1"), &[400]),
        (line("GET\t/one.txt HTTP/1.1"), &[400]),
        (line("GET /one.txt\tHTTP/1.1"), &[400]),
        (line("GET /one.txt HTTP/1.1 "), &[400]),
        (line("GET /one.txt HTTX/1.1"), &[400]),
        (line("GET /one.txt HTTP/one"), &[505]),
        (line("GET /one.txt"), &[400]),
        ("\x16\x03\x01\x02".to_owned(), &[400]),
        (get(""), &[400]),
        (get("Host: a\r\nHost: b\r\n"), &[400]),
        (get("Host: a b\r\n"), &[400]),
        (get("Host: http://a/\r\n"), &[400]),
        (get("Host: \r\n"), &[200]),
        (host("A : b\r\n"), &[400]),
        (host(": b\r\n"), &[400]),
        (host("A: b\r\n folded\r\n"), &[400]),
        (host("A: b\0c\r\n"), &[400]),
        (host("A: b\rc: d\r\n"), &[400]),
        (host("no field at all\r\n"), &[400]),
        (get("\rHost: test\r\n"), &[400]),
        // Lines may end without a carriage return (RFC 9112, 2.2).
        ("GET /one.txt HTTP/1.1\nHost: test\n\n".to_owned(), &[200]),
        // Before and between requests an empty line does not matter.
        (format!("\r\n{next}"), &[200]),
        (format!("{next}\r\n{next}"), &[200, 200]),
        // Bytes behind the head of a request with a body are never taken for a request.
        (host("Content-Length: 0\r\n") + &next, &[200, 200]),
        (host("Content-Length: 5\r\n") + &next, &[200]),
        (host("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n" + &next, &[200]),
        (host("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n") + &next, &[400]),
        (host("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n") + &next, &[200]),
        (host("Transfer-Encoding: gzip, chunked\r\n") + &next, &[501]),
        (host("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n") + &next, &[501]),
        (host("Transfer-Encoding : chunked\r\n") + &next, &[400]),
        (host("Content-Length: 5\r\nContent-Length: 5\r\n") + &next, &[200]),
        (host("Content-Length: 5\r\nContent-Length: 6\r\n") + &next, &[400]),
        (host("Content-Length: 5, 5\r\n") + &next, &[400]),
        (host("Content-Length: -1\r\n") + &next, &[400]),
        (host("Content-Length: 0x5\r\n") + &next, &[400]),
        (host("Content-Length: \r\n") + &next, &[400]),
        (host("Content-Length: 99999999999999999999\r\n") + &next, &[400]),
        (host("Content-Length: 18446744073709551615\r\n") + &next, &[200]),
        (host("Expect: 100-continue\r\nContent-Length: 1\r\n"), &[200]),
    ]
}

#[test]
fn wrong_requests_get_an_error() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
        for (words, wanted) in wrong() {
            let (answers, rest) = said(&served, words.as_bytes());
            let start: String = words.chars().take(200).collect();
            let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!((&*statuses, &*rest), (wanted, &[][..]), "{start:?}");
            let last = answers.last().unwrap();
            if last.status >= 400 {
                assert_eq!(last.field("Connection"), Some("close"), "{start:?}");
            }
        }
        // A line without an end is an invalid id, unless it begins like a request.
        let endless = "a".repeat(20 << 10);
        assert_eq!(said(&served, endless.as_bytes()), (Vec::new(), vec![0]));
        let (answers, rest) = said(&served, format!("GET /{endless}").as_bytes());
        assert_eq!((answers[0].status, answers.len(), rest.len()), (414, 1, 0));
        served.finish();
    }
}

#[test]
fn each_client_gets_answers_of_its_own_protocol() {
    let site = Site::new();
    for choices in Choices::some() {
        let _naming = Naming::new(choices);
        let serve = |spoken| {
            let place = site.place(choices.is_database());
            Served::new(choices, &place, |options| options.spoken = spoken)
        };
        let (http, only_simple) = (serve(ProtocolKind::Http), serve(ProtocolKind::Simple));
        for words in ["one.txt\n", "\0\0\0\0", "one.txt HTTP/1.1\n\n"] {
            let (answers, rest) = said(&http, words.as_bytes());
            assert_eq!((answers[0].status, answers.len(), rest.len()), (400, 1, 0), "{words:?}");
        }
        let endless = "GET /".to_owned() + &"a".repeat(20 << 10);
        assert_eq!(said(&http, endless.as_bytes()).0[0].status, 414);
        assert_eq!(get(http.address, "/one.txt").body, bytes(b"one.txt", 1));
        let words = "GET /one.txt HTTP/1.1\r\nHost: test\r\n\r\n";
        assert_eq!(said(&only_simple, words.as_bytes()), (Vec::new(), vec![0]));
        assert_eq!(simple(only_simple.address, b"one.txt\n"), bytes(b"one.txt", 1));
        http.finish();
        only_simple.finish();
    }
}

/// Requests, before something happens to them.
fn sane(dice: &mut Dice) -> Vec<u8> {
    let targets = ["/one.txt", "/large.bin", "/", "/sub/", "/sub", "/absent", "/page.html?a=b"];
    let fields = [
        "Range: bytes=0-5\r\n",
        "Range: bytes=1-2,4-5,-1\r\n",
        "If-None-Match: \"x\", W/\"y\"\r\n",
        "If-Modified-Since: Sun, 13 Sep 2020 12:26:40 GMT\r\n",
        "If-Range: \"x\"\r\n",
        "Accept-Encoding: gzip;q=0.5, br\r\n",
        "Connection: keep-alive, close\r\n",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Cookie: a=b; c=d\r\n",
    ];
    let mut words = String::new();
    for _ in 0..=dice.below(3) {
        words += &format!("GET {} HTTP/1.1\r\n{HOST}", targets[dice.below(7) as usize]);
        for _ in 0..dice.below(5) {
            words += fields[dice.below(10) as usize];
        }
        words += "\r\n";
    }
    words.into_bytes()
}

/// Difficult parts of texts.
const TROUBLE: [&[u8]; 16] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"%",
    b"%00",
    b"..",
    b"/",
    b"\xff",
    b",",
    b"HTTP/1.1",
    b"99999999999999999999",
];

fn mutated(dice: &mut Dice) -> Vec<u8> {
    let mut words = sane(dice);
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(words.len() as u64 + 1) as usize;
        let end = (at + dice.below(20) as usize).min(words.len());
        match dice.below(7) {
            0 => words.truncate(at),
            1 => drop(words.drain(at..end)),
            2 => words[at..end].fill(dice.roll() as u8),
            3 => drop(words.splice(at..at, TROUBLE[dice.below(16) as usize].iter().copied())),
            4 => drop(words.splice(at..end, TROUBLE[dice.below(16) as usize].iter().copied())),
            5 => {
                let again = words[at..end].repeat(dice.below(2000) as usize);
                drop(words.splice(at..at, again));
            }
            _ => words[at..end].iter_mut().for_each(|byte| *byte ^= 1 << dice.below(8)),
        }
    }
    words
}

fn noise(dice: &mut Dice) -> Vec<u8> {
    let len = dice.below(3000);
    let mut noise: Vec<u8> = (0..len).map(|_| dice.roll() as u8).collect();
    if dice.one_in(2) {
        noise.splice(0..0, *b"GET / HTTP/1.1\r\n");
    }
    noise
}

const STATUSES: [u16; 16] =
    [200, 204, 206, 301, 304, 400, 404, 405, 408, 412, 414, 416, 431, 500, 501, 505];

#[test]
fn nonsense_harms_nobody() {
    let site = Site::new();
    let compressed = COMPRESSED.map(|(name, len, _)| (name, len));
    let known: HashSet<Vec<u8>> =
        FILES.iter().chain(&compressed).map(|&(name, len)| bytes(name, len)).collect();
    for (seed, choices) in (1..).zip(Choices::some()) {
        let _naming = Naming::new((choices, seed));
        let served = Served::new(choices, &site.place(choices.is_database()), |_| ());
        let mut dice = Dice::new(seed);
        let (mut answered, mut refused) = (0, 0);
        for turn in 0..600 {
            let words = match dice.below(8) {
                0 => noise(&mut dice),
                _ => mutated(&mut dice),
            };
            let _naming =
                Naming::new((turn, String::from_utf8_lossy(&words[..words.len().min(500)])));
            let (answers, rest) = said(&served, &words);
            for answer in &answers {
                assert!(STATUSES.contains(&answer.status) && answer.status != 500, "{answer:?}");
                assert!(answer.status != 200 || known.contains(&answer.body), "{}", answer.head);
                answered += u64::from(answer.status < 400);
                refused += u64::from(answer.status >= 400);
            }
            // Of the simple protocol, or of none.
            assert!(rest.is_empty() || rest == [0] || known.contains(&rest), "{rest:?}");
            if turn % 50 == 0 {
                assert_eq!(get(served.address, "/ten.txt").body, bytes(b"ten.txt", 10));
            }
        }
        assert!(answered > 100 && refused > 100, "{answered} {refused}");
        served.finish();
    }
}
