//! Requirements of RFC 9110 and RFC 9112 that no other test covers, and the table of all of them in
//! `docs/reference/http.md`.

use super::client::Client;
use super::responses::{each, kinds};
use super::site::{Site, bytes, put};
use super::{Choices, Naming, Served};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn on_some(test: impl Fn(&mut Client)) {
    each(|_| (), |served| test(&mut Client::to(served.address)));
}

#[test]
fn responses_have_the_date() {
    each(
        |_| (),
        |served| {
            kinds(served, |answer| {
                let date = httpdate::parse_http_date(answer.field("Date").expect("a date"));
                let age = SystemTime::now().duration_since(date.expect("a date"));
                assert!(age.expect("a past date") < Duration::from_secs(60), "{}", answer.head);
            });
        },
    );
}

#[test]
fn dates_have_three_forms() {
    on_some(|client| {
        for date in [
            "Sun, 13 Sep 2020 12:26:40 GMT",
            "Sunday, 13-Sep-20 12:26:40 GMT",
            "Sun Sep 13 12:26:40 2020",
        ] {
            let fields = format!("If-Modified-Since: {date}\r\n");
            assert_eq!(client.ask("GET", "/one.txt", &fields).status, 304, "{date}");
            let fields = format!("If-Unmodified-Since: {date}\r\n");
            assert_eq!(client.ask("GET", "/one.txt", &fields).status, 200, "{date}");
        }
    });
}

#[test]
fn nothing_is_modified_in_the_future() {
    let site = Site::new();
    let forty_years = 40 * 365 * 24 * 3600;
    put(&site.root(), b"future.txt", b"future", forty_years);
    put(&site.root(), b"future.bin", &bytes(b"future.bin", 300 << 10), forty_years);
    for choices in Choices::of_directories() {
        let _naming = Naming::new(choices);
        let served = Served::new(choices, &site.root(), |_| ());
        let mut client = Client::to(served.address);
        for target in ["/future.txt", "/future.bin"].repeat(2) {
            let answer = client.get(target);
            let date = |name| httpdate::parse_http_date(answer.field(name).expect("a date"));
            let (modified, now) = (date("Last-Modified").unwrap(), date("Date").unwrap());
            assert!(answer.status == 200 && modified <= now, "{}", answer.head);
        }
        served.finish();
    }
}

#[test]
fn conditions_count_only_for_contents() {
    on_some(|client| {
        for fields in ["If-None-Match: *\r\n", "If-Match: \"a\"\r\n", "Range: bytes=0-0\r\n"] {
            for (target, status) in [("/absent", 404), ("/sub", 301), ("/../x", 404)] {
                assert_eq!(client.ask("GET", target, fields).status, status, "{target} {fields}");
            }
            assert_eq!(client.ask("DELETE", "/one.txt", fields).status, 405, "{fields}");
            assert_eq!(client.ask("OPTIONS", "/one.txt", fields).status, 204, "{fields}");
        }
    });
}

#[test]
fn names_of_fields_have_no_case_and_unknown_ones_do_no_harm() {
    on_some(|client| {
        let part = client.ask("GET", "/ten.txt", "rANGE: BYTES=0-0\r\n");
        assert_eq!((part.status, part.body), (206, bytes(b"ten.txt", 10)[..1].to_vec()));
        let fields =
            "X-Unknown: \"(\r\nX: \r\nRange: lines=0-1\r\nTE: trailers\r\nUpgrade: h2c\r\n";
        assert_eq!(client.ask("GET", "/ten.txt", fields).body, bytes(b"ten.txt", 10));
    });
}

#[test]
fn not_modified_has_the_fields_of_contents() {
    let cache = |options: &mut commonhold_files::ServerOptions| {
        options.cache_control = Some("max-age=1".parse().unwrap());
    };
    each(cache, |served| {
        let mut client = Client::to(served.address);
        let whole = client.get("/page.html");
        let same = client.ask("GET", "/page.html", "If-None-Match: *\r\n");
        assert_eq!(same.status, 304);
        for field in ["ETag", "Last-Modified", "Vary", "Cache-Control"] {
            assert!(whole.field(field).is_some(), "{}", whole.head);
            assert_eq!(same.field(field), whole.field(field), "{field}");
        }
        assert_eq!((same.field("Content-Length"), same.field("Content-Type")), (None, None));
        assert!(same.field("Date").is_some());
    });
}

