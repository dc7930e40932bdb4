//! File servers: an answer is right, an error, or cut off in such a way that the client notices,
//! and after the fault everything is served again.

use crate::server::site::{bytes, database, put};
use commonhold::Hold;
use commonhold_files::faults::all;
use commonhold_files::source::{Directory, Symlinks, import};
use commonhold_files::store::CacheKind;
use commonhold_files::{
    AccessLogFile, AccessLogFormat, LayoutKind, Server, ServerOptions, SourceKind,
};
use commonhold_io::sockets::LoopKind;
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use commonhold_testing::trial::{Scenario, Trial, closes_down_to, descriptors, fail};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const SMALL: usize = 3000;
/// More than the cache keeps.
const LARGE: usize = (300 << 10) + 7;
const KEPT: u64 = 64 << 10;

/// The time limits of an answer while calls fail, and when none does.
const A_MOMENT: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(20);

/// A request, and the contents that are there.
struct Question {
    request: Vec<u8>,
    status: u16,
    contents: Vec<u8>,
}

impl Question {
    fn of(target: &str, fields: &str, status: u16, contents: Vec<u8>) -> Question {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: it\r\n{fields}Connection: close\r\n\r\n");
        Question { request: request.into_bytes(), status, contents }
    }

    fn simple(id: &str, contents: Vec<u8>) -> Question {
        Question { request: format!("{id}\n").into_bytes(), status: 0, contents }
    }
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    /// An error that was reported, or a connection that was cut off.
    Refused,
    /// Nothing came in time.
    Silent,
}

/// All received bytes, and whether the end was that of a stream.
fn receive(stream: &mut TcpStream) -> Option<(Vec<u8>, bool)> {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => Some((received, true)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(_) => Some((received, false)),
    }
}

fn ask(address: SocketAddr, question: &Question, patience: Duration) -> Outcome {
    let Ok(mut stream) = TcpStream::connect(address) else { return Outcome::Refused };
    stream.set_read_timeout(Some(patience)).unwrap();
    // A reset appears only once.
    let is_said = stream.write_all(&question.request).is_ok();
    let Some((received, is_end)) = receive(&mut stream) else { return Outcome::Silent };
    match question.status {
        0 => judge_simple(question, &received, is_said && is_end),
        _ => judge(question, &received),
    }
}

/// Contents end where the stream does.
fn judge_simple(question: &Question, received: &[u8], is_end: bool) -> Outcome {
    match received {
        _ if !is_end => Outcome::Refused,
        [0] => Outcome::Refused,
        received => {
            let (len, of) = (received.len(), question.contents.len());
            assert!(received == question.contents, "{len} bytes pass for contents of {of}");
            Outcome::Right
        }
    }
}

fn judge(question: &Question, received: &[u8]) -> Outcome {
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Outcome::Refused;
    };
    let (head, body) = (str::from_utf8(&received[..end]).unwrap(), &received[end + 4..]);
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    if status != question.status {
        assert!(matches!(status, 403 | 408 | 500 | 503), "not true: {head}");
        return Outcome::Refused;
    }
    let mut lines = head.lines();
    let len = lines.find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let len: usize = len.parse().unwrap();
    if status >= 300 {
        return if body.len() == len { Outcome::Right } else { Outcome::Refused };
    }
    assert_eq!(len, question.contents.len(), "{head}");
    assert!(question.contents.starts_with(body), "wrong bytes: {head}");
    if body.len() == len { Outcome::Right } else { Outcome::Refused }
}

/// Files of a site, the two links to one included.
const FILES: u64 = 7;

