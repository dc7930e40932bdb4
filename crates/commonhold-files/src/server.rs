//! A server: worker threads that serve the same files from the same sockets, with one store.
//!
//! Five choices make a worker: the loop, the request map, the cache, the eviction and the source.
//! Each is a type, and a worker is compiled for every combination. The combination that runs is
//! chosen here, once.

use super::access_log::{AccessLogFile, AccessLogs, LogFile};
use super::connection::{Connection, Patience};
use super::counts::ServerReport;
use super::fresh_contents::FreshContents;
use super::http::own_fields::OwnFields;
use super::http::{CacheControl, CorsOrigin, HeaderField};
use super::layout::{Layout, LayoutKind};
use super::pages::{ErrorPage, Pages};
use super::payload::Payload;
use super::peers::{Notice, Peers};
use super::protocol::ProtocolKind;
use super::reply::Responder;
use super::requests::{Hashbrown, Requests, RequestsKind, Slab, Std};
#[cfg(feature = "sqlite")]
use super::source::Database;
use super::source::{Directory, FileTree, Source, SourceKind, Symlinks};
use super::store::caches;
use super::store::{CacheKind, EvictionKind, Store, WithStore, choose_store};
use super::worker::{Reports, Rules, Signal, Worker};
use commonhold::log::Log;
use commonhold::{Error, ErrorKind, Hold, Result, fault};
use commonhold_io::reports::Reporter;
use commonhold_io::sockets::{
    Chosen, Driver, LoopKind, Options, Waker, WithDriver, block_broken_pipes, choose,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Options of a server. `ServerOptions::new` has defaults for everything but the place.
#[derive(Clone)]
pub struct ServerOptions {
    /// The directory, or the database of [`SourceKind::Sqlite`].
    pub place: PathBuf,
    /// How ids name files.
    pub layout: LayoutKind,
    /// The file that answers for a directory, in a layout that has directories; `None` for none.
    pub index: Option<String>,
    /// Whether files and directories whose names begin with a dot are served, in a layout that has
    /// directories.
    pub hidden: bool,
    /// The symlinks that are followed.
    pub symlinks: Symlinks,
    /// Fields of all responses over HTTP, besides those of the server itself.
    pub headers: Vec<HeaderField>,
    /// `Cache-Control` of responses with contents, and of 304; `None` for none.
    pub cache_control: Option<CacheControl>,
    /// The origin whose scripts may read responses, in browsers; `None` for none but the server's.
    pub cors: Option<CorsOrigin>,
    /// The pages of errors over HTTP.
    pub error_pages: Vec<ErrorPage>,
    /// The id of the file for paths over HTTP that name nothing and have no extension: the page of
    /// an application that has paths of its own. `None` for none.
    pub fallback: Option<String>,
    /// The protocols that the server speaks.
    pub spoken: ProtocolKind,
    /// The loop.
    pub kind: LoopKind,
    /// The request map.
    pub requests: RequestsKind,
    /// The place of kept contents.
    pub cache: CacheKind,
    /// The choice of contents that are dropped when there is no room for more.
    pub eviction: EvictionKind,
    /// The place of the files.
    pub source: SourceKind,
    /// The most bytes of kept contents.
    pub cache_bytes: u64,
    /// Contents of more bytes are never kept; they are sent from the source.
    pub most_kept: u64,
    /// How long a change may go unnoticed.
    pub fresh: Duration,
    /// The time limits for peers.
    pub patience: Patience,
    /// The most connections of one thread.
    pub most_connections: usize,
    /// The most connections of one address, over all threads; `None` for no limit. Of IPv6, all
    /// addresses of a network of 64 bits count as one.
    pub per_address: Option<u32>,
    /// Takes lines for the operator, such as that an address has too many connections.
    pub notice: Option<Notice>,
    /// The number of serving threads.
    pub threads: usize,
    /// The hold of [`CacheKind::Hold`], of reports and of the log.
    pub hold: Option<Hold>,
    /// The log of requests in a hold; `None` for none.
    pub log: Option<Log>,
    /// The log of requests in a file; `None` for none. A server that drains opens the file again.
    pub access_log: Option<AccessLogFile>,
    /// The listening addresses for reports.
    pub listens: Vec<String>,
}

impl ServerOptions {
    /// Serves `place` with the choices that measured best: see `docs/performance.md`.
    #[must_use]
    pub fn new(place: impl Into<PathBuf>) -> ServerOptions {
        ServerOptions {
            place: place.into(),
            layout: LayoutKind::default(),
            index: Some("index.html".to_owned()),
            hidden: false,
            symlinks: Symlinks::default(),
            headers: Vec::new(),
            cache_control: None,
            cors: None,
            error_pages: Vec::new(),
            fallback: None,
            spoken: ProtocolKind::default(),
            kind: LoopKind::Epoll,
            requests: RequestsKind::default(),
            cache: CacheKind::Hashbrown,
            eviction: EvictionKind::Lockfree,
            source: SourceKind::default(),
            cache_bytes: 256 << 20,
            most_kept: worth_keeping(SourceKind::default()),
            fresh: Duration::from_secs(1),
            patience: Patience::default(),
            most_connections: 10_000,
            per_address: None,
            notice: None,
            threads: 1,
            hold: None,
            log: None,
            access_log: None,
            listens: Vec::new(),
        }
    }

    /// All choices, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let ServerOptions { kind, requests, eviction, cache, source, .. } = self;
        format!(
            "loop {kind}, requests {requests}, eviction {eviction}, cache {cache}, files {source}"
        )
    }
}

