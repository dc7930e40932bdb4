//! Ranges and conditions.

use super::client::{Answer, Client, target};
use super::every::Stage;
use super::site::{FILES, LARGE, bytes};
use std::ops::Range;

const SAME: &str = "Sun, 13 Sep 2020 12:26:40 GMT";
const BEFORE: &str = "Sun, 13 Sep 2020 12:26:39 GMT";

/// A small file, one at the limit of what is kept, and a large one.
const THREE: [&[u8]; 3] = [b"ten.txt", b"limit.bin", b"large.bin"];

fn file(name: &[u8]) -> Vec<u8> {
    let (_, len) = FILES.iter().find(|(other, _)| *other == name).unwrap();
    bytes(name, *len)
}

#[track_caller]
fn is_range(answer: &Answer, all: &[u8], range: Range<usize>) {
    let at = format!("bytes {}-{}/{}", range.start, range.end - 1, all.len());
    assert_eq!((answer.status, answer.field("Content-Range")), (206, Some(&*at)));
    assert!(answer.body == all[range], "{at}: other bytes");
}

pub fn ranges(stage: &Stage) {
    let mut client = Client::to(stage.address);
    for name in THREE {
        let (target, all) = (target(name), file(name));
        let len = all.len();
        let mut ask =
            |range: &str| client.ask("GET", &target, &format!("Range: bytes={range}\r\n"));
        is_range(&ask("0-0"), &all, 0..1);
        is_range(&ask("2-"), &all, 2..len);
        is_range(&ask("-3"), &all, len - 3..len);
        is_range(&ask(&format!("5-{}", len * 2)), &all, 5..len);
        is_range(&ask(&format!("1-{}", len - 2)), &all, 1..len - 1);
        is_range(&ask("-999999999999999999"), &all, 0..len);
        let end = format!("{len}-");
        for beyond in [&*end, "-0", "18446744073709551615-", "99999999999999999999-"] {
            let answer = ask(beyond);
            let at = format!("bytes */{len}");
            assert_eq!(
                (answer.status, answer.field("Content-Range")),
                (416, Some(&*at)),
                "{beyond}"
            );
        }
        for none in ["5-4", "x", "", "1-2-3", "-"] {
            let answer = ask(none);
            assert!(answer.status == 200 && answer.body == all, "{none}: {}", answer.head);
        }
        // Of HEAD a range means nothing.
        let head = client.ask("HEAD", &target, "Range: bytes=0-0\r\n");
        assert_eq!((head.status, head.len()), (200, len));
    }
    let empty = client.ask("GET", "/empty.bin", "Range: bytes=0-\r\n");
    assert_eq!((empty.status, empty.field("Content-Range")), (416, Some("bytes */0")));
}

/// The parts of an answer with several ranges.
#[track_caller]
fn parts(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let kind = answer.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("several parts");
    let boundary = format!("\r\n--{boundary}");
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|at| at == what);
    let (mut rest, mut parts) = (&answer.body[..], Vec::new());
    while let Some(at) = find(rest, boundary.as_bytes()) {
        let begun = rest;
        rest = &rest[at + boundary.len()..];
        if !parts.is_empty() || at > 0 {
            let part = &begun[..at];
            let end = find(part, b"\r\n\r\n").expect("the part's head");
            let head = String::from_utf8(part[..end].to_vec()).unwrap();
            parts.push((head, part[end + 4..].to_vec()));
        } else {
            assert_eq!(at, 0, "something before the first part");
        }
        if let Some(end) = rest.strip_prefix(b"--\r\n") {
            assert!(end.is_empty(), "something behind the last part");
            return parts;
        }
        rest = rest.strip_prefix(b"\r\n").expect("the end of a line");
    }
    panic!("no end of parts");
}

