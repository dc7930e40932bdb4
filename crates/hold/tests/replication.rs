//! Maps over the network, as a user has them: real origins, replicas and relays, each a process
//! that reports when it is ready and ends by a signal.

mod access;
mod hold_journals;
mod holds;
mod journals;
mod prefix;
mod tunnel;
mod waiting;

use crate::support::TestDir;
use crate::support::background::{Background, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SECRET: &str = "what the two of them know\n";

/// A test directory with a map `prices` in a hold `shop`.
fn shop() -> TestDir {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    test_dir
}

/// An origin of `shop prices`, once it listens; where it does.
fn origin(test_dir: &TestDir, options: &[&str]) -> (Background, Vec<String>) {
    let fixed = ["origin", "shop", "prices", "--format", "json"];
    listening(Background::start(test_dir, &[&fixed[..], options].concat()))
}

fn listening(mut origin: Background) -> (Background, Vec<String>) {
    let line = origin.line();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let names = said["listening"].as_array().expect("a list of addresses").iter();
    let names = names.map(|name| name.as_str().expect("an address").to_owned()).collect();
    (origin, names)
}

/// A replica of the origin at `address`, with the map `prices` of hold `to`.
fn follow(test_dir: &TestDir, address: &str, to: &str, options: &[&str]) -> Background {
    let fixed = ["replica", address, to, "prices", "--format", "json"];
    Background::start(test_dir, &[&fixed[..], options].concat())
}

/// Waits until it reports this event.
fn hears(background: &mut Background, event: &str) -> Value {
    loop {
        let line = background.line();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if said["event"] == event {
            return said;
        }
    }
}

/// Waits until the map `prices` of a hold has this pair.
fn sees(test_dir: &TestDir, hold: &str, key: &str, value: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let run = test_dir.run(&["get", hold, "prices", key]);
        if (run.code, run.out.as_str()) == (0, value) {
            return;
        }
        assert!(Instant::now() < end, "{hold} has no {key} = {value}: {run:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends it as systemd does; returns the rest of its output.
fn stop(background: Background) -> String {
    background.signal(Signal::TERM);
    let run = background.end();
    assert_eq!(run.code, 0, "{run:?}");
    run.err
}

#[test]
fn a_replica_has_the_changes_of_its_origin() {
    let test_dir = shop();
    let (first, addresses) = origin(&test_dir, &["--listen", "unix:./sock"]);
    assert_eq!(addresses, ["unix:./sock"]);
    let mode = std::fs::metadata(test_dir.path("sock")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    let said = hears(&mut replica, "ready");
    assert!(said["position"].as_str().expect("a position").ends_with(".0"), "{said}");
    assert_eq!(test_dir.ok(&["get", "copy", "prices", "apple"]), "3");
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    test_dir.ok(&["del", "shop", "prices", "apple"]);
    sees(&test_dir, "copy", "pear", "5");
    until(&test_dir, &["stat", "copy", "prices"], |stat| stat["pairs"] == 1);

    let err = test_dir.fails(3, &["set", "copy", "prices", "pear", "6"]);
    assert!(err.contains("is a replica") && err.contains("write to the origin's map"), "{err}");
    let err = test_dir.fails(3, &["replica", "unix:./sock", "copy", "prices"]);
    assert!(err.contains(&format!("process {}", replica.pid())), "{err}");

    assert_eq!(test_dir.ok(&["get", "copy", "prices", "pear", "--max-age", "1h"]), "5");
    assert_eq!(stop(replica), "");
    let err = stop(first);
    let old = test_dir.fails(3, &["get", "copy", "prices", "pear", "--max-age", "1ms"]);
    assert!(old.contains("must not be older than 1ms"), "{old}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "pear", "--max-age", "1ms"]), "5");
    assert!(err.contains("hold origin: unix:pid "), "{err}");
    assert!(!test_dir.path("sock").exists());
    assert_eq!(test_dir.leftovers(&["shop.hold", "copy.hold"]), Vec::<String>::new());
    assert_eq!(test_dir.ok(&["get", "copy", "prices", "pear"]), "5");
    for hold in ["shop", "copy"] {
        assert_eq!(test_dir.json(&["check", hold])["ok"], true);
    }
}

#[test]
fn stat_shows_who_follows_and_how_far_behind() {
    let test_dir = shop();
    let (first, addresses) = origin(&test_dir, &["--listen", "tcp:0", "--listen", "unix:./sock"]);
    let port = addresses[0].strip_prefix("tcp:127.0.0.1:").expect("the loopback interface");
    assert!(port.parse::<u16>().is_ok_and(|port| port != 0), "{addresses:?}");
    let mut replica = follow(&test_dir, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);

    let caught_up = |stat: &Value| {
        let replica = &stat["origins"][0]["replicas"][0];
        replica["applied"].as_u64().is_some_and(|offset| offset > 0)
    };
    let stat = until(&test_dir, &["stat", "shop", "prices"], caught_up);
    let served = &stat["origins"][0];
    assert_eq!((&served["pid"], &served["map"]), (&json!(first.pid()), &json!("prices")));
    assert_eq!(served["listens"], json!(addresses));
    let behind = &served["replicas"][0];
    assert_eq!((&behind["state"], &behind["lag_bytes"]), (&json!("following"), &json!(0)));
    assert!(behind["peer"].as_str().is_some_and(|peer| peer.starts_with("tcp:127.0.0.1:")));
    assert_eq!((&stat["replica"], &stat["replicas"]), (&json!(false), &json!([])));
    assert_eq!(test_dir.json(&["stat", "shop"])["origins"][0]["pid"], first.pid());
    let text = test_dir.ok(&["stat", "shop"]);
    for part in ["origin of  prices", &addresses[0], "following", "BYTES BEHIND"] {
        assert!(text.contains(part), "no {part} in {text}");
    }

    let applied = |stat: &Value| stat["replicas"][0]["changes"] == 1;
    let stat = until(&test_dir, &["stat", "copy", "prices"], applied);
    let own = &stat["replicas"][0];
    assert_eq!((&own["pid"], &own["origin"]), (&json!(replica.pid()), &json!(addresses[0])));
    assert_eq!((&own["connected"], &own["ready"]), (&json!(true), &json!(true)));
    assert_eq!((&own["synchronisations"], &own["lag_bytes"]), (&json!(1), &json!(0)));
    assert_eq!(stat["replica"], true);
    let text = test_dir.ok(&["stat", "copy", "prices"]);
    for part in ["general, replica", "follows", "0 B, about 0 changes", "received once"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(test_dir.ok(&["list", "copy"]).contains("general, replica"));
    assert_eq!(test_dir.json(&["list", "copy"])[0]["replica"], true);
    stop(replica);
    // After a normal end its reports are gone.
    let stat = until(&test_dir, &["stat", "copy"], |stat| stat["replicas"] == json!([]));
    assert_eq!(stat["maps"][0]["replica"], true);
    stop(first);
}

/// The bytes of the first replica's full sync, and the same over the network.
fn sync_bytes(stat: &Value) -> (u64, u64) {
    let own = &stat["replicas"][0];
    [&own["sync_bytes"], &own["sync_wire_bytes"]].map(|n| n.as_u64().unwrap_or(0)).into()
}

#[test]
fn full_syncs_are_compressed_on_request() {
    let test_dir = shop();
    let value = "7".repeat(5000);
    test_dir.ok(&["set", "shop", "prices", "long", &value]);
    let always = ["--compress", "always"];
    let (first, addresses) = origin(&test_dir, &[&["--listen", "tcp:0"][..], &always].concat());
    for (copy, arguments, is_packed) in [("plain", &[][..], false), ("packed", &always, true)] {
        let mut replica = follow(&test_dir, &addresses[0], copy, arguments);
        hears(&mut replica, "ready");
        assert_eq!(test_dir.ok(&["get", copy, "prices", "long"]).trim_end(), value);
        let stat = until(&test_dir, &["stat", copy, "prices"], |stat| sync_bytes(stat).0 > 0);
        let (bytes, wire) = sync_bytes(&stat);
        assert!(bytes > 5000 && (wire < 2500) == is_packed, "{copy}: {bytes}, {wire}");
        let text = test_dir.ok(&["stat", copy, "prices"]);
        assert_eq!(text.contains("compressed to"), is_packed, "{text}");
        stop(replica);
    }
    stop(first);
}

#[test]
fn internal_names_are_listed_only_on_request() {
    let test_dir = shop();
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    for subcommand in ["list", "stat"] {
        let text = test_dir.ok(&[subcommand, "copy"]);
        assert!(text.contains("prices") && !text.contains(" .") && !text.contains("\n."), "{text}");
        assert!(!test_dir.json(&[subcommand, "copy"]).to_string().contains("\".re"));
        let text = test_dir.ok(&[subcommand, "copy", "--all"]);
        for name in [".reports", ".applied/prices", ".lineage/prices", ".replica/prices"] {
            assert!(text.contains(name), "no {name} in {text}");
        }
    }
    assert_eq!(test_dir.json(&["list", "copy", "--all"]).as_array().map(Vec::len), Some(5));
    assert!(test_dir.ok(&["stat", "copy", ".reports"]).contains("cache of 4s"));
    assert!(test_dir.ok(&["stat", "copy", ".replica/prices"]).contains("channel"));
    assert!(test_dir.ok(&["scan", "copy", ".reports"]).contains("replica prices"));
    test_dir.fails(2, &["stat", "copy", "prices", "--all"]);
    test_dir.fails(2, &["list", "--all"]);
    stop(replica);
    stop(first);
}

#[test]
fn relays_pass_on_what_they_are_sent() {
    let test_dir = shop();
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let relay = |from: &str, hold: &str, to: &str| {
        let args = ["relay", from, hold, "prices", "--listen", to, "--format", "json"];
        let mut relay = Background::start(&test_dir, &args);
        hears(&mut relay, "ready");
        listening(relay).0
    };
    let near = relay("unix:./sock", "near", "unix:./sock1");
    let far = relay("unix:./sock1", "far", "unix:./sock2");
    let mut leaf = follow(&test_dir, "unix:./sock2", "leaf", &[]);
    hears(&mut leaf, "ready");
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    sees(&test_dir, "leaf", "pear", "5");
    let both = |stat: &Value| {
        stat["origins"][0]["replicas"][0]["state"] == "following"
            && stat["replicas"][0]["connected"] == true
    };
    until(&test_dir, &["stat", "near", "prices"], both);
    test_dir.fails(3, &["set", "far", "prices", "pear", "6"]);
    let journal = ["journal", "near", "prices", "./near.journal", "--format", "json"];
    let mut journal = Background::start(&test_dir, &journal);
    hears(&mut journal, "journal");
    test_dir.ok(&["sync", "near", "prices"]);
    stop(journal);
    // The relay continues to serve its map when its own origin is away.
    stop(first);
    let late = follow(&test_dir, "unix:./sock1", "late", &["--once"]).end();
    assert_eq!(late.code, 0, "{late:?}");
    assert_eq!(test_dir.ok(&["get", "late", "prices", "pear"]), "5");
    for background in [leaf, far, near] {
        stop(background);
    }
    assert!(!test_dir.path("sock1").exists() && !test_dir.path("sock2").exists());
}

#[test]
fn a_replica_is_promoted_when_its_origin_is_gone() {
    let test_dir = shop();
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    let mut other = follow(&test_dir, "unix:./sock", "other", &["--also", "unix:./new"]);
    hears(&mut replica, "ready");
    hears(&mut other, "ready");
    until(&test_dir, &["stat", "copy", "prices"], |stat| stat["lag_ms"].is_u64());
    let err = test_dir.fails(3, &["promote", "copy", "prices"]);
    assert!(err.contains(&format!("process {}", replica.pid())), "{err}");
    stop(replica);
    first.signal(Signal::KILL);
    first.end();
    let said = test_dir.json(&["promote", "copy", "prices"]);
    assert_eq!((&said["promoted"], &said["epoch"]), (&json!(true), &json!(2)));
    assert!(said["position"].as_str().is_some_and(|at| at.contains('.')), "{said}");
    let run = test_dir.run(&["promote", "copy", "prices"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("is not a replica"), "{run:?}");
    test_dir.ok(&["set", "copy", "prices", "pear", "5"]);
    let fixed = ["origin", "copy", "prices", "--format", "json", "--listen", "unix:./new"];
    let (second, _) = listening(Background::start(&test_dir, &fixed));
    sees(&test_dir, "other", "pear", "5");
    stop(other);
    // The old origin comes back.
    std::fs::remove_file(test_dir.path("sock")).ok();
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let once = ["replica", "unix:./sock", "other", "prices", "--once"];
    let run = test_dir.run(&[&once[..], &["--timeout", "1s"]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("is an origin of epoch 1"), "{run:?}");
    assert_eq!(test_dir.ok(&["get", "other", "prices", "pear"]), "5");
    test_dir.ok(&[&once[..], &["--adopt"]].concat());
    assert_eq!(test_dir.run(&["get", "other", "prices", "pear"]).code, 1);
    stop(first);
    // It becomes a replica.
    test_dir.ok(&["drop", "shop", "prices", "--yes"]);
    test_dir.ok(&["replica", "unix:./new", "shop", "prices", "--once"]);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "pear"]), "5");
    stop(second);
}

#[test]
fn relays_that_follow_each_other_report_it() {
    let test_dir = shop();
    let relay = |hold: &str, from: &str, to: &str| {
        let args = ["relay", from, hold, "prices", "--listen", to, "--format", "json"];
        Background::start(&test_dir, &args)
    };
    let mut near = relay("near", "unix:./sock2", "unix:./sock1");
    let mut far = relay("far", "unix:./sock1", "unix:./sock2");
    for relay in [&mut near, &mut far] {
        while !hears(relay, "lost")["why"].as_str().expect("a reason").contains("a cycle never") {}
    }
    let err = test_dir.fails(3, &["get", "near", "prices", "apple"]);
    assert!(err.contains("has not received its contents yet"), "{err}");
    assert_eq!(test_dir.json(&["list", "near"])[0]["replica"], true);
    stop(near);
    stop(far);
    test_dir.ok(&["drop", "near", "prices", "--yes"]);
}

#[test]
fn a_copy_is_made_once_and_brought_up_to_date() {
    let test_dir = shop();
    let once = ["replica", "unix:./sock", "./copy.hold", "prices", "--once"];
    let run = test_dir.run(&[&once[..], &["--timeout", "200ms"]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains("timed out before the copy") && run.err.contains("cannot connect"),
        "{run:?}"
    );
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let run = test_dir.run(&once);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{run:?}");
    assert!(
        run.err.starts_with("hold replica: ready: the map has the state of unix:./sock"),
        "{run:?}"
    );
    assert_eq!(test_dir.ok(&["get", "./copy.hold", "prices", "apple"]), "3");
    for round in ["1", "2"] {
        let pairs: String = (0..3000).map(|n| format!("{n},{round}\n")).collect();
        test_dir.file("pairs.csv", pairs);
        test_dir.ok(&["load", "shop", "prices", "pairs.csv", "--quiet"]);
        let run = test_dir.run(&[&once[..], &["--quiet"]].concat());
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
        assert_eq!(test_dir.ok(&["get", "./copy.hold", "prices", "2999"]), round);
    }
    // An existing file at the path is not touched.
    test_dir.ok(&["set", "other", "prices", "apple", "1"]);
    let err = test_dir.fails(3, &["replica", "unix:./sock", "other", "prices", "--once"]);
    assert!(err.contains("is not a replica") && err.contains("drop it first"), "{err}");
    assert_eq!(test_dir.ok(&["get", "other", "prices", "apple"]), "1");
    stop(first);
    let away = follow(&test_dir, "unix:./sock", "away", &["--once"]);
    away.signal(Signal::INT);
    assert!([130, -1].contains(&away.end().code), "a signal is no copy");
}

#[test]
fn only_replicas_with_the_secret_are_served() {
    let test_dir = shop();
    for (name, text) in [("right", SECRET), ("wrong", "what nobody else knows"), ("short", "ab\n")]
    {
        let path = test_dir.file(name, text);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("my file");
    }
    test_dir.file("open", SECRET);
    let secret = |name| ["--listen", "tcp:0", "--secret-file", name];
    for (name, why) in [("short", "16 bytes"), ("open", "chmod 600"), ("none", "No such file")] {
        let err = test_dir.fails(3, &[&["origin", "shop", "prices"][..], &secret(name)].concat());
        assert!(err.contains(why) && err.contains(name), "{err}");
    }
    let (first, addresses) = origin(&test_dir, &secret("right"));
    let address = addresses[0].as_str();
    let mut right = follow(&test_dir, address, "copy", &["--secret-file", "right"]);
    hears(&mut right, "ready");
    for options in [&["--secret-file", "wrong"][..], &[]] {
        let mut wrong = follow(&test_dir, address, "wrong", options);
        hears(&mut wrong, "lost");
        stop(wrong);
        let err = test_dir.fails(3, &["get", "wrong", "prices", "apple"]);
        let unready = err.contains("has not received its contents yet");
        assert!(unready, "it was sent nothing: {err}");
    }
    assert_eq!(test_dir.ok(&["get", "copy", "prices", "apple"]), "3");
    stop(right);
    let err = stop(first);
    assert!(err.contains("does not know the secret"), "{err}");
}

#[test]
fn a_replica_resumes_when_its_origin_is_killed_and_restarted() {
    let test_dir = shop();
    let listen = ["--listen", "unix:./sock"];
    let (first, _) = origin(&test_dir, &listen);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    first.kill();
    hears(&mut replica, "lost");
    assert!(test_dir.path("sock").exists(), "the dead one could not remove it");
    assert_eq!(test_dir.ok(&["get", "copy", "prices", "apple"]), "3");
    test_dir.ok(&["set", "shop", "prices", "apple", "4"]);
    let (second, _) = origin(&test_dir, &listen);
    hears(&mut replica, "ready");
    sees(&test_dir, "copy", "apple", "4");
    let stat = until(&test_dir, &["stat", "copy", "prices"], |stat| {
        stat["replicas"][0]["connections"] == 2 && stat["replicas"][0]["changes"] == 1
    });
    assert_eq!(stat["replicas"][0]["synchronisations"], 1, "it went on from where it was");
    // So does a replica that is killed itself.
    replica.kill();
    test_dir.ok(&["set", "shop", "prices", "apple", "5"]);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    sees(&test_dir, "copy", "apple", "5");
    assert_eq!(test_dir.json(&["check", "copy"])["ok"], true);
    stop(replica);
    stop(second);
}

/// The origin as systemd starts it: with a socket that listens, as descriptor 3.
fn activated(test_dir: &TestDir, socket: OwnedFd, options: &[&str]) -> Command {
    let fixed = ["origin", "shop", "prices", "--format", "json"];
    let plain = test_dir.command(&[&fixed[..], options].concat());
    let mut command = Command::new("sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    command.args(["-c", script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(test_dir.path("")).env("COMMONHOLD_DIR", test_dir.path(""));
    command.stdin(Stdio::from(socket));
    command
}

#[test]
fn sockets_may_be_handed_over() {
    let test_dir = shop();
    let path = test_dir.path("sock");
    let unix = UnixListener::bind(&path).expect("a socket");
    let (first, addresses) = listening(Background::run(activated(
        &test_dir,
        unix.try_clone().expect("a copy").into(),
        &[],
    )));
    let address = format!("unix:{}", path.display());
    assert_eq!(addresses, [address.as_str()]);
    let run = follow(&test_dir, &address, "copy", &["--once"]).end();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(test_dir.ok(&["get", "copy", "prices", "apple"]), "3");
    stop(first);
    // It belongs to its creator, which may pass it to the next process.
    assert!(std::fs::metadata(&path).expect("still there").file_type().is_socket());
    let mut early = follow(&test_dir, &address, "early", &[]);
    let (second, _) = listening(Background::run(activated(&test_dir, unix.into(), &[])));
    hears(&mut early, "ready");
    stop(early);
    stop(second);

    let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = format!("tcp:{}", tcp.local_addr().expect("its address"));
    let (third, addresses) = listening(Background::run(activated(&test_dir, tcp.into(), &[])));
    assert_eq!(addresses, [address.as_str()]);
    let run = follow(&test_dir, &address, "again", &["--once"]).end();
    assert_eq!(run.code, 0, "{run:?}");
    stop(third);

    let file = std::fs::File::open("/dev/null").expect("a file");
    let run = Background::run(activated(&test_dir, file.into(), &[])).end();
    assert!(run.code == 3 && run.err.contains("neither a unix nor a TCP"), "{run:?}");
    let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let run = Background::run(activated(&test_dir, one.into(), &[])).end();
    assert!(run.code == 3 && run.err.contains("Accept=no"), "{run:?}");
}

#[test]
fn ways_of_serving_may_be_chosen() {
    let test_dir = shop();
    let own = rustix::process::getuid().as_raw();
    let (own, other) = (own.to_string(), (own + 1).to_string());
    for kind in ["epoll", "pool", "uring"] {
        let served = ["--listen", "unix:./sock", "--loop", kind, "--io-threads", "2"];
        let more = ["--watermark", "64K", "--delay", "1ms", "--allow-uid", &own];
        let (first, _) = origin(&test_dir, &[&served[..], &more].concat());
        let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
        hears(&mut replica, "ready");
        test_dir.ok(&["set", "shop", "prices", "kind", kind]);
        sees(&test_dir, "copy", "kind", kind);
        stop(replica);
        stop(first);
    }
    let limits = ["--listen", "unix:./sock", "--allow-uid", &other];
    let (first, _) = origin(&test_dir, &limits);
    let mut refused = follow(&test_dir, "unix:./sock", "refused", &[]);
    hears(&mut refused, "lost");
    stop(refused);
    let err = stop(first);
    assert!(err.contains("refused: its process belongs to user"), "{err}");
}

#[test]
fn maps_that_cannot_be_served_or_followed_are_errors() {
    let test_dir = shop();
    let err = test_dir.fails(2, &["origin", "shop", "prices"]);
    assert!(err.contains("--listen unix:") && err.contains("systemd"), "{err}");
    let err = test_dir.fails(2, &["origin", "shop", "prices", "--listen", "/run/sock"]);
    assert!(err.contains("expected an address (unix:PATH, HOST:PORT"), "{err}");
    test_dir.fails(2, &["replica", "sock", "copy", "prices"]);
    test_dir.fails(2, &["replica", "unix:./sock", "copy", "prices", "--timeout", "1s"]);
    test_dir.fails(2, &["origin", "shop", "prices", "--listen", "tcp:0", "--delay", "1ms"]);
    test_dir.fails(2, &["origin", "shop", "prices", "--listen", "tcp:0", "--format", "csv"]);
    let err = test_dir.fails(3, &["origin", "shop", "pears", "--listen", "tcp:0"]);
    assert!(err.contains("no map 'pears'"), "{err}");
    let err = test_dir.fails(3, &["origin", "none", "prices", "--listen", "tcp:0"]);
    assert!(err.contains("this hold does not exist"), "{err}");
    let err = test_dir.fails(3, &["replica", "tcp:0", "copy", &"x".repeat(201), "--once"]);
    assert!(err.contains("1 to 200 bytes"), "{err}");
    assert!(!test_dir.path("copy.hold").exists(), "nothing was made");

    let (first, addresses) = origin(&test_dir, &["--listen", "unix:./sock", "--listen", "tcp:0"]);
    for address in &addresses {
        let err = test_dir.fails(3, &["origin", "shop", "prices", "--listen", address]);
        assert!(err.contains(address) && err.contains("in use"), "{err}");
    }
    assert!(test_dir.path("sock").exists(), "whose it is keeps it");
    let err = stop(first);
    assert!(err.contains("--secret-file"), "tcp without a secret is told: {err}");
}

#[test]
fn a_deleted_map_or_hold_ends_its_origin() {
    let test_dir = shop();
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &[]);
    let mut other = follow(&test_dir, "unix:./sock", "other", &[]);
    hears(&mut replica, "ready");
    hears(&mut other, "ready");
    test_dir.ok(&["drop", "copy", "prices", "--yes"]);
    test_dir.ok(&["drop", "other", "--force"]);
    test_dir.ok(&["drop", "shop", "prices", "--yes"]);
    for (background, why) in [
        (replica, "map prices was dropped"),
        (other, "deleted or replaced"),
        (first, "map prices was dropped"),
    ] {
        let run = background.end();
        assert!(run.code == 3 && run.err.contains(why), "{run:?}");
    }
    assert!(!test_dir.path("sock").exists());
}

#[test]
fn a_replica_is_compared_with_its_origin() {
    let test_dir = shop();
    let (first, addresses) = origin(&test_dir, &["--listen", "tcp:0"]);
    let mut replica = follow(&test_dir, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    let same = test_dir.ok(&["verify", &addresses[0], "copy", "prices"]);
    assert!(same.contains("1 pair, digest ") && same.contains(&addresses[0]), "{same}");
    let said = test_dir.json(&["verify", &addresses[0], "copy", "prices"]);
    assert_eq!((&said["equal"], &said["different"]), (&json!(true), &json!(0)), "{said}");
    let err = test_dir.fails(3, &["verify", &addresses[0], "shop", "prices"]);
    assert!(err.contains("is not a replica"), "{err}");
    stop(replica);
    stop(first);
}