/// The largest number of bytes that is better kept than taken from the source, as measured: see
/// `docs/performance.md`. The kernel sends larger files of a directory without a copy.
#[must_use]
pub fn worth_keeping(source: SourceKind) -> u64 {
    match source {
        SourceKind::Sendfile => 32 << 10,
        SourceKind::Sqlite => 256 << 10,
    }
}

/// A running server. Dropping it ends it at once; [`finish`](Self::finish) sends answers first.
pub struct Server {
    signal: Arc<Signal>,
    threads: Vec<Thread>,
    chosen: Chosen,
}

struct Thread {
    waker: Waker,
    handle: JoinHandle<io::Result<()>>,
}

/// The shared data of a server's threads.
struct Plan {
    options: ServerOptions,
    layout: Arc<dyn Layout>,
    directory: Option<Arc<Directory>>,
    signal: Arc<Signal>,
    peers: Option<Arc<Peers>>,
    pages: Pages,
}

impl Server {
    /// Serves on listening sockets.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Invalid`, `Io` of the directory or the database; `Invalid` if a
    /// page cannot be an id; `Io` of the file of the log; those of a hold's map; `Io` if threads or
    /// descriptors have run out.
    pub fn start(options: ServerOptions, listeners: &[OwnedFd]) -> Result<Server> {
        let place = options.place.clone();
        let layout: Arc<dyn Layout> =
            options.layout.layout(options.index.as_deref(), options.hidden).into();
        let directory = match options.source {
            SourceKind::Sendfile => {
                let opened = Directory::open(&place, options.symlinks);
                Some(Arc::new(opened.map_err(|error| failed(&options, &error))?))
            }
            SourceKind::Sqlite => {
                check_database(&options)?;
                None
            }
        };
        let (cache, eviction, bytes) = (options.cache, options.eviction, options.cache_bytes);
        let hold = options.hold.clone();
        let signal = Arc::default();
        // Each thread opens it for itself; an error there could not name the file.
        log_file(&options).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
        let pages = Pages::new(&*layout, &options.error_pages, options.fallback.as_deref())?;
        let notice = options.notice.clone();
        let peers = options.per_address.map(|most| Peers::new(most.max(1), notice));
        let plan = Arc::new(Plan { options, layout, directory, signal, peers, pages });
        let begin = Begin { plan: Arc::clone(&plan), listeners };
        let map = caches::name_of(eviction, bytes);
        let begun = choose_store(cache, eviction, bytes, hold.as_ref(), &map, begin)?;
        let (threads, chosen) = begun.map_err(|error| failed(&plan.options, &error))?;
        Ok(Server { signal: Arc::clone(&plan.signal), threads, chosen })
    }

