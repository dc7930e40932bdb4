//! The tunnel of docs/operations/security.md: its texts, run as they are printed there, with the
//! paths and ports of the test.

use super::{hears, listening, sees, shop, stop};
use crate::support::TestDir;
use crate::support::background::{Background, until};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/security.md");
const SECTION: &str = "### TLS with stunnel";

/// Whether the programs are installed. In CI, a missing one is a failure; elsewhere a line reports
/// that nothing was tested.
fn are_here() -> bool {
    let runs = |(program, option): &(&str, &str)| {
        let mut command = Command::new(program);
        command.arg(option).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let needed = [("stunnel", "-version"), ("openssl", "version")];
    let Some((missing, _)) = needed.iter().find(|program| !runs(program)) else { return true };
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!in_ci, "missing in CI: {missing}");
    let text = format!("\n*** SKIPPED: replication through a TLS tunnel: no {missing} here\n");
    // Past libtest's capture, so that it is seen although the test passes.
    writeln!(std::io::stderr(), "{text}").expect("standard error takes a line");
    false
}

/// The fenced blocks of the section in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let section = page.split_once(SECTION).expect("the section").1;
    let section = section.split("\n## ").next().expect("its text");
    let fenced = section.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| Some(block.strip_prefix(language)?.trim_start().into())).collect()
}

/// The texts of the page, with the paths and ports of the test.
struct Recipe {
    certificates: String,
    /// The lines of the shell on the two machines.
    commands: [String; 2],
    /// The files of stunnel on the two machines.
    files: [String; 2],
    /// The port between the two machines.
    port: u16,
}

impl Recipe {
    fn of(test_dir: &TestDir) -> Recipe {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let [near, port] = [(); 2].map(|()| free().expect("a port").port());
        let replaced = [
            ("/etc/stunnel/", test_dir.path("").display().to_string()),
            ("/run/commonhold/", test_dir.path("").display().to_string()),
            ("0.0.0.0:7443", format!("127.0.0.1:{port}")),
            ("origin.example:7443", format!("127.0.0.1:{port}")),
            ("127.0.0.1:7400", format!("127.0.0.1:{near}")),
            ("tcp:7400", format!("tcp:{near}")),
        ];
        let [certificates, first, second] = blocks("sh").try_into().expect("three scripts");
        let mut texts = [first, second]
            .into_iter()
            .chain(blocks("ini"))
            .map(|text| replaced.iter().fold(text, |text, (from, to)| text.replace(from, to)));
        let mut two = || [(); 2].map(|()| texts.next().expect("two scripts and two files"));
        Recipe { certificates, commands: two(), files: two(), port }
    }

    /// `hold` of one of the machines, with the arguments on the page.
    fn hold(&self, test_dir: &TestDir, machine: usize) -> Background {
        let line = self.commands[machine].lines().find_map(|line| line.strip_prefix("hold "));
        let arguments = line.expect("a line with hold").split_whitespace();
        let arguments: Vec<&str> = arguments.chain(["--format", "json"]).collect();
        Background::start(test_dir, &arguments)
    }

    /// stunnel of one of the machines.
    fn stunnel(&self, test_dir: &TestDir, machine: usize) -> Tunnel {
        let path = test_dir.file(&format!("{machine}.conf"), &self.files[machine]);
        let log = File::create(test_dir.path(&format!("{machine}.log"))).expect("a log");
        let mut command = Command::new("stunnel");
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Tunnel(command.spawn().expect("stunnel starts"))
    }

    /// A client of the origin's end of the tunnel, with these options, until it ends.
    fn client(&self, test_dir: &TestDir, options: &[&str]) -> Output {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-CAfile", "ca.pem", "-connect"]);
        command.arg(format!("127.0.0.1:{}", self.port)).args(options);
        command.current_dir(test_dir.path("")).stdin(Stdio::null());
        command.output().expect("openssl starts")
    }
}

/// stunnel; ends with the test.
struct Tunnel(Child);

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the script with the certificates in a directory.
fn certify(script: &str, test_dir: &TestDir, directory: &str) {
    let directory = test_dir.path(directory);
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut command = Command::new("sh");
    let output = command.args(["-ec", script]).current_dir(directory).output().expect("sh starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_replica_follows_through_the_tunnel_of_the_page() {
    if !are_here() {
        return;
    }
    let test_dir = shop();
    let recipe = Recipe::of(&test_dir);
    certify(&recipe.certificates, &test_dir, "");
    let (origin, _) = listening(recipe.hold(&test_dir, 0));
    let tunnels = [0, 1].map(|machine| recipe.stunnel(&test_dir, machine));
    let mut replica = recipe.hold(&test_dir, 1);
    hears(&mut replica, "ready");
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    sees(&test_dir, "copy", "pear", "5");
    let pairs = |hold: &str| {
        let text = test_dir.ok(&["scan", hold, "prices"]);
        text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert_eq!(pairs("copy"), pairs("shop"));

    // Only a certificate of this authority opens the tunnel.
    certify(&recipe.certificates, &test_dir, "other");
    let other = ["-cert", "other/replica.example.pem", "-key", "other/replica.example.key"];
    for (options, alert) in [(&[][..], "certificate required"), (&other[..], "unknown ca")] {
        let output = recipe.client(&test_dir, options);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.contains("alert") && err.contains(alert), "{alert}: {err}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }

    // It resumes behind a tunnel that was killed and started again.
    drop(tunnels);
    hears(&mut replica, "lost");
    test_dir.ok(&["set", "shop", "prices", "plum", "7"]);
    let _tunnels = [0, 1].map(|machine| recipe.stunnel(&test_dir, machine));
    hears(&mut replica, "ready");
    sees(&test_dir, "copy", "plum", "7");
    assert_eq!(pairs("copy"), pairs("shop"));
    until(&test_dir, &["stat", "copy", "prices"], |stat| {
        let replica = &stat["replicas"][0];
        replica["synchronisations"] == 1 && replica["connections"].as_u64() > Some(1)
    });
    stop(replica);
    stop(origin);
}