pub fn several_ranges(stage: &Stage) {
    let mut client = Client::to(stage.address);
    for name in THREE {
        let (target, all) = (target(name), file(name));
        let len = all.len();
        let wanted = [0..2, 5..6, len - 3..len - 1];
        let list = format!("0-1,\t5-5 ,,{}-{}", len - 3, len - 2);
        let answer = client.ask("GET", &target, &format!("Range: bytes={list}\r\n"));
        assert_eq!((answer.status, answer.field("Content-Range")), (206, None));
        let again = client.ask("GET", &target, &format!("Range: bytes={list}\r\n"));
        assert_ne!(again.field("Content-Type"), answer.field("Content-Type"), "the boundary");
        let parts = parts(&answer);
        assert_eq!(parts.len(), wanted.len(), "{}", answer.head);
        for ((head, part), range) in parts.iter().zip(wanted) {
            let at = format!("Content-Range: bytes {}-{}/{len}", range.start, range.end - 1);
            assert!(head.lines().any(|line| line == at), "no {at} in {head}");
            assert!(head.contains("Content-Type: "), "{head}");
            assert!(part[..] == all[range], "{at}: other bytes");
        }
        // All of them beyond the end; some; and more than there is altogether.
        let beyond = client.ask("GET", &target, &format!("Range: bytes={len}-,{}-\r\n", len + 1));
        assert_eq!(beyond.status, 416);
        let one = client.ask("GET", &target, &format!("Range: bytes=1-1,{len}-\r\n"));
        is_range(&one, &all, 1..2);
        let whole = client.ask("GET", &target, "Range: bytes=0-,0-,0-\r\n");
        assert!(whole.status == 200 && whole.body == all);
    }
    let list = (0..40).map(|at| format!("{at}-{at}")).collect::<Vec<_>>().join(",");
    let whole = client.ask("GET", "/large.bin", &format!("Range: bytes={list}\r\n"));
    assert_eq!((whole.status, whole.len()), (200, LARGE));
}

pub fn unchanged_files_are_not_sent(stage: &Stage) {
    let mut client = Client::to(stage.address);
    for name in THREE {
        let (target, all) = (target(name), file(name));
        let etag = client.get(&target).field("ETag").unwrap().to_owned();
        let mut ask = |fields: &[String]| {
            let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
            let answer = client.ask("GET", &target, &fields);
            assert!(answer.status != 200 || answer.body == all, "{fields}: other bytes");
            assert!(
                !matches!(answer.status, 200 | 206 | 304) || answer.field("ETag") == Some(&*etag)
            );
            answer.status
        };
        let field = |name: &str, value: &str| format!("{name}: {value}");
        let (none_match, since) = ("If-None-Match", "If-Modified-Since");
        assert_eq!(ask(&[field(none_match, &etag)]), 304);
        assert_eq!(ask(&[field(none_match, "*")]), 304);
        assert_eq!(ask(&[field(none_match, &format!("\"a\", W/{etag}"))]), 304);
        assert_eq!(ask(&[field(none_match, "\"a\"")]), 200);
        assert_eq!(ask(&[field(since, SAME)]), 304);
        assert_eq!(ask(&[field(since, BEFORE)]), 200);
        assert_eq!(ask(&[field(since, "never")]), 200);
        assert_eq!(ask(&[field(none_match, "\"a\""), field(since, SAME)]), 200);
        assert_eq!(ask(&[field("If-Match", "\"a\"")]), 412);
        assert_eq!(ask(&[field("If-Match", &etag)]), 200);
        assert_eq!(ask(&[field("If-Unmodified-Since", BEFORE)]), 412);
        assert_eq!(ask(&[field("If-Unmodified-Since", SAME)]), 200);
        // A range of the present contents, or all of them.
        let range = field("Range", "bytes=0-1");
        for (condition, status) in
            [(&*etag, 206), (SAME, 206), ("\"a\"", 200), (BEFORE, 200), ("never", 200)]
        {
            let if_range = field("If-Range", condition);
            assert_eq!(ask(&[range.clone(), if_range]), status, "{condition}");
        }
        assert_eq!(ask(&[range, field(none_match, &etag)]), 304);
    }
}