    /// The loop that runs, and why it replaces the requested one.
    #[must_use]
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Stops accepting, and closes each connection after the answers to its requests, within the
    /// limits of [`Patience`]. Does not wait; all are closed when the server [has
    /// ended](Self::has_ended).
    pub fn drain(&self) {
        self.signal.drain();
        self.wake();
    }

    /// Whether all threads have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(|thread| thread.handle.is_finished())
    }

    /// [Drains](Self::drain), and waits at most for `patience`. Returns whether all connections
    /// were closed in that time; the others are closed then.
    pub fn finish(mut self, patience: Duration) -> bool {
        self.drain();
        let end = Instant::now().checked_add(patience);
        while !self.has_ended() {
            if end.is_some_and(|end| Instant::now() >= end) {
                self.end();
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.end();
        true
    }

    /// Whether a thread has ended by itself.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(|thread| thread.handle.is_finished())
    }

    fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    fn end(&mut self) {
        end(&self.signal, &mut self.threads);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn failed(options: &ServerOptions, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        io::ErrorKind::InvalidData | io::ErrorKind::NotADirectory => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{}: {error}", options.place.display()))
}

#[cfg(feature = "sqlite")]
fn check_database(options: &ServerOptions) -> Result<()> {
    Database::open(&options.place).map(drop).map_err(|error| failed(options, &error))
}

#[cfg(not(feature = "sqlite"))]
fn check_database(_: &ServerOptions) -> Result<()> {
    let text = "this program was built without sqlite; build it with the feature 'sqlite'";
    Err(Error::new(ErrorKind::Unsupported, text.to_owned()))
}

/// Starts the threads.
struct Begin<'a> {
    plan: Arc<Plan>,
    listeners: &'a [OwnedFd],
}

impl WithStore for Begin<'_> {
    type Output = io::Result<(Vec<Thread>, Chosen)>;

    fn run<S: Store>(self, store: Arc<S>) -> Self::Output {
        let (mut threads, mut kind) = (Vec::new(), None);
        for number in 0..self.plan.options.threads.max(1) {
            match self.start(number, &store) {
                Ok((thread, chosen)) => {
                    threads.push(thread);
                    kind = Some(chosen);
                }
                Err(error) => {
                    end(&self.plan.signal, &mut threads);
                    return Err(error);
                }
            }
        }
        Ok((threads, kind.unwrap_or(Chosen { kind: LoopKind::Epoll, instead: None })))
    }
}

impl Begin<'_> {
    /// Starts one thread, and waits until it serves.
    fn start<S: Store>(&self, number: usize, store: &Arc<S>) -> io::Result<(Thread, Chosen)> {
        fault!("files.duplicate")?;
        let listeners: io::Result<Vec<_>> = self.listeners.iter().map(OwnedFd::try_clone).collect();
        let (plan, store, listeners) = (Arc::clone(&self.plan), Arc::clone(store), listeners?);
        let (sender, receiver) = channel();
        let builder = thread::Builder::new().name(format!("files-{number}"));
        fault!("files.thread")?;
        let handle = builder.spawn(move || serve(&plan, store, listeners, &sender))?;
        match receiver.recv() {
            Ok((waker, chosen)) => Ok((Thread { waker, handle }, chosen)),
            // The thread ended before it could report.
            Err(_) => {
                let ended = handle.join().unwrap_or(Ok(()));
                Err(ended.err().unwrap_or_else(|| io::Error::other("a thread ended")))
            }
        }
    }
}

/// Ends threads at once.
fn end(signal: &Signal, threads: &mut Vec<Thread>) {
    signal.stop();
    threads.iter().for_each(|thread| thread.waker.wake());
    for thread in threads.drain(..) {
        // `has_failed` reported its error.
        let _ = thread.handle.join();
    }
}

/// The body of a thread.
fn serve<S: Store>(
    plan: &Plan,
    store: Arc<S>,
    listeners: Vec<OwnedFd>,
    tell: &Sender<(Waker, Chosen)>,
) -> io::Result<()> {
    block_broken_pipes();
    match &plan.directory {
        Some(directory) => {
            let tree = FileTree::new(Arc::clone(directory), Arc::clone(&plan.layout));
            serve_from(plan, store, tree, listeners, tell)
        }
        None => serve_database(plan, store, listeners, tell),
    }
}

