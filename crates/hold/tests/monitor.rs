//! The status page and Prometheus' metrics: of file servers while they work and are killed, of
//! holds full of odd names, in a browser.

mod access;
mod between;
mod exposition;

use crate::support::TestDir;
use crate::support::background::Background;
use crate::support::browser;
use exposition::Exposition;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn exchange(port: u16, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.write_all(request).expect("it takes a request");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn ask(port: u16, method: &str, path: &str, host: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange(port, request.as_bytes())
}

fn get(port: u16, path: &str) -> String {
    let answer = ask(port, "GET", path, "localhost");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

fn metrics(port: u16) -> Exposition {
    Exposition::read(&get(port, "/metrics"))
}

fn status(port: u16) -> Value {
    serde_json::from_str(&get(port, "/_hold/status.json")).expect("JSON")
}

/// Waits until the metrics meet a condition.
fn until(port: u16, wanted: impl Fn(&Exposition) -> bool) -> Exposition {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = metrics(port);
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "stays {seen:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn port_of(address: &Value) -> u16 {
    let text = address.as_str().expect("an address");
    text.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}

/// A file server with a status page.
struct Served {
    process: Background,
    /// Of files.
    port: u16,
    /// Of the page.
    admin: u16,
}

fn serve(test_dir: &TestDir, place: &OsStr) -> Served {
    let served = serve_with(test_dir, place, &[]);
    until(served.admin, |all| all.sum("hold_server_workers") == 2.0);
    served
}

fn serve_with(test_dir: &TestDir, place: &OsStr, more: &[&str]) -> Served {
    let words =
        ["serve", "--listen", "tcp:0", "--admin", "tcp:0", "--workers", "2", "--hold", "shop"];
    let words = words.iter().chain(&["--format", "json", "-q"]).chain(more).map(OsStr::new);
    let mut command = test_dir.command(&words.chain([place]).collect::<Vec<_>>());
    command.stdin(std::process::Stdio::null());
    let mut process = Background::run(command);
    let told: Value = serde_json::from_str(&process.line()).expect("JSON");
    let (port, admin) = (port_of(&told["listening"][0]), port_of(&told["admin"]));
    Served { process, port, admin }
}

fn site(test_dir: &TestDir, name: &OsStr) {
    std::fs::create_dir(test_dir.path("").join(name)).expect("a directory");
    for number in 0..20usize {
        let contents = vec![b'x'; 1 << (number % 12)];
        std::fs::write(test_dir.path("").join(name).join(format!("f{number}")), contents)
            .expect("a file");
    }
}

/// Requests files this number of times; a worker that is killed meanwhile takes connections with
/// it.
fn load(port: u16, times: usize) -> usize {
    (0..times)
        .filter(|number| {
            let request = format!("GET /f{} HTTP/1.0\r\n\r\n", number % 25);
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
            let mut answer = Vec::new();
            stream.write_all(request.as_bytes()).is_ok()
                && stream.read_to_end(&mut answer).is_ok()
                && !answer.is_empty()
        })
        .count()
}

const REQUESTS: &str = "hold_server_requests_total";
/// The map of the cache with the default choices.
const FILES: &str = ".files.lockfree.268435456";

#[test]
fn the_page_is_at_its_address_and_nothing_else_is() {
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    let served = serve(&test_dir, OsStr::new("site"));
    let page = ask(served.admin, "GET", "/_hold/", "127.0.0.1:1");
    assert!(
        page.body.starts_with("<!DOCTYPE html>") && page.body.contains("2 workers"),
        "{}",
        page.body
    );
    assert!(
        page.head.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"),
        "{}",
        page.head
    );
    assert!(!page.body.contains("style=") && !page.body.contains("<script>"));
    let head = ask(served.admin, "HEAD", "/_hold/", "localhost");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.head.contains("Content-Length: ") && !head.head.contains("Content-Length: 0"));
    assert!(get(served.admin, "/_hold/page.js").contains("fetch("));
    assert!(get(served.admin, "/_hold/page.css").contains("prefers-color-scheme: dark"));
    let exposition = ask(served.admin, "GET", "/metrics?x=1", "localhost");
    assert!(exposition.head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    for other in
        ["/", "/_hold", "/_hold/../metrics", "/_hold/page.js/", "/f1", "/favicon.ico", "/%5fhold/x"]
    {
        assert_eq!(ask(served.admin, "GET", other, "localhost").status, 404, "{other}");
    }
    let post = ask(served.admin, "POST", "/_hold/", "localhost");
    assert!(post.status == 405 && post.head.contains("Allow: GET, HEAD"), "{}", post.head);
    // Another's page under a name of its own that was made to lead here.
    assert_eq!(ask(served.admin, "GET", "/metrics", "example.org").status, 403);
    let wrong: [(&[u8], u16); 4] = [
        (b"\0\0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
    ];
    for (request, status) in wrong {
        assert_eq!(exchange(served.admin, request).status, status, "{request:?}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(20_000));
    assert_eq!(exchange(served.admin, long.as_bytes()).status, 431);
    // Its files are not served here.
    assert_eq!(ask(served.port, "GET", "/_hold/", "localhost").status, 404);
}

#[test]
fn one_connection_may_ask_several_times() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    let (_monitor, port) = monitor(&test_dir, OsStr::new("shop"));
    let request = "GET /_hold/page.css HTTP/1.1\r\nHost: localhost\r\n";
    let requests = format!("{request}\r\n{request}\r\n{request}Connection: close\r\n\r\n");
    let answer = exchange(port, requests.as_bytes());
    assert_eq!(answer.body.matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn slow_clients_do_not_block_others_for_long() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    let (_monitor, port) = monitor(&test_dir, OsStr::new("shop"));
    let begin = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").expect("it reads");
        stream
    };
    let mut slow: Vec<_> = (0..32).map(|_| begin()).collect();
    let end = Instant::now() + Duration::from_secs(30);
    let mut answers = Vec::new();
    while answers.last() != Some(&200) {
        assert!(Instant::now() < end, "{answers:?}");
        // One connection too many gets an answer at once, perhaps before its request.
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        let mut text = [0; 12];
        if stream.read_exact(&mut text).is_ok() {
            answers.push(String::from_utf8_lossy(&text[9..]).parse::<u16>().expect("a status"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(answers[0], 503);
    let mut told = String::new();
    slow[0].read_to_string(&mut told).expect("text");
    assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
}

#[test]
fn counters_never_decrease_though_workers_are_killed() {
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    let served = serve(&test_dir, OsStr::new("site"));
    let mut before = Exposition::default();
    let (mut answered, mut seen) = (0, 0.0);
    for round in 0..6 {
        answered += load(served.port, 60);
        let now = until(served.admin, |all| {
            all.samples.iter().any(|((name, _), value)| name == REQUESTS && *value > seen)
        });
        for (series, value) in before.counters() {
            // A worker's own metrics disappear with it.
            let is_gone = series.1.contains_key("worker") && !now.samples.contains_key(series);
            assert!(is_gone || now.samples[series] >= value, "{series:?}: {value}, then less");
        }
        seen = now.value(REQUESTS, &[("server", "site")]);
        before = now;
        if round % 2 == 1 {
            // The report of one that was killed before may still be there.
            let workers = status(served.admin)["workers"].clone();
            let pids =
                workers.as_array().expect("workers").iter().filter_map(|w| w["pid"].as_i64());
            let mut pids = pids.filter_map(|pid| Pid::from_raw(pid as i32));
            assert!(pids.any(|pid| kill_process(pid, Signal::KILL).is_ok()));
        }
    }
    let again = until(served.admin, |all| all.sum("hold_server_workers") == 2.0);
    // Reports before the end of a worker still count.
    assert!(again.value(REQUESTS, &[]) >= seen && seen > 0.0 && answered > 300);
    let count = again.value("hold_server_request_duration_seconds_count", &[]);
    assert!(count > 0.0 && count <= again.value(REQUESTS, &[]));
    let hits =
        again.value("hold_server_hits_total", &[]) + again.value("hold_server_misses_total", &[]);
    assert!(hits + again.value("hold_server_not_found_total", &[]) <= again.value(REQUESTS, &[]));
    assert!(get(served.admin, "/_hold/").contains("2 workers"));
}

#[test]
fn the_page_shows_what_the_cache_holds_by_size() {
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    let served = serve(&test_dir, OsStr::new("site"));
    assert_eq!(load(served.port, 20), 20);
    let all = until(served.admin, |all| all.sum("hold_server_cache_entries") == 20.0);
    let of = |name: &str| -> f64 {
        let own = all.samples.iter().filter(|((n, labels), _)| n == name && labels["map"] == FILES);
        own.map(|(_, value)| value).sum()
    };
    assert_eq!(of("hold_map_size_class_pairs"), 20.0);
    assert_eq!(
        of("hold_map_size_class_bytes"),
        all.value("hold_map_record_bytes", &[("map", FILES)])
    );
    let page = get(served.admin, "/_hold/");
    assert!(page.contains("20 entries") && page.contains("≤ 4 KiB"), "{page}");
    let status = status(served.admin);
    assert!(status["history"].as_array().is_some_and(|history| !history.is_empty()));
    assert_eq!(status["latency_us"]["all"]["count"], 20);
}

#[test]
fn stat_shows_workers() {
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    let served = serve(&test_dir, OsStr::new("site"));
    assert_eq!(load(served.port, 30), 30);
    until(served.admin, |all| all.sum(REQUESTS) == 30.0);
    let stat = test_dir.json(&["stat", "shop"]);
    let servers = stat["servers"].as_array().expect("servers");
    let requests = servers.iter().map(|s| s["counts"]["requests"].as_u64().expect("a number"));
    assert_eq!(
        (servers.len(), requests.sum::<u64>(), &servers[0]["place"]),
        (2, 30, &"site".into())
    );
    let text = test_dir.ok(&["stat", "shop"]);
    assert!(text.contains("SERVER OF") && text.matches("\nsite").count() == 2, "{text}");
    served.process.signal(Signal::TERM);
    assert_eq!(served.process.end().code, 0);
}

/// `hold monitor`, and its port.
fn monitor(test_dir: &TestDir, hold: &OsStr) -> (Background, u16) {
    let words = ["monitor", "--listen", "tcp:0", "--format", "json"].map(OsStr::new);
    let mut command = test_dir.command(&[&words[..], &[hold]].concat());
    command.stdin(std::process::Stdio::null());
    let mut process = Background::run(command);
    let told: Value = serde_json::from_str(&process.line()).expect("JSON");
    let port = port_of(&told["listening"][0]);
    (process, port)
}

#[test]
fn every_structure_has_its_metrics() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    test_dir.ok(&["set", "shop", "cache", "a", "b", "--cache"]);
    test_dir.ok(&["queue", "create", "shop", "jobs", "--elements", "8", "--element-bytes", "8"]);
    test_dir.ok(&["queue", "push", "shop", "jobs", "full", "x"]);
    test_dir.ok(&["channel", "create", "shop", "ticks"]);
    test_dir.ok(&["channel", "send", "shop", "ticks", "one"]);
    test_dir.ok(&["log", "create", "shop", "events"]);
    test_dir.ok(&["log", "write", "shop", "events", "the shop is open"]);
    let origin = ["origin", "shop", "prices", "--listen", "unix:prices.sock", "--format", "json"];
    let mut origin = Background::start(&test_dir, &origin);
    origin.line();
    let mut replica = Background::start(
        &test_dir,
        &["replica", "unix:prices.sock", "copy", "prices", "--format", "json"],
    );
    replica.line();
    let journal = Background::start(&test_dir, &["journal", "shop", "prices", "prices.journal"]);
    // The slots of bridges: one that runs, one that does not, and one whose channel was dropped.
    let hold = commonhold::Hold::open(test_dir.path("shop.hold")).unwrap();
    let [publish, _, _] = [".publish/cups/prices", ".send/ticks", ".send/dropped"].map(|name| {
        hold.channels().create(name, commonhold::channel::ChannelOptions::new(4 << 10)).unwrap()
    });
    let _running = publish.producer().unwrap();
    let (monitor, port) = monitor(&test_dir, OsStr::new("shop"));
    let all = until(port, |all| {
        let has = |name: &str| all.samples.keys().any(|(n, _)| n == name);
        has("hold_origin_replica_lag_bytes") && all.sum("hold_journal_file_bytes") > 0.0
    });
    assert_eq!(all.value("hold_map_pairs", &[("map", "prices")]), 1.0);
    assert_eq!(all.value("hold_map_misses_total", &[("map", "cache")]), 0.0);
    assert_eq!(all.value("hold_queue_length", &[("queue", "jobs"), ("name", "full")]), 1.0);
    assert_eq!(all.value("hold_channel_sent_messages_total", &[("channel", "ticks")]), 1.0);
    assert!(all.value("hold_log_lines_total", &[("log", "events")]) >= 1.0);
    assert_eq!(all.value("hold_log_dropped_lines_total", &[("log", "events")]), 0.0);
    assert_eq!(all.value("hold_origin_replicas", &[("map", "prices")]), 1.0);
    assert!(all.value("hold_stream_written_bytes_total", &[("map", "prices")]) >= 0.0);
    assert_eq!(all.value("hold_journal_failing", &[("map", "prices")]), 0.0);
    assert_eq!(all.value("hold_journal_up", &[("map", "prices")]), 1.0);
    assert!(!all.samples.keys().any(|(name, _)| name == "hold_replica_up"));
    let send = [("map", "ticks"), ("direction", "send")];
    assert_eq!(all.value("hold_bridge_up", &send), 0.0);
    let publish = [("map", "prices"), ("direction", "publish"), ("bucket", "cups")];
    assert_eq!(all.value("hold_bridge_up", &publish), 1.0);
    assert_eq!(all.samples.keys().filter(|(name, _)| name == "hold_bridge_up").count(), 2);
    let format = commonhold::raw::FORMAT.to_string();
    let info = [("version", env!("CARGO_PKG_VERSION")), ("format", &*format)];
    assert_eq!(all.value("hold_info", &info), 1.0);
    assert!(all.value("hold_memory_bytes", &[]) > 0.0);
    let page = get(port, "/_hold/");
    for title in ["Maps", "Queues", "Channels", "Logs", "Origins", "Journals", "Memory of the hold"]
    {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "no {title} in {page}");
    }
    assert!(!page.contains("requests/s") && !page.contains(".reports"));
    let copy = self::monitor(&test_dir, OsStr::new("copy"));
    // Its last report may be of before it was ready.
    let all = until(copy.1, |all| all.sum("hold_replica_ready") == 1.0);
    assert_eq!(all.value("hold_replica_connected", &[("map", "prices")]), 1.0);
    assert!(all.value("hold_replica_lag_seconds", &[("map", "prices")]) < 60.0);
    assert_eq!(all.value("hold_replica_up", &[("map", "prices")]), 1.0);
    // They are killed; the series stays, with the same labels when they run again.
    journal.kill();
    replica.kill();
    until(port, |all| all.value("hold_journal_up", &[("map", "prices")]) == 0.0);
    let all = until(copy.1, |all| all.value("hold_replica_up", &[("map", "prices")]) == 0.0);
    let labels = |all: &Exposition, name: &str| {
        all.samples.keys().filter(|(n, _)| n == name).cloned().collect::<Vec<_>>()
    };
    let before = labels(&all, "hold_replica_up");
    let again = ["replica", "unix:prices.sock", "copy", "prices", "--format", "json"];
    let _replica = Background::start(&test_dir, &again);
    let all = until(copy.1, |all| all.sum("hold_replica_up") == 1.0);
    assert_eq!(labels(&all, "hold_replica_up"), before);
    monitor.signal(Signal::TERM);
    assert_eq!(monitor.end().code, 0);
}

#[test]
fn odd_names_are_only_names() {
    let test_dir = TestDir::new();
    let names = [
        "\"quoted\"",
        "line\nline",
        "back\\slash\\n",
        "<script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        "' onclick='x",
        "{a=\"b\"} 1",
        "# TYPE x counter",
        "\u{1b}[31m\r\u{7f}\u{9b}",
        "日本 \u{202e}",
        "&amp;",
    ];
    let hold = OsStr::from_bytes(b"odd \xff\"<b>\n.hold");
    let path = test_dir.path("").join(hold);
    let shop = commonhold::Hold::open_or_create(&path).expect("a hold");
    for name in names {
        shop.maps()
            .open_or_create(name, commonhold::map::MapOptions::cache())
            .and_then(|map| map.set("a", "b"))
            .expect("a map");
    }
    for (subcommand, more) in [
        ("queue", &["--elements", "8", "--element-bytes", "8"][..]),
        ("channel", &[]),
        ("log", &[]),
    ] {
        for name in names {
            let name = format!("{subcommand} {name}");
            let args = [&[subcommand, "create"][..], more, &["--"]].concat();
            let args: Vec<_> = args.into_iter().map(OsStr::new).collect();
            test_dir.ok(&[&args[..], &[path.as_os_str(), OsStr::new(&name)]].concat());
        }
    }
    let place = OsStr::from_bytes(b"si\xffte \"<i>\n");
    site(&test_dir, place);
    let mut command = test_dir.command(&[OsStr::new("serve"), place]);
    let more = [
        "--listen",
        "unix:files.sock",
        "--admin",
        "tcp:0",
        "--workers",
        "1",
        "--format",
        "json",
        "-q",
    ];
    command.args(more).arg("--hold").arg(&path).stdin(std::process::Stdio::null());
    let mut process = Background::run(command);
    let told: Value = serde_json::from_str(&process.line()).expect("JSON");
    let port = port_of(&told["admin"]);
    let all = until(port, |all| all.samples.keys().any(|(name, _)| name == REQUESTS));
    for name in names {
        assert_eq!(all.value("hold_map_pairs", &[("map", name)]), 1.0);
        assert_eq!(
            all.value("hold_log_dropped_lines_total", &[("log", &format!("log {name}"))]),
            0.0
        );
    }
    assert_eq!(all.value(REQUESTS, &[("server", "si\u{fffd}te \"<i>\n")]), 0.0);
    let status = status(port);
    let maps = status["maps"].as_array().expect("maps");
    assert!(names.iter().all(|name| maps.iter().any(|map| map["name"] == *name)), "{maps:?}");
    let page = get(port, "/_hold/");
    for markup in ["<script>alert", "<img", "<i>", "' onclick", "\u{1b}", "\r", "si\u{fffd}te \""] {
        assert!(!page.contains(markup), "{markup} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn a_unix_socket_is_asked_by_curl() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    let words = ["monitor", "shop", "--listen", "unix:page.sock", "--format", "json"];
    let mut monitor = Background::start(&test_dir, &words);
    monitor.line();
    let mut stream =
        std::os::unix::net::UnixStream::connect(test_dir.path("page.sock")).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: any.name\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n")
            && text.contains("hold_map_pairs{map=\"prices\"} 1\n"),
        "{text}"
    );
    monitor.signal(Signal::TERM);
    assert_eq!(monitor.end().code, 0);
    assert!(!test_dir.path("page.sock").exists());
}

#[test]
fn a_browser_shows_numbers_that_change() {
    let Some(program) = browser::program() else { return };
    let test_dir = TestDir::new();
    site(&test_dir, OsStr::new("site"));
    let served = serve(&test_dir, OsStr::new("site"));
    let (files, admin) = (served.port, served.admin);
    // The first state is of before these requests: that they are shown is the script's doing.
    let middle = between::between(admin, move || {
        assert_eq!(load(files, 1234), 1234);
        until(admin, |all| all.sum(REQUESTS) == 1234.0);
    });
    let shown = |document: &str| {
        let tile = document.split("id=\"requests\"").nth(1).expect("a tile").split("</div>").next();
        tile.expect("its end").to_owned()
    };
    let profile = test_dir.path("browser");
    let url = format!("http://127.0.0.1:{middle}/_hold/");
    let document = browser::document(program, &profile, &url);
    assert!(shown(&document).contains("1,234 total"), "{document}");
    assert!(document.contains("class=\"live\">live</p>"), "{document}");
    assert!(document.contains("<path class=\"line one\" d=\"M"), "{document}");
    // Without a script the page shows its initial state, and is reloaded.
    let document = get(admin, "/_hold/");
    assert!(shown(&document).contains("1,234 total"), "{document}");
    assert!(document.contains("<noscript><meta http-equiv=\"refresh\""), "{document}");
}

#[test]
fn replicas_of_whole_holds_are_shown() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "apples", "name", "a"]);
    test_dir.ok(&["set", "shop", "pears", "name", "p"]);
    test_dir.ok(&["set", "copy", "pears", "name", "of the copy's own"]);
    let mut origin = Background::start(
        &test_dir,
        &["origin", "shop", "--listen", "unix:shop.sock", "--format", "json"],
    );
    origin.line();
    let replica = ["replica", "unix:shop.sock", "copy", "--format", "json"];
    let mut replica = Background::start(&test_dir, &replica);
    replica.line();
    let (_monitor, port) = monitor(&test_dir, OsStr::new("copy"));
    let all = until(port, |all| all.sum("hold_whole_replica_maps") == 2.0);
    for (state, count) in [("followed", 1.0), ("skipped", 1.0), ("dropped", 0.0)] {
        assert_eq!(all.value("hold_whole_replica_maps", &[("state", state)]), count, "{state}");
    }
    assert_eq!(all.value("hold_whole_replica_connected", &[]), 1.0);
    let page = get(port, "/_hold/");
    assert!(page.contains("<h2>Replicas of whole holds</h2>"), "{page}");
    assert!(page.contains("unix:shop.sock") && page.contains("pears"), "{page}");
}
