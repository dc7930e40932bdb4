//! The process that the user started: it listens, and keeps workers running.

use super::connections;
use super::control::{self, MOST_SOCKETS, Word, hand_over, is_readable, is_ready, pair};
use super::options::Args;
use crate::commands::shared::inherited_sockets::inherited_sockets;
use crate::monitor::Monitor;
use crate::target::Directory;
use commonhold_io::address::{Address, Listener};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The default address.
const DEFAULT_PORT: u16 = 8080;
/// How long a worker may take to start serving.
const PATIENCE: Duration = Duration::from_secs(30);
/// The delay before a worker that died at once is restarted: the first one, and the longest, to
/// which it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// A worker that lived for this long was healthy.
const WELL: Duration = Duration::from_secs(10);

/// A worker process.
struct Worker {
    child: Child,
    /// Closing it lets the worker finish, too.
    control: OwnedFd,
    began: Instant,
}

/// A place for a worker.
struct Post {
    worker: Option<Worker>,
    /// When to start one, if there is none.
    due: Instant,
    wait: Duration,
}

/// How workers are started.
struct Recruiter<'a> {
    program: PathBuf,
    arguments: Vec<OsString>,
    listeners: &'a [Listener],
}

/// Runs until a signal comes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    args.check()?;
    let connections = connections::allow(args.max_connections());
    let signals = watch()?;
    let listeners = listen(args)?;
    // It stays open here, so that it exists whatever happens to the workers.
    let hold = args.open_hold(directory)?;
    args.drop_other_caches(&hold)?;
    let monitor = args.monitor(&hold)?;
    let recruiter = Recruiter::new(&listeners)?;
    let mut posts = Vec::new();
    for _ in 0..args.workers() {
        let worker = recruiter.start()?;
        posts.push(Post { worker: Some(worker), due: Instant::now(), wait: FIRST_WAIT });
    }
    let begun = posts.iter().filter_map(|post| post.worker.as_ref()).all(Worker::is_ready);
    if begun {
        tell(args, output, &listeners, monitor.as_ref())?;
        tell_of_connections(connections, args.max_connections(), output);
    }
    let mut old = Vec::new();
    if begun {
        watch_over(&recruiter, &mut posts, &mut old, &signals, output);
    }
    old.extend(posts.into_iter().filter_map(|post| post.worker));
    finish(old, args.grace(), &signals);
    // It has the hold open.
    drop(monitor);
    listeners.iter().for_each(Listener::remove_file);
    if !args.keeps_hold() {
        let path = hold.path().to_owned();
        drop(hold);
        // Another server of the same directory may still use it.
        let _ = commonhold::hold::remove(&path, false);
    }
    match begun {
        true => Ok(ExitCode::SUCCESS),
        // They have reported the reason.
        false => Err(Failure::failed("the workers could not start; see above")),
    }
}

/// Signals as they come.
fn watch() -> Result<Receiver<i32>> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD]);
    let failed = |error| Failure::failed(format!("cannot watch for signals: {error}"));
    let mut signals = signals.map_err(failed)?;
    let (sender, receiver) = channel();
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    Ok(receiver)
}

fn listen(args: &Args) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for socket in inherited_sockets()? {
        listeners.push(Listener::given(socket)?);
    }
    for address in &args.listen {
        listeners.push(address.listen()?);
    }
    if listeners.is_empty() {
        listeners.push(Address::Tcp("127.0.0.1".to_owned(), DEFAULT_PORT).listen()?);
    }
    match listeners.len() > MOST_SOCKETS {
        true => Err(Failure::usage(format!(
            "expected at most {MOST_SOCKETS} addresses to listen on, got {}",
            listeners.len()
        ))),
        false => Ok(listeners),
    }
}

fn tell(
    args: &Args,
    output: &Output,
    listeners: &[Listener],
    monitor: Option<&Monitor>,
) -> Result<()> {
    let names: Vec<String> = listeners.iter().map(|l| l.address().to_string()).collect();
    if output.is_json() {
        let mut json = json!({ "listening": names });
        if let Some(monitor) = monitor {
            json["admin"] = monitor.address().to_string().into();
        }
        return output.json_line(&json);
    }
    say(output, &format!("{} at {}", args.place.display(), names.join(", ")));
    for listener in listeners {
        if let Address::Tcp(host, port) = listener.address() {
            say(output, &format!("http://{host}:{port}/"));
        }
    }
    if let Some(monitor) = monitor {
        say(output, &format!("status page: {}", monitor.url()));
    }
    Ok(())
}

/// Reports if a worker has room for fewer connections than requested.
fn tell_of_connections(allowed: u32, wanted: u32, output: &Output) {
    if allowed < wanted {
        let text = format!(
            "the open-file limit allows each worker {allowed} connections instead of \
             {wanted}; raise it ('ulimit -Hn', LimitNOFILE= in systemd), or lower \
             --max-connections"
        );
        say(output, &text);
    }
}

fn say(output: &Output, text: &str) {
    if !output.is_quiet() {
        note(&format!("hold serve: {text}"));
    }
}