#[cfg(feature = "sqlite")]
fn serve_database<S: Store>(
    plan: &Plan,
    store: Arc<S>,
    listeners: Vec<OwnedFd>,
    tell: &Sender<(Waker, Chosen)>,
) -> io::Result<()> {
    let database = Database::open(&plan.options.place)?;
    serve_from(plan, store, database, listeners, tell)
}

#[cfg(not(feature = "sqlite"))]
fn serve_database<S: Store>(
    _: &Plan,
    _: Arc<S>,
    _: Vec<OwnedFd>,
    _: &Sender<(Waker, Chosen)>,
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn serve_from<S: Store, F: Source>(
    plan: &Plan,
    store: Arc<S>,
    source: F,
    listeners: Vec<OwnedFd>,
    tell: &Sender<(Waker, Chosen)>,
) -> io::Result<()> {
    let options = &plan.options;
    let most_kept = match options.cache {
        CacheKind::None => 0,
        _ => options.most_kept,
    };
    let contents = FreshContents::new(store, source, options.fresh, most_kept);
    choose(options.kind, &Options::default(), OnDriver { plan, contents, listeners, tell })?
}

struct OnDriver<'a, S, F: Source> {
    plan: &'a Plan,
    contents: FreshContents<S, F>,
    listeners: Vec<OwnedFd>,
    tell: &'a Sender<(Waker, Chosen)>,
}

impl<S: Store, F: Source> WithDriver<Payload> for OnDriver<'_, S, F> {
    type Output = io::Result<()>;

    fn run<D: Driver<Payload>>(self, driver: D, chosen: Chosen) -> io::Result<()> {
        match self.plan.options.requests {
            RequestsKind::Std => self.work::<D, Std<_>>(driver, chosen),
            RequestsKind::Hashbrown => self.work::<D, Hashbrown<_>>(driver, chosen),
            RequestsKind::Slab => self.work::<D, Slab<_>>(driver, chosen),
        }
    }
}

impl<S: Store, F: Source> OnDriver<'_, S, F> {
    fn work<D, R>(self, driver: D, chosen: Chosen) -> io::Result<()>
    where
        D: Driver<Payload>,
        R: Requests<Connection<F::Handle>>,
    {
        let OnDriver { plan, contents, listeners, tell } = self;
        let options = &plan.options;
        let rules = Rules {
            spoken: options.spoken,
            patience: options.patience.limited(),
            most_connections: options.most_connections.max(1),
            peers: plan.peers.clone(),
            logs: AccessLogs { ring: options.log.clone(), file: log_file(options)? },
        };
        let waker = driver.waker();
        let ServerOptions { headers, cache_control, cors, .. } = options;
        let fields = OwnFields::new(headers, cache_control.as_ref(), cors.as_ref());
        let responder = Responder::new(Arc::clone(&plan.layout), fields, plan.pages.clone());
        let signal = Arc::clone(&plan.signal);
        let mut worker = Worker::<D, R, S, F>::new(driver, contents, responder, rules, signal);
        for listener in listeners {
            worker.listen(listener)?;
        }
        // If the receiver is gone, the server has ended: the signal carries that.
        let _ = tell.send((waker, chosen));
        worker.run(&mut *reporting(options));
        Ok(())
    }
}

fn log_file(options: &ServerOptions) -> io::Result<Option<LogFile>> {
    let open = |of| LogFile::open(of, options.notice.clone());
    options.access_log.as_ref().map(open).transpose()
}

/// Writes a worker's reports into the hold, for every process that has it open.
fn reporting(options: &ServerOptions) -> Box<Reports<'_>> {
    let place = options.place.display().to_string();
    let reporter = options.hold.as_ref().map(|hold| Reporter::new(hold, "server", &place));
    // Without a reporter there are no reports: no request depends on them.
    let mut reporter = reporter.and_then(Result::ok);
    Box::new(move |report| {
        if let Some(reporter) = &mut reporter {
            reporter.report(false, || ServerReport {
                listens: options.listens.clone(),
                serves: options.words(),
                cache: options.cache.word().to_owned(),
                eviction: options.eviction.word().to_owned(),
                ..report()
            });
        }
    })
}
