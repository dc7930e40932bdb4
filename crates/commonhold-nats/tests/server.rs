//! `nats-server` on the loopback interface, with a directory of its own. It ends with the test: by
//! its own process id, and by `setpriv --pdeathsig` if the test is killed.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take on a loaded machine.
pub const LONG: Duration = Duration::from_secs(90);

/// Waits until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "not so after {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program; `None`, with a message, if it is missing outside of CI.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push("/usr/sbin".into());
    let found = places.iter().map(|place| place.join("nats-server")).find(|file| file.is_file());
    if found.is_none() {
        let missing = "nats-server is not installed: apt-get install nats-server";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        eprintln!("{missing}");
    }
    found
}

/// A port that no outgoing connection of this machine gets.
fn port() -> u16 {
    fastrand::u16(20_000..32_000)
}

/// One server, which can be killed and started again.
pub struct Server {
    directory: TempDir,
    program: PathBuf,
    port: u16,
    child: RefCell<Option<Child>>,
}

impl Server {
    /// Starts one; `None` if the program is missing.
    pub fn start() -> Option<Server> {
        Server::start_with("", "")
    }

    /// The same with more lines in its configuration, and in the part about JetStream.
    pub fn start_with(lines: &str, js: &str) -> Option<Server> {
        let program = program()?;
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server { directory, program, port: 0, child: None.into() };
        // Another program may have the port.
        for _ in 0..20 {
            server.port = port();
            server.configure(lines, js);
            if server.try_run() {
                return Some(server);
            }
        }
        panic!("nats-server did not start:\n{}", server.log());
    }

    fn configure(&self, lines: &str, js: &str) {
        let store = self.directory.path().join("store");
        let text = format!(
            "listen: 127.0.0.1:{}\njetstream {{\nstore_dir: \"{}\"\n{js}\n}}\n{lines}\n",
            self.port,
            store.display()
        );
        fs::write(self.directory.path().join("conf"), text).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts the process and waits until it listens; false if it ended. Its own log shows that: a
    /// server of another test may have the port.
    fn try_run(&self) -> bool {
        let before = self.log().len();
        let mut child = spawn(&self.program, self.directory.path());
        let begun = Instant::now();
        while !self.log()[before..].contains("Listening for client connections") {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < LONG, "nats-server does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        *self.child.borrow_mut() = Some(child);
        true
    }

    /// Starts it again on its port, after a kill.
    pub fn run_again(&self) {
        assert!(self.try_run(), "nats-server did not start again:\n{}", self.log());
    }

    /// Kills it, without a chance to write anything.
    pub fn kill(&self) {
        if let Some(mut child) = self.child.borrow_mut().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends it by a signal, so that it writes what it has acknowledged.
    pub fn end(&self) {
        if let Some(mut child) = self.child.borrow_mut().take() {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            child.wait().unwrap();
        }
    }

    /// Copies the messages of a stream. The server must have ended.
    pub fn save_messages(&self, stream: &str) {
        let saved = self.directory.path().join("saved");
        copy_files(&self.messages(stream), &saved);
    }

    /// Puts the copy back, so that the stream loses its later messages, as it may in a crash. All
    /// else stays. The server must have ended.
    pub fn restore_messages(&self, stream: &str) {
        let messages = self.messages(stream);
        fs::remove_dir_all(&messages).unwrap();
        copy_files(&self.directory.path().join("saved"), &messages);
    }

    fn messages(&self, stream: &str) -> PathBuf {
        let streams = self.directory.path().join("store/jetstream/$G/streams");
        streams.join(stream).join("msgs")
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn spawn(program: &Path, directory: &Path) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.arg("--config").arg(directory.join("conf"));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().expect("setpriv, of the package util-linux")
}

/// Three servers that keep everything together.
pub struct Cluster {
    servers: Vec<(TempDir, RefCell<Option<Child>>)>,
    ports: Vec<u16>,
}

impl Cluster {
    /// Starts three; `None` if the program is missing.
    pub fn start() -> Option<Cluster> {
        let program = program()?;
        for _ in 0..10 {
            let base = port();
            let ports: Vec<u16> = (0..3).map(|number| base + number).collect();
            let servers: Vec<_> = (0..3).map(|number| member(&program, number, base)).collect();
            let cluster = Cluster { servers, ports };
            std::thread::sleep(Duration::from_millis(500));
            // A server ends at once if another program has its port.
            let lives = |(_, child): &(TempDir, RefCell<Option<Child>>)| {
                let mut child = child.borrow_mut();
                child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
            };
            if cluster.servers.iter().all(lives) {
                return Some(cluster);
            }
        }
        panic!("no three servers started");
    }

    pub fn urls(&self) -> String {
        let urls: Vec<_> =
            self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        urls.join(",")
    }

    /// Kills the server of this name.
    pub fn kill(&self, name: &str) {
        let number: usize = name.strip_prefix('n').unwrap().parse().unwrap();
        let mut child = self.servers[number].1.borrow_mut().take().expect("a server that lives");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a killed server again.
    pub fn run_again(&self, name: &str) {
        let number: usize = name.strip_prefix('n').unwrap().parse().unwrap();
        let (directory, child) = &self.servers[number];
        *child.borrow_mut() = Some(spawn(&program().unwrap(), directory.path()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, child) in &self.servers {
            if let Some(mut child) = child.borrow_mut().take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn member(program: &Path, number: u16, base: u16) -> (TempDir, RefCell<Option<Child>>) {
    let directory = tempfile::tempdir().unwrap();
    let routes: Vec<_> =
        (0..3).map(|other| format!("nats-route://127.0.0.1:{}", base + 10 + other)).collect();
    let text = format!(
        "server_name: n{number}\nlisten: 127.0.0.1:{}\njetstream {{ store_dir: \"{}\" }}\n\
         cluster {{ name: c, listen: \"127.0.0.1:{}\", routes: [{}] }}\n",
        base + number,
        directory.path().join("store").display(),
        base + 10 + number,
        routes.join(", ")
    );
    fs::write(directory.path().join("conf"), text).unwrap();
    let child = spawn(program, directory.path());
    (directory, Some(child).into())
}