/// Files in a directory, and the requests for them.
fn site(place: &Path) -> Vec<Question> {
    let (small, large) = (bytes(b"small.txt", SMALL), bytes(b"large.bin", LARGE));
    let brotli = bytes(b"page.html.br", SMALL);
    put(place, b"small.txt", &small, 0);
    put(place, b"large.bin", &large, 0);
    put(place, b"page.html", &bytes(b"page.html", 2 * SMALL), 0);
    put(place, b"page.html.br", &brotli, 0);
    put(place, b"sub/index.html", &bytes(b"sub/index.html", SMALL), 0);
    symlink("small.txt", place.join("link.txt")).unwrap();
    symlink(place.join("small.txt"), place.join("absolute.txt")).unwrap();
    let part = large[1000..200_000].to_vec();
    vec![
        Question::of("/small.txt", "", 200, small.clone()),
        Question::of("/large.bin", "", 200, large.clone()),
        Question::of("/page.html", "Accept-Encoding: br\r\n", 200, brotli),
        Question::of("/large.bin", "Range: bytes=1000-199999\r\n", 206, part),
        Question::of("/link.txt", "", 200, small.clone()),
        Question::of("/absolute.txt", "", 200, small.clone()),
        Question::of("/none", "", 404, Vec::new()),
        Question::simple("small.txt", small),
        Question::simple("large.bin", large),
    ]
}

struct Site {
    options: ServerOptions,
    questions: Vec<Question>,
}

impl Site {
    fn new(trial: &Trial, kind: LoopKind, cache: CacheKind) -> Site {
        let place = trial.path("root");
        let mut questions = site(&place);
        questions.push(Question::of("/sub", "", 301, Vec::new()));
        let mut options = ServerOptions::new(place);
        (options.kind, options.cache, options.most_kept) = (kind, cache, KEPT);
        (options.threads, options.fresh) = (2, Duration::from_millis(1));
        let (path, format) = (trial.path("access.log"), AccessLogFormat::Json);
        options.access_log = Some(AccessLogFile { path, format });
        // A server that starts without openat2 follows no symlink until it ends.
        if trial.has("files.openat2:ENOSYS") {
            questions.retain(|question| !question.request.starts_with(b"GET /link.txt "));
        }
        // A symlink that cannot be followed may lead out.
        if trial.has("files.openat2:ENOSYS") || trial.has("files.openat:EACCES") {
            questions.retain(|question| !question.request.starts_with(b"GET /absolute.txt "));
        }
        Site { options, questions }
    }

    /// Requests everything; returns whether all was right.
    fn ask(&self, address: SocketAddr, patience: Duration) -> bool {
        let mut all = true;
        for question in &self.questions {
            let outcome = ask(address, question, patience);
            all &= outcome == Outcome::Right;
            if outcome == Outcome::Silent {
                break;
            }
        }
        all
    }

