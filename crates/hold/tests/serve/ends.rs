//! How it begins and ends, well or by force.

use super::visitor::{answer, ask, connect, get, simple, try_get};
use super::{Serving, counted, files, is_gone, kill, site, until};
use crate::support::background::Background;
use crate::support::{PROGRAM, TestDir};
use commonhold::Hold;
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// The age at which contents are cached.
const SETTLED: Duration = Duration::from_millis(200);

/// More than the system takes from a worker before its client reads.
const LARGE: usize = 32 << 20;

#[test]
fn it_prints_its_addresses_serves_and_leaves_nothing() {
    let test_dir = site();
    for options in [&[][..], &["--workers", "3"], &["--loop", "uring", "--requests", "slab"]] {
        let serving = Serving::start(&test_dir, "public", options);
        for (name, contents) in files() {
            let answer = get(serving.port, &format!("/{name}"));
            assert!((answer.status, answer.body) == (200, contents), "{name}");
        }
        assert_eq!(get(serving.port, "/absent").status, 404);
        serving.stop();
        assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
    }
}

#[test]
fn it_listens_at_a_path_as_well() {
    let test_dir = site();
    let args =
        ["serve", "public", "--listen", "unix:./sock", "--listen", "tcp:0", "--format", "json"];
    let mut background = Background::start(&test_dir, &args);
    assert!(background.line().contains("unix:./sock"));
    let mut stream = UnixStream::connect(test_dir.path("sock")).expect("a socket");
    let (name, contents) = files().remove(7);
    assert_eq!(simple(&mut stream, &name), contents);
    background.signal(Signal::INT);
    let run = background.end();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
}

#[test]
fn everything_is_killed_and_the_cache_is_warm() {
    let test_dir = site();
    let options = ["--hold", "kept", "--workers", "2"];
    sleep(SETTLED);
    for round in 0..3 {
        let serving = Serving::start(&test_dir, "public", &options);
        for (name, contents) in files() {
            assert!(get(serving.port, &format!("/{name}")).body == contents, "{name}");
        }
        let count = files().len() as u64;
        until("all is counted", || counted(&test_dir, "kept", "requests") == count);
        let hits = counted(&test_dir, "kept", "hits");
        assert_eq!(hits, if round == 0 { 0 } else { count }, "round {round}");
        assert_eq!(counted(&test_dir, "kept", "misses"), count - hits);
        let workers = serving.workers();
        assert_eq!(workers.len(), 2);
        // The supervisor first: it would start others.
        serving.background.kill();
        workers.iter().for_each(|&worker| kill(worker));
        until("all are gone", || workers.iter().all(|&worker| is_gone(worker)));
        assert_eq!(test_dir.json(&["check", "kept"])["ok"], true);
    }
    let serving = Serving::start(&test_dir, "public", &options);
    serving.stop();
    // It was to be kept.
    assert_eq!(test_dir.leftovers(&["public"]), ["kept.hold"]);
}

#[test]
fn a_download_is_finished_first() {
    for kind in ["epoll", "pool", "uring"] {
        let test_dir = site();
        let contents: Vec<u8> = (0..32u32 << 18).flat_map(u32::to_le_bytes).collect();
        test_dir.file("public/large.bin", &contents);
        let serving = Serving::start(&test_dir, "public", &["--workers", "2", "--loop", kind]);
        let mut stream = connect(serving.port).expect("it listens");
        ask(&mut stream, "/large.bin", "").expect("it listens");
        let mut idle = connect(serving.port).expect("it listens");
        let mut all = vec![0; 100_000];
        stream.read_exact(&mut all).expect("the beginning");
        serving.background.signal(Signal::TERM);
        // An idle client is not waited for; its connection is gone when no more are accepted.
        let end = idle.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
        stream.read_to_end(&mut all).expect("the rest");
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        assert!(all[end + 4..] == contents, "{} bytes", all.len());
        drop(stream);
        let port = serving.port;
        let run = serving.background.end();
        assert_eq!(run.code, 0, "{run:?}");
        assert!(try_get(port, "/0.txt").is_err());
        assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
    }
}

