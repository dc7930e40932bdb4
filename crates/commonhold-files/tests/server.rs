//! The file server as its clients see it: every combination of its choices, over real sockets.
//!
//! | module | idea |
//! |---|---|
//! | [`site`] | the served files, their database, and the contents of each |
//! | [`client`] | a client of HTTP and of the simple protocol, well-behaved or not |
//! | [`every`] | one suite for all combinations of choices |
//! | [`contents`], [`conditions`], [`connections`], [`people`] | the parts of the suite |
//! | [`many`] | a thousand connections, files of a gibibyte, files that shrink while being sent |
//! | [`fresh`] | files that change or vanish |
//! | [`conformance`] | requirements of HTTP, and the table of them |
//! | [`responses`] | responses that an operator has changed |
//! | [`escape`] | paths that lead elsewhere, and files that are not regular |
//! | [`fuzz`] | invalid requests |
//! | [`limits`] | clients that are slow, and too many |

mod client;
mod conditions;
mod conformance;
mod connections;
mod contents;
mod escape;
mod every;
mod fresh;
mod fuzz;
mod limits;
mod many;
mod people;
mod responses;
pub mod site;

use commonhold::Hold;
use commonhold_files::store::{CacheKind, EvictionKind};
use commonhold_files::{RequestsKind, Server, ServerOptions, SourceKind};
use commonhold_io::sockets::LoopKind;
use commonhold_testing::support::test_dir::TestDir;
use rustix::net::sockopt;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

/// Contents of more bytes are not kept in these tests.
const KEPT: u64 = 64 << 10;

/// One of all servers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choices {
    kind: LoopKind,
    requests: RequestsKind,
    cache: CacheKind,
    eviction: EvictionKind,
    source: SourceKind,
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choices { kind, requests, cache, eviction, source } = self;
        write!(
            f,
            "loop {kind}, requests {requests}, cache {cache}, eviction {eviction}, files {source}"
        )
    }
}

impl Choices {
    /// All with this loop.
    fn of(kind: LoopKind) -> Vec<Choices> {
        let mut all = Vec::new();
        for source in SourceKind::ALL {
            for cache in CacheKind::ALL {
                for eviction in EvictionKind::ALL {
                    for requests in RequestsKind::ALL {
                        all.push(Choices { kind, requests, cache, eviction, source });
                    }
                }
            }
        }
        all
    }

    fn all() -> impl Iterator<Item = Choices> {
        LoopKind::ALL.into_iter().flat_map(Choices::of)
    }

    /// One for each loop and source, with one of the caches after the other.
    fn some() -> Vec<Choices> {
        let caches = CacheKind::ALL.into_iter().cycle();
        let others = EvictionKind::ALL.into_iter().zip(RequestsKind::ALL).rev().cycle();
        let pairs = LoopKind::ALL.into_iter().flat_map(|k| SourceKind::ALL.map(|s| (k, s)));
        let all = pairs.zip(caches).zip(others);
        all.map(|(((kind, source), cache), (eviction, requests))| Choices {
            kind,
            requests,
            cache,
            eviction,
            source,
        })
        .collect()
    }

    /// The same as [`some`](Self::some) from a directory.
    fn of_directories() -> impl Iterator<Item = Choices> {
        Choices::some().into_iter().filter(|choices| choices.source == SourceKind::Sendfile)
    }

    fn is_database(self) -> bool {
        self.source == SourceKind::Sqlite
    }
}

/// A running server.
struct Served {
    address: SocketAddr,
    server: Option<Server>,
    _test_dir: TestDir,
}

impl Served {
    /// Serves the files at `place`, with two threads.
    fn new(choices: Choices, place: &Path, change: impl FnOnce(&mut ServerOptions)) -> Served {
        let test_dir = TestDir::memory();
        let hold = match choices.cache {
            CacheKind::Hold => Some(Hold::create(test_dir.path("it.hold")).unwrap()),
            _ => None,
        };
        Served::with(choices, place, test_dir, |options| {
            options.hold = hold;
            change(options);
        })
    }

    fn with(
        choices: Choices,
        place: &Path,
        test_dir: TestDir,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The backlog of `Address::listen`; each connection beyond it loses a second.
        rustix::net::listen(&listener, 1024).unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = ServerOptions::new(place);
        options.kind = choices.kind;
        options.requests = choices.requests;
        options.cache = choices.cache;
        options.eviction = choices.eviction;
        options.source = choices.source;
        (options.cache_bytes, options.most_kept) = (512 << 10, KEPT);
        options.threads = 2;
        change(&mut options);
        let server = Server::start(options, &[listener.into()]);
        let server = server.unwrap_or_else(|error| panic!("{choices:?}: {error}"));
        assert_eq!(server.chosen().kind, choices.kind, "{}", server.chosen());
        Served { address, server: Some(server), _test_dir: test_dir }
    }

    /// Ends it when all answers are sent.
    #[track_caller]
    fn finish(self) {
        self.finish_in(Duration::from_secs(30));
    }

    #[track_caller]
    fn finish_in(mut self, time: Duration) {
        let server = self.server.take().unwrap();
        assert!(!server.has_failed());
        assert!(server.finish(time), "it does not finish");
    }
}

#[test]
fn connections_within_the_machine_are_not_paced() {
    let site = site::Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Where the system has no BBR, there is no pacing to turn off.
    let _ = sockopt::set_tcp_congestion(&listener, "bbr");
    let same = listener.try_clone().unwrap();
    let server = Server::start(ServerOptions::new(site.place(false)), &[listener.into()]).unwrap();
    assert_ne!(sockopt::tcp_congestion(&same).unwrap(), "bbr");
    assert!(server.finish(Duration::from_secs(30)));
}

/// Prints which server made a test fail.
struct Naming(String);

impl Naming {
    fn new(what: impl fmt::Debug) -> Naming {
        Naming(format!("{what:?}"))
    }
}

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was with {}", self.0);
        }
    }
}