impl Recruiter<'_> {
    fn new(listeners: &[Listener]) -> Result<Recruiter<'_>> {
        let program = std::env::current_exe();
        let program = program
            .map_err(|e| Failure::failed(format!("cannot find this program's executable: {e}")))?;
        // The path, even if another version of the program is there by the time of SIGHUP.
        let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
        // Before any argument that ends the options.
        let subcommand = arguments.iter().position(|word| word == "serve").map_or(0, |at| at + 1);
        arguments.insert(subcommand, "--as-worker".into());
        Ok(Recruiter { program, arguments, listeners })
    }

    /// Starts a worker; it does not serve yet.
    fn start(&self) -> Result<Worker> {
        let (here, there) = pair()?;
        let sockets: Vec<BorrowedFd<'_>> = self.listeners.iter().map(Listener::socket).collect();
        hand_over(&here, &sockets)?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::from(there)).stdout(Stdio::null());
        // Sockets from systemd are passed on in another way.
        command.env_remove("LISTEN_FDS").env_remove("LISTEN_PID");
        let child = command.spawn();
        let child = child.map_err(|e| Failure::failed(format!("cannot start a worker: {e}")))?;
        Ok(Worker { child, control: here, began: Instant::now() })
    }

    /// Starts one, and waits until it serves; `None` if it failed, which has been reported.
    fn start_ready(&self) -> Option<Worker> {
        match self.start() {
            Ok(worker) if worker.is_ready() => Some(worker),
            Ok(mut worker) => {
                worker.kill();
                None
            }
            Err(failure) => {
                failure.report();
                None
            }
        }
    }
}

impl Post {
    /// The place has no worker now; the next start is delayed longer than the last one.
    fn vacate(&mut self) {
        self.worker = None;
        self.due = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(LAST_WAIT);
    }
}

impl Worker {
    fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it serves; false if it failed to start.
    fn is_ready(&self) -> bool {
        is_readable(&self.control, PATIENCE) && is_ready(&self.control)
    }

    fn tell(&self, word: Word) {
        control::tell(&self.control, word);
    }

    fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn kill(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It can only fail because it has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Restarts workers that end, until a signal ends the server.
fn watch_over(
    recruiter: &Recruiter<'_>,
    posts: &mut [Post],
    old: &mut Vec<Worker>,
    signals: &Receiver<i32>,
    output: &Output,
) {
    loop {
        let due = posts.iter().filter(|post| post.worker.is_none()).map(|post| post.due).min();
        match wait(signals, due) {
            Some(SIGTERM | SIGINT) => return,
            Some(SIGHUP) => replace(recruiter, posts, old, output),
            _ => {}
        }
        old.retain_mut(|worker| worker.has_ended().is_none());
        for (number, post) in posts.iter_mut().enumerate() {
            reap(number, post, output);
            if post.worker.is_none() && Instant::now() >= post.due {
                fill(number, post, recruiter, output);
            }
        }
    }
}

/// The next signal; `None` at the deadline.
fn wait(signals: &Receiver<i32>, due: Option<Instant>) -> Option<i32> {
    let Some(due) = due else { return signals.recv().ok() };
    signals.recv_timeout(due.saturating_duration_since(Instant::now())).ok()
}

/// Notes the end of a worker.
fn reap(number: usize, post: &mut Post, output: &Output) {
    let Some(worker) = &mut post.worker else { return };
    let Some(status) = worker.has_ended() else { return };
    say(
        output,
        &format!("worker {number} (process {}) ended: {status}; starting it again", worker.id()),
    );
    if worker.began.elapsed() >= WELL {
        post.wait = FIRST_WAIT;
    }
    post.vacate();
}

/// Starts a worker at a place that has none. If that fails, for lack of processes or memory, or
/// while the program is being replaced, it counts as a worker that died at once: the others
/// continue.
fn fill(number: usize, post: &mut Post, recruiter: &Recruiter<'_>, output: &Output) {
    match recruiter.start() {
        Ok(worker) => {
            say(output, &format!("worker {number}: process {}", worker.id()));
            post.worker = Some(worker);
        }
        Err(failure) => {
            failure.report();
            post.vacate();
        }
    }
}

/// Starts new workers, and lets the old ones finish.
fn replace(recruiter: &Recruiter<'_>, posts: &mut [Post], old: &mut Vec<Worker>, output: &Output) {
    for (number, post) in posts.iter_mut().enumerate() {
        let Some(worker) = recruiter.start_ready() else {
            say(
                output,
                &format!("worker {number}: a new process could not start; the old one continues"),
            );
            continue;
        };
        say(output, &format!("worker {number}: process {} replaces the old one", worker.id()));
        if let Some(before) = post.worker.replace(worker) {
            before.tell(Word::Finish);
            old.push(before);
        }
    }
}

/// Lets workers finish; ends them after a while, or when a second signal comes.
fn finish(mut workers: Vec<Worker>, grace: Duration, signals: &Receiver<i32>) {
    workers.iter().for_each(|worker| worker.tell(Word::End));
    // A little more than the time that they have themselves.
    let end = Instant::now() + grace + Duration::from_secs(1);
    let moment = Instant::now() + commonhold_terminal::interrupt::MOMENT;
    loop {
        workers.retain_mut(|worker| worker.has_ended().is_none());
        if workers.is_empty() {
            return;
        }
        let signal = wait(signals, Some(end));
        let again = matches!(signal, Some(SIGTERM | SIGINT)) && Instant::now() > moment;
        if again || Instant::now() >= end {
            workers.iter_mut().for_each(Worker::kill);
        }
    }
}