    fn serve(self, trial: &Trial) {
        let (before, threads) = (descriptors(), threads());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, sockets) = (listener.local_addr().unwrap(), [OwnedFd::from(listener)]);
        let start = || Server::start(self.options.clone(), &sockets);
        trial.arm();
        let server = start();
        if let Ok(server) = &server {
            for _ in 0..3 {
                let all = self.ask(address, A_MOMENT);
                assert!(all || !trial.is_rehearsal(), "nothing fails");
                assert!(!server.has_failed(), "a thread has ended");
            }
        }
        trial.lift();
        let server = server.unwrap_or_else(|error| {
            assert!(!trial.is_rehearsal(), "{error}");
            until("no thread is left of it", || self::threads() <= threads);
            start().expect("nothing fails any more")
        });
        until("everything is served again", || self.ask(address, LONG));
        for _ in 0..4 {
            assert!(self.ask(address, LONG), "it was just served");
        }
        assert!(server.finish(LONG), "it does not finish");
        // Lines may be missing, but none is torn.
        let log = std::fs::read_to_string(trial.path("access.log")).unwrap();
        assert!(!log.is_empty());
        for line in log.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
        drop((sockets, self));
        closes_down_to(before);
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn by_epoll(trial: &Trial) {
    Site::new(trial, LoopKind::Epoll, CacheKind::Hashbrown).serve(trial);
}

/// Also follows symlinks that lead out, and keeps contents in a hold.
fn by_pool(trial: &Trial) {
    let mut site = Site::new(trial, LoopKind::Pool, CacheKind::Hold);
    site.options.symlinks = Symlinks::All;
    site.options.hold = Some(Hold::create(trial.path("it.hold")).unwrap());
    site.serve(trial);
}

fn by_uring(trial: &Trial) {
    Site::new(trial, LoopKind::Uring, CacheKind::None).serve(trial);
}

fn from_a_database(trial: &Trial) {
    let mut site = Site::new(trial, LoopKind::Epoll, CacheKind::Std);
    let to = trial.path("files.db");
    database(&site.options.place, LayoutKind::Tree, &to);
    (site.options.place, site.options.source) = (to, SourceKind::Sqlite);
    site.serve(trial);
}

fn from_zotero(trial: &Trial) {
    let mut site = Site::new(trial, LoopKind::Epoll, CacheKind::None);
    let (place, paper) = (trial.path("storage"), bytes(b"paper", LARGE));
    put(&place, b"ABCD1234/paper.pdf", &paper, 0);
    site.questions = vec![Question::of("/ABCD1234", "", 200, paper)];
    (site.options.place, site.options.layout) = (place, LayoutKind::Zotero);
    site.serve(trial);
}

/// An import imports everything, or nothing.
fn import_all(trial: &Trial) {
    let (place, to) = (trial.path("root"), trial.path("files.db"));
    site(&place);
    let before = descriptors();
    let all = || -> std::io::Result<u64> {
        let directory = Directory::open(&place, Symlinks::Inside)?;
        let layout = LayoutKind::Tree.layout(None, false);
        import(&directory, &*layout, &to, &mut |_, _| ()).map(|(files, _)| files)
    };
    trial.arm();
    let imported = all();
    trial.lift();
    match imported {
        // Without openat2 no symlink is followed; without openat no absolute one.
        Ok(files) if trial.has("files.openat2") || trial.has("files.openat:EACCES") => {
            assert!((FILES - 2..=FILES).contains(&files));
        }
        Ok(files) => assert_eq!(files, FILES, "some are missing"),
        Err(error) => {
            assert!(!trial.is_rehearsal(), "{error}");
            assert!(!to.exists(), "half a database: {error}");
        }
    }
    assert_eq!(all().unwrap(), FILES);
    closes_down_to(before);
}

const ALL: [Scenario; 6] = [
    Scenario { name: "a server by epoll", run: by_epoll },
    Scenario { name: "a server by a pool, of all symlinks, with a hold", run: by_pool },
    Scenario { name: "a server by io_uring", run: by_uring },
    Scenario { name: "a server from a database", run: from_a_database },
    Scenario { name: "a server of Zotero's storage", run: from_zotero },
    Scenario { name: "an import", run: import_all },
];

#[test]
fn calls_of_file_servers_fail() {
    fail(all(), &ALL, &["files.", "event.", "ring."], 2);
}

/// Contents with a missing part are an error, not shorter contents.
#[test]
fn a_damaged_database_serves_no_half_of_a_file() {
    let test_dir = TestDir::memory();
    let (place, to) = (test_dir.path("root"), test_dir.path("files.db"));
    put(&place, b"large.bin", &bytes(b"large.bin", LARGE), 0);
    database(&place, LayoutKind::Tree, &to);
    let connection = rusqlite::Connection::open(&to).unwrap();
    let deleted = connection.execute("DELETE FROM chunks WHERE place & 16777215 = 1", []).unwrap();
    assert_eq!(deleted, 1);
    drop(connection);
    for most_kept in [1 << 20, 0] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = ServerOptions::new(&to);
        (options.source, options.most_kept) = (SourceKind::Sqlite, most_kept);
        let server = Server::start(options, &[listener.into()]).unwrap();
        let large = bytes(b"large.bin", LARGE);
        let http = Question::of("/large.bin", "", 200, large.clone());
        for question in [http, Question::simple("large.bin", large)] {
            assert_eq!(ask(address, &question, LONG), Outcome::Refused);
        }
        assert!(server.finish(LONG));
    }
}