#[test]
fn a_worker_that_does_not_finish_in_time_is_killed() {
    let test_dir = site();
    let (serving, mut stream) = with_a_download(&test_dir, &["--grace", "200ms"]);
    serving.stop();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < LARGE);
    assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
}

/// A server with a large file, and who has begun to take it.
fn with_a_download(test_dir: &TestDir, options: &[&str]) -> (Serving, TcpStream) {
    test_dir.file("public/large.bin", vec![7; LARGE]);
    let serving = Serving::start(test_dir, "public", &[&["--workers", "1"], options].concat());
    let mut stream = connect(serving.port).expect("it listens");
    ask(&mut stream, "/large.bin", "").expect("it listens");
    stream.read_exact(&mut [0; 1000]).expect("the beginning");
    (serving, stream)
}

#[test]
fn a_replaced_or_orphaned_worker_finishes_its_transfers() {
    for kills in [false, true] {
        let test_dir = site();
        let (serving, mut stream) = with_a_download(&test_dir, &["--grace", "1ms"]);
        let worker = serving.workers()[0];
        let kept = match kills {
            true => {
                serving.background.kill();
                None
            }
            false => {
                serving.background.signal(Signal::HUP);
                until("another serves", || serving.workers().iter().any(|&pid| pid != worker));
                Some(serving)
            }
        };
        // Longer than the worker's check interval, and the grace.
        sleep(Duration::from_secs(1));
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the rest");
        assert!(rest.len() > LARGE - 1000, "{} bytes, supervisor killed: {kills}", rest.len());
        drop(stream);
        until("it has ended", || is_gone(worker));
        if let Some(serving) = kept {
            serving.stop();
            assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
        }
    }
}

#[test]
fn a_killed_worker_resets_clients_of_the_simple_protocol() {
    for kind in ["epoll", "pool", "uring"] {
        let test_dir = site();
        test_dir.file("public/large.bin", vec![7; LARGE]);
        let serving = Serving::start(&test_dir, "public", &["--workers", "1", "--loop", kind]);
        let mut stream = connect(serving.port).expect("it listens");
        stream.write_all(b"large.bin\n").expect("it listens");
        stream.read_exact(&mut [0; 1000]).expect("the beginning");
        kill(serving.workers()[0]);
        let end = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "loop {kind}");
        serving.stop();
    }
}

#[test]
fn a_replaced_worker_is_killed_with_the_others_at_the_end() {
    let test_dir = site();
    let (serving, mut stream) = with_a_download(&test_dir, &["--grace", "200ms"]);
    let worker = serving.workers()[0];
    serving.background.signal(Signal::HUP);
    until("another serves", || serving.workers().iter().any(|&pid| pid != worker));
    serving.stop();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < LARGE - 1000 && is_gone(worker), "{} bytes", rest.len());
    assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
}

#[test]
fn a_restart_with_other_choices_drops_the_old_cache() {
    let test_dir = site();
    let begin = |choices: &[&str]| {
        let serving = Serving::start(
            &test_dir,
            "public",
            &[&["--hold", "kept", "--workers", "4"], choices].concat(),
        );
        assert_eq!(get(serving.port, "/1.txt").status, 200);
        serving
    };
    let caches = || {
        let hold = Hold::options().directory(test_dir.path("")).open("kept").expect("the hold");
        let mut names: Vec<_> =
            hold.maps().list_all().expect("maps").into_iter().map(|map| map.name).collect();
        names.retain(|name| name.starts_with(".files"));
        names.sort_unstable();
        names
    };
    let other = ["--cache-bytes", "1MiB", "--eviction", "mutex"];
    begin(&[]).stop();
    assert_eq!(caches(), [".files.lockfree.268435456"]);
    let serving = begin(&other);
    let [map, sizes] = [".files.mutex.1048576", ".files.mutex.1048576.bytes"];
    assert_eq!(caches(), [map, sizes]);
    // Next to a live server nothing is dropped.
    begin(&[]).stop();
    assert_eq!(caches(), [".files.lockfree.268435456", map, sizes]);
    serving.stop();
}

