//! `hold-nats` as a process, and a hold of its own for each side.

use crate::server::eventually;
use commonhold::Hold;
use commonhold::map::Map;
use commonhold_io::reports::reports;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A hold of a test, in memory.
pub struct Place {
    directory: TempDir,
    pub hold: Hold,
}

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::Builder::new().prefix("hold-nats-").tempdir_in("/dev/shm");
        let directory = directory.unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        Place { directory, hold }
    }

    pub fn path(&self) -> String {
        self.hold.path().to_str().unwrap().to_owned()
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// The map, once it has contents.
    pub fn map(&self, name: &str) -> Map {
        eventually(&format!("map {name} exists"), || self.hold.maps().open(name).is_ok());
        self.hold.maps().open(name).unwrap()
    }

    /// The report of the bridge of this map that lives; one that was killed stays for a while.
    pub fn report(&self, map: &str) -> Option<Value> {
        let all = reports(&self.hold).unwrap();
        let all = all.into_iter().filter(|report| report.what == "bridge" && report.map == map);
        let lives = |says: &Value| Path::new(&format!("/proc/{}", says["pid"])).exists();
        all.map(|report| report.says).find(lives)
    }
}

/// All pairs of a map.
pub fn pairs(map: &Map) -> Pairs {
    map.iter().map(Result::unwrap).collect()
}

fn command(servers: &str, args: &[&str]) -> Command {
    // It dies with the test.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_hold-nats")]).args(args);
    command.env("NATS_URL", servers).env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::null());
    command
}

/// Runs a subcommand to its end.
pub fn run(servers: &str, args: &[&str]) -> Output {
    command(servers, args).output().unwrap()
}

/// Runs a subcommand that must end with this exit code; returns what it printed.
#[track_caller]
pub fn ends(servers: &str, args: &[&str], code: i32) -> String {
    let output = run(servers, args);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    text
}

/// A bridge that runs.
pub struct Bridge {
    child: Child,
    log: PathBuf,
}

impl Bridge {
    /// Starts one; its output goes to a file next to the hold.
    pub fn start(place: &Place, servers: &str, args: &[&str]) -> Bridge {
        let log = place.log().with_extension(args[0]);
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = command(servers, args);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Bridge { child: command.spawn().unwrap(), log }
    }

    pub fn mirror(place: &Place, servers: &str, bucket: &str, map: &str) -> Bridge {
        let path = place.path();
        Bridge::start(place, servers, &["mirror", bucket, &path, map, "--poll", "200ms"])
    }

    pub fn publish(place: &Place, servers: &str, map: &str, bucket: &str) -> Bridge {
        Bridge::start(place, servers, &["publish", &place.path(), map, bucket])
    }

    pub fn send(place: &Place, servers: &str, channel: &str, subject: &str) -> Bridge {
        Bridge::start(place, servers, &["send", &place.path(), channel, subject])
    }

    /// Receives with a short time until the server delivers again.
    pub fn receive(place: &Place, servers: &str, subject: &str, more: &[&str]) -> Bridge {
        let path = place.path();
        let args = [&["receive", subject, &path][..], more, &["--ack-wait", "500ms"]].concat();
        Bridge::start(place, servers, &args)
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself; returns its exit code.
    pub fn code(mut self) -> Option<i32> {
        eventually("the bridge has ended", || self.child.try_wait().unwrap().is_some());
        self.child.try_wait().unwrap().unwrap().code()
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn stop(self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.code()
    }

    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