#[test]
fn the_host_of_an_absolute_target_counts() {
    on_some(|client| {
        assert_eq!(client.get("http://other:80/ten.txt").body, bytes(b"ten.txt", 10));
        assert_eq!(client.get("HTTP://Other/ten.txt?a#b").body, bytes(b"ten.txt", 10));
        assert_eq!(client.get("http://other").body, bytes(b"index.html", 700));
    });
}

#[test]
fn an_expectation_gets_the_final_answer() {
    on_some(|client| {
        assert_eq!(client.ask("GET", "/one.txt", "Expect: 100-continue\r\n").status, 200);
        let fields = "Expect: 100-continue\r\nContent-Length: 5\r\n";
        let answer = client.ask("PUT", "/one.txt", fields);
        assert_eq!((answer.status, answer.field("Connection")), (405, Some("close")));
        client.is_over();
    });
}

#[test]
fn bodies_end_the_connection() {
    let next = "GET /absent HTTP/1.1\r\nHost: test\r\n\r\n";
    for (fields, status) in [
        ("Content-Length: 5\r\n", 200),
        ("Transfer-Encoding: Chunked\r\n", 200),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 200),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    ] {
        on_some(|client| {
            client.say(format!("GET /ten.txt HTTP/1.1\r\nHost: test\r\n{fields}\r\n{next}"));
            let answer = client.answer(false);
            assert_eq!((answer.status, answer.field("Connection")), (status, Some("close")));
            assert_eq!(answer.body == bytes(b"ten.txt", 10), status == 200);
            client.is_over();
        });
    }
}

#[test]
fn lines_end_with_a_line_feed_and_no_carriage_return_alone() {
    on_some(|client| {
        client.say("\r\n\r\nGET /ten.txt HTTP/1.1\nHost: test\n\n");
        assert_eq!(client.answer(false).body, bytes(b"ten.txt", 10));
        client.say("GET /ten.txt HTTP/1.1\r\nHost: test\r\nA: b\rRange: bytes=0-0\r\n\r\n");
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.field("Connection")), (400, Some("close")));
        client.is_over();
    });
}

#[test]
fn a_target_that_is_too_long_is_named_as_the_fault() {
    on_some(|client| {
        let long = "a".repeat(17 << 10);
        client.say(format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.field("Connection")), (414, Some("close")));
        client.is_over();
    });
}

/// A row of the table: section, level, requirement, what the server does, tests.
type Row = [String; 5];

fn rows(page: &str) -> Vec<Row> {
    let lines =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| section"));
    lines
        .map(|line| {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
            let cells: Vec<String> = cells.collect();
            cells.try_into().unwrap_or_else(|cells: Vec<_>| panic!("{} cells: {line}", cells.len()))
        })
        .collect()
}

fn sources(directory: &Path, to: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => sources(&path, to),
            Some(extension) if extension == "rs" => to.push_str(&fs::read_to_string(path).unwrap()),
            _ => {}
        }
    }
}

/// A function that a test macro or the suite of all combinations runs.
fn is_test(name: &str, sources: &str) -> bool {
    let is_marked = sources.contains(&format!("#[test]\nfn {name}()"))
        || sources.contains(&format!("#[test]\n    fn {name}()"));
    is_marked
        || (sources.contains(&format!("::{name},\n"))
            && sources.contains(&format!("pub fn {name}(")))
}

#[test]
fn every_requirement_in_the_table_has_a_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/reference/http.md")).unwrap();
    let mut sources = String::new();
    for directory in ["src", "tests", "../hold/tests"] {
        self::sources(&here.join(directory), &mut sources);
    }
    let rows = rows(&page);
    assert!(rows.len() >= 70, "{} rows", rows.len());
    for row in &rows {
        let [section, level, requirement, does, tests] = row;
        assert!(section.split('.').all(|part| part.parse::<u8>().is_ok()), "{row:?}");
        let levels = ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"];
        assert!(levels.contains(&&**level), "{row:?}");
        assert!(!requirement.is_empty() && !does.is_empty(), "{row:?}");
        let names: Vec<&str> = tests.split(", ").collect();
        assert!(!names.is_empty(), "{row:?}");
        for name in names {
            let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let name = name.unwrap_or_else(|| panic!("no test: {row:?}"));
            assert!(is_test(name, &sources), "no test has the name {name}: {row:?}");
        }
    }
    assert!(!is_test("a_name_that_no_test_has", &sources));
}