#[test]
fn connections_leave_descriptors_for_files() {
    let test_dir = site();
    let mut command = std::process::Command::new("sh");
    let words = ["serve", "public", "--listen", "tcp:0", "--workers", "1", "--format", "json"];
    let limited = "ulimit -n 256 && exec \"$0\" \"$@\"";
    command.args(["-c", limited, PROGRAM]).args(words).stdin(Stdio::piped());
    command.current_dir(test_dir.path("")).env("COMMONHOLD_DIR", test_dir.path(""));
    let mut serving = Serving::of(Background::run(command));
    serving.background.until_error("instead of 10000");
    let mut streams: Vec<_> =
        (0..300).map(|_| connect(serving.port).expect("it listens")).collect();
    for (name, contents) in files() {
        ask(&mut streams[0], &format!("/{name}"), "").expect("it is open");
        let answer = answer(&mut streams[0]).expect("an answer");
        assert!((answer.status, answer.body) == (200, contents), "{name}");
    }
    drop(streams);
    serving.stop();
}

#[test]
fn workers_end_when_their_supervisor_is_killed() {
    let test_dir = site();
    let serving = Serving::start(&test_dir, "public", &["--workers", "3"]);
    assert_eq!(get(serving.port, "/1.txt").status, 200);
    let (workers, port) = (serving.workers(), serving.port);
    assert_eq!(workers.len(), 3);
    serving.background.kill();
    until("they have ended", || workers.iter().all(|&worker| is_gone(worker)));
    assert!(connect(port).is_err(), "somebody listens still");
    // The next server finds the hold, and removes it at the end.
    let serving = Serving::start(&test_dir, "public", &[]);
    assert_eq!(get(serving.port, "/1.txt").status, 200);
    serving.stop();
    assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
}

#[test]
fn requests_are_noted() {
    let test_dir = site();
    let options = ["--hold", "kept", "--request-log", "requests", "--workers", "2"];
    let serving = Serving::start(&test_dir, "public", &options);
    assert_eq!(get(serving.port, "/3.txt?a=b").status, 200);
    assert_eq!(get(serving.port, "/absent").status, 404);
    simple(&mut connect(serving.port).expect("it listens"), "5.txt");
    let mut log = String::new();
    until("all three are noted", || {
        log = test_dir.ok(&["log", "dump", "kept", "requests"]);
        log.lines().filter(|line| line.contains("127.0.0.1")).count() == 3
    });
    for part in
        ["127.0.0.1 \"GET /3.txt?a=b", "\" 200 ", "GET /absent", "\" 404 ", "\"5.txt\" 200 "]
    {
        assert!(log.contains(part), "no {part} in {log}");
    }
    // A malformed request is recorded with its own first line, and no client can end the quotes.
    let mut stream = connect(serving.port).expect("it listens");
    ask(&mut stream, "/3.txt", "User-Agent: a\" 200 1\r\n").expect("it listens");
    assert_eq!(answer(&mut stream).expect("an answer").status, 200);
    ask(&mut stream, "/%zz", "").expect("it listens");
    assert_eq!(answer(&mut stream).expect("an answer").status, 400);
    until("both are noted", || {
        log = test_dir.ok(&["log", "dump", "kept", "requests"]);
        log.lines().filter(|line| line.contains("127.0.0.1")).count() == 5
    });
    for part in [r#"" "a\x22 200 1" 200 "#, r#""GET /%zz HTTP/1.1" 400 "#] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    serving.stop();
    assert_eq!(test_dir.ok(&["log", "dump", "kept", "requests"]), log);
}
