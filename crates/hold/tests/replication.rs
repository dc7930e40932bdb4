//! Maps over the network, as a user has them: real origins, replicas and relays, each a process
//! that reports when it is ready and ends by a signal.

use crate::support::Ground;
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

/// Ground with a map `prices` in a hold `shop`.
fn shop() -> Ground {
    let ground = Ground::new();
    ground.ok(&["set", "shop", "prices", "apple", "3"]);
    ground
}

/// An origin of `shop prices`, once it listens; where it does.
fn origin(ground: &Ground, options: &[&str]) -> (Background, Vec<String>) {
    let fixed = ["origin", "shop", "prices", "--format", "json"];
    listening(Background::start(ground, &[&fixed[..], options].concat()))
}

fn listening(mut origin: Background) -> (Background, Vec<String>) {
    let line = origin.line();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let names = said["listening"].as_array().expect("a list of addresses").iter();
    let names = names.map(|name| name.as_str().expect("an address").to_owned()).collect();
    (origin, names)
}

/// A replica of the origin at `address`, with the map `prices` of hold `to`.
fn follow(ground: &Ground, address: &str, to: &str, options: &[&str]) -> Background {
    let fixed = ["replica", address, to, "prices", "--format", "json"];
    Background::start(ground, &[&fixed[..], options].concat())
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
fn sees(ground: &Ground, hold: &str, key: &str, value: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let run = ground.run(&["get", hold, "prices", key]);
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
    let ground = shop();
    let (first, addresses) = origin(&ground, &["--listen", "unix:./sock"]);
    assert_eq!(addresses, ["unix:./sock"]);
    let mode = std::fs::metadata(ground.path("sock")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
    let said = hears(&mut replica, "ready");
    assert!(said["position"].as_str().expect("a position").ends_with(".0"), "{said}");
    assert_eq!(ground.ok(&["get", "copy", "prices", "apple"]), "3");
    ground.ok(&["set", "shop", "prices", "pear", "5"]);
    ground.ok(&["del", "shop", "prices", "apple"]);
    sees(&ground, "copy", "pear", "5");
    until(&ground, &["stat", "copy", "prices"], |stat| stat["pairs"] == 1);

    let err = ground.fails(3, &["set", "copy", "prices", "pear", "6"]);
    assert!(err.contains("is a replica") && err.contains("write at the origin"), "{err}");
    let err = ground.fails(3, &["replica", "unix:./sock", "copy", "prices"]);
    assert!(err.contains(&format!("process {}", replica.pid())), "{err}");

    assert_eq!(stop(replica), "");
    let err = stop(first);
    assert!(err.contains("hold origin: unix:pid "), "{err}");
    assert!(!ground.path("sock").exists());
    assert_eq!(ground.leftovers(&["shop.hold", "copy.hold"]), Vec::<String>::new());
    assert_eq!(ground.ok(&["get", "copy", "prices", "pear"]), "5");
    for hold in ["shop", "copy"] {
        assert_eq!(ground.json(&["check", hold])["ok"], true);
    }
}

#[test]
fn stat_shows_who_follows_and_how_far_behind() {
    let ground = shop();
    let (first, addresses) = origin(&ground, &["--listen", "tcp:0", "--listen", "unix:./sock"]);
    let port = addresses[0].strip_prefix("tcp:127.0.0.1:").expect("the loopback interface");
    assert!(port.parse::<u16>().is_ok_and(|port| port != 0), "{addresses:?}");
    let mut replica = follow(&ground, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    ground.ok(&["set", "shop", "prices", "pear", "5"]);

    let caught_up = |stat: &Value| {
        let replica = &stat["origins"][0]["replicas"][0];
        replica["applied"].as_u64().is_some_and(|offset| offset > 0)
    };
    let stat = until(&ground, &["stat", "shop", "prices"], caught_up);
    let served = &stat["origins"][0];
    assert_eq!((&served["pid"], &served["map"]), (&json!(first.pid()), &json!("prices")));
    assert_eq!(served["listens"], json!(addresses));
    let behind = &served["replicas"][0];
    assert_eq!((&behind["state"], &behind["lag_bytes"]), (&json!("following"), &json!(0)));
    assert!(behind["peer"].as_str().is_some_and(|peer| peer.starts_with("tcp:127.0.0.1:")));
    assert_eq!((&stat["replica"], &stat["replicas"]), (&json!(false), &json!([])));
    assert_eq!(ground.json(&["stat", "shop"])["origins"][0]["pid"], first.pid());
    let text = ground.ok(&["stat", "shop"]);
    for part in ["origin of  prices", &addresses[0], "following", "BYTES BEHIND"] {
        assert!(text.contains(part), "no {part} in {text}");
    }

    let applied = |stat: &Value| stat["replicas"][0]["changes"] == 1;
    let stat = until(&ground, &["stat", "copy", "prices"], applied);
    let own = &stat["replicas"][0];
    assert_eq!((&own["pid"], &own["origin"]), (&json!(replica.pid()), &json!(addresses[0])));
    assert_eq!((&own["connected"], &own["ready"]), (&json!(true), &json!(true)));
    assert_eq!((&own["synchronisations"], &own["lag_bytes"]), (&json!(1), &json!(0)));
    assert_eq!(stat["replica"], true);
    let text = ground.ok(&["stat", "copy", "prices"]);
    for part in ["general, replica", "follows", "0 B, about 0 changes", "received once"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(ground.ok(&["list", "copy"]).contains("general, replica"));
    assert_eq!(ground.json(&["list", "copy"])[0]["replica"], true);
    stop(replica);
    // After a normal end its reports are gone.
    let stat = until(&ground, &["stat", "copy"], |stat| stat["replicas"] == json!([]));
    assert_eq!(stat["maps"][0]["replica"], true);
    stop(first);
}

#[test]
fn internal_names_are_listed_only_on_request() {
    let ground = shop();
    let (first, _) = origin(&ground, &["--listen", "unix:./sock"]);
    let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    for subcommand in ["list", "stat"] {
        let text = ground.ok(&[subcommand, "copy"]);
        assert!(text.contains("prices") && !text.contains(" .") && !text.contains("\n."), "{text}");
        assert!(!ground.json(&[subcommand, "copy"]).to_string().contains("\".re"));
        let text = ground.ok(&[subcommand, "copy", "--all"]);
        for name in [".reports", ".applied/prices", ".replica/prices"] {
            assert!(text.contains(name), "no {name} in {text}");
        }
    }
    assert_eq!(ground.json(&["list", "copy", "--all"]).as_array().map(Vec::len), Some(4));
    assert!(ground.ok(&["stat", "copy", ".reports"]).contains("cache of 4s"));
    assert!(ground.ok(&["stat", "copy", ".replica/prices"]).contains("channel"));
    assert!(ground.ok(&["scan", "copy", ".reports"]).contains("replica prices"));
    ground.fails(2, &["stat", "copy", "prices", "--all"]);
    ground.fails(2, &["list", "--all"]);
    stop(replica);
    stop(first);
}

#[test]
fn relays_pass_on_what_they_are_sent() {
    let ground = shop();
    let (first, _) = origin(&ground, &["--listen", "unix:./sock"]);
    let relay = |from: &str, hold: &str, to: &str| {
        let args = ["relay", from, hold, "prices", "--listen", to, "--format", "json"];
        let mut relay = Background::start(&ground, &args);
        hears(&mut relay, "ready");
        listening(relay).0
    };
    let near = relay("unix:./sock", "near", "unix:./sock1");
    let far = relay("unix:./sock1", "far", "unix:./sock2");
    let mut leaf = follow(&ground, "unix:./sock2", "leaf", &[]);
    hears(&mut leaf, "ready");
    ground.ok(&["set", "shop", "prices", "pear", "5"]);
    sees(&ground, "leaf", "pear", "5");
    let both = |stat: &Value| {
        stat["origins"][0]["replicas"][0]["state"] == "following"
            && stat["replicas"][0]["connected"] == true
    };
    until(&ground, &["stat", "near", "prices"], both);
    ground.fails(3, &["set", "far", "prices", "pear", "6"]);
    // The relay continues to serve its map when its own origin is away.
    stop(first);
    let late = follow(&ground, "unix:./sock1", "late", &["--once"]).end();
    assert_eq!(late.code, 0, "{late:?}");
    assert_eq!(ground.ok(&["get", "late", "prices", "pear"]), "5");
    for background in [leaf, far, near] {
        stop(background);
    }
    assert!(!ground.path("sock1").exists() && !ground.path("sock2").exists());
}

#[test]
fn a_copy_is_made_once_and_brought_up_to_date() {
    let ground = shop();
    let once = ["replica", "unix:./sock", "./copy.hold", "prices", "--once"];
    let run = ground.run(&[&once[..], &["--timeout", "200ms"]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("no copy in time") && run.err.contains("cannot connect"), "{run:?}");
    let (first, _) = origin(&ground, &["--listen", "unix:./sock"]);
    let run = ground.run(&once);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{run:?}");
    assert!(
        run.err.starts_with("hold replica: ready: the map has the state of unix:./sock"),
        "{run:?}"
    );
    assert_eq!(ground.ok(&["get", "./copy.hold", "prices", "apple"]), "3");
    for round in ["1", "2"] {
        let pairs: String = (0..3000).map(|n| format!("{n},{round}\n")).collect();
        ground.file("pairs.csv", pairs);
        ground.ok(&["load", "shop", "prices", "pairs.csv", "--quiet"]);
        let run = ground.run(&[&once[..], &["--quiet"]].concat());
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
        assert_eq!(ground.ok(&["get", "./copy.hold", "prices", "2999"]), round);
    }
    // An existing file at the path is not touched.
    ground.ok(&["set", "other", "prices", "apple", "1"]);
    let err = ground.fails(3, &["replica", "unix:./sock", "other", "prices", "--once"]);
    assert!(err.contains("is not a replica") && err.contains("drop it first"), "{err}");
    assert_eq!(ground.ok(&["get", "other", "prices", "apple"]), "1");
    stop(first);
    let away = follow(&ground, "unix:./sock", "away", &["--once"]);
    away.signal(Signal::INT);
    assert!([130, -1].contains(&away.end().code), "a signal is no copy");
}

#[test]
fn only_replicas_with_the_secret_are_served() {
    let ground = shop();
    for (name, text) in [("right", SECRET), ("wrong", "what nobody else knows"), ("short", "ab\n")]
    {
        let path = ground.file(name, text);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("my file");
    }
    ground.file("open", SECRET);
    let secret = |name| ["--listen", "tcp:0", "--secret-file", name];
    for (name, why) in [("short", "16 bytes"), ("open", "chmod 600"), ("none", "No such file")] {
        let err = ground.fails(3, &[&["origin", "shop", "prices"][..], &secret(name)].concat());
        assert!(err.contains(why) && err.contains(name), "{err}");
    }
    let (first, addresses) = origin(&ground, &secret("right"));
    let address = addresses[0].as_str();
    let mut right = follow(&ground, address, "copy", &["--secret-file", "right"]);
    hears(&mut right, "ready");
    for options in [&["--secret-file", "wrong"][..], &[]] {
        let mut wrong = follow(&ground, address, "wrong", options);
        hears(&mut wrong, "lost");
        stop(wrong);
        let err = ground.fails(3, &["get", "wrong", "prices", "apple"]);
        assert!(err.contains("no map"), "it was sent nothing: {err}");
    }
    assert_eq!(ground.ok(&["get", "copy", "prices", "apple"]), "3");
    stop(right);
    let err = stop(first);
    assert!(err.contains("does not know the secret"), "{err}");
}

#[test]
fn a_replica_resumes_when_its_origin_is_killed_and_restarted() {
    let ground = shop();
    let listen = ["--listen", "unix:./sock"];
    let (first, _) = origin(&ground, &listen);
    let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    first.kill();
    hears(&mut replica, "lost");
    assert!(ground.path("sock").exists(), "the dead one could not remove it");
    assert_eq!(ground.ok(&["get", "copy", "prices", "apple"]), "3");
    ground.ok(&["set", "shop", "prices", "apple", "4"]);
    let (second, _) = origin(&ground, &listen);
    hears(&mut replica, "ready");
    sees(&ground, "copy", "apple", "4");
    let stat = until(&ground, &["stat", "copy", "prices"], |stat| {
        stat["replicas"][0]["connections"] == 2 && stat["replicas"][0]["changes"] == 1
    });
    assert_eq!(stat["replicas"][0]["synchronisations"], 1, "it went on from where it was");
    // So does a replica that is killed itself.
    replica.kill();
    ground.ok(&["set", "shop", "prices", "apple", "5"]);
    let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
    hears(&mut replica, "ready");
    sees(&ground, "copy", "apple", "5");
    assert_eq!(ground.json(&["check", "copy"])["ok"], true);
    stop(replica);
    stop(second);
}

/// The origin as systemd starts it: with a socket that listens, as descriptor 3.
fn activated(ground: &Ground, socket: OwnedFd) -> Command {
    let plain = ground.command(&["origin", "shop", "prices", "--format", "json"]);
    let mut command = Command::new("sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    command.args(["-c", script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(ground.path("")).env("COMMONHOLD_DIR", ground.path(""));
    command.stdin(Stdio::from(socket));
    command
}

#[test]
fn sockets_may_be_handed_over() {
    let ground = shop();
    let path = ground.path("sock");
    let unix = UnixListener::bind(&path).expect("a socket");
    let (first, addresses) =
        listening(Background::run(activated(&ground, unix.try_clone().expect("a copy").into())));
    let address = format!("unix:{}", path.display());
    assert_eq!(addresses, [address.as_str()]);
    let run = follow(&ground, &address, "copy", &["--once"]).end();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(ground.ok(&["get", "copy", "prices", "apple"]), "3");
    stop(first);
    // It belongs to its creator, which may pass it to the next process.
    assert!(std::fs::metadata(&path).expect("still there").file_type().is_socket());
    let mut early = follow(&ground, &address, "early", &[]);
    let (second, _) = listening(Background::run(activated(&ground, unix.into())));
    hears(&mut early, "ready");
    stop(early);
    stop(second);

    let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = format!("tcp:{}", tcp.local_addr().expect("its address"));
    let (third, addresses) = listening(Background::run(activated(&ground, tcp.into())));
    assert_eq!(addresses, [address.as_str()]);
    let run = follow(&ground, &address, "again", &["--once"]).end();
    assert_eq!(run.code, 0, "{run:?}");
    stop(third);

    let file = std::fs::File::open("/dev/null").expect("a file");
    let run = Background::run(activated(&ground, file.into())).end();
    assert!(run.code == 3 && run.err.contains("neither a unix nor a TCP"), "{run:?}");
    let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let run = Background::run(activated(&ground, one.into())).end();
    assert!(run.code == 3 && run.err.contains("Accept=no"), "{run:?}");
}

#[test]
fn ways_of_serving_may_be_chosen() {
    let ground = shop();
    let own = rustix::process::getuid().as_raw();
    let (own, other) = (own.to_string(), (own + 1).to_string());
    for kind in ["epoll", "pool", "uring"] {
        let served = ["--listen", "unix:./sock", "--loop", kind, "--io-threads", "2"];
        let more = ["--watermark", "64K", "--delay", "1ms", "--allow-uid", &own];
        let (first, _) = origin(&ground, &[&served[..], &more].concat());
        let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
        hears(&mut replica, "ready");
        ground.ok(&["set", "shop", "prices", "kind", kind]);
        sees(&ground, "copy", "kind", kind);
        stop(replica);
        stop(first);
    }
    let limits = ["--listen", "unix:./sock", "--allow-uid", &other];
    let (first, _) = origin(&ground, &limits);
    let mut refused = follow(&ground, "unix:./sock", "refused", &[]);
    hears(&mut refused, "lost");
    stop(refused);
    let err = stop(first);
    assert!(err.contains("refused: its process belongs to user"), "{err}");
}

#[test]
fn maps_that_cannot_be_served_or_followed_are_errors() {
    let ground = shop();
    let err = ground.fails(2, &["origin", "shop", "prices"]);
    assert!(err.contains("--listen unix:") && err.contains("systemd"), "{err}");
    let err = ground.fails(2, &["origin", "shop", "prices", "--listen", "/run/sock"]);
    assert!(err.contains("expected an address (unix:PATH, tcp:HOST:PORT"), "{err}");
    ground.fails(2, &["replica", "sock", "copy", "prices"]);
    ground.fails(2, &["replica", "unix:./sock", "copy", "prices", "--timeout", "1s"]);
    ground.fails(2, &["origin", "shop", "prices", "--listen", "tcp:0", "--delay", "1ms"]);
    ground.fails(2, &["origin", "shop", "prices", "--listen", "tcp:0", "--format", "csv"]);
    let err = ground.fails(3, &["origin", "shop", "pears", "--listen", "tcp:0"]);
    assert!(err.contains("no map 'pears'"), "{err}");
    let err = ground.fails(3, &["origin", "none", "prices", "--listen", "tcp:0"]);
    assert!(err.contains("this hold does not exist"), "{err}");
    let err = ground.fails(3, &["replica", "tcp:0", "copy", &"x".repeat(201), "--once"]);
    assert!(err.contains("1 to 200 bytes"), "{err}");
    assert!(!ground.path("copy.hold").exists(), "nothing was made");

    let (first, addresses) = origin(&ground, &["--listen", "unix:./sock", "--listen", "tcp:0"]);
    for address in &addresses {
        let err = ground.fails(3, &["origin", "shop", "prices", "--listen", address]);
        assert!(err.contains(address) && err.contains("in use"), "{err}");
    }
    assert!(ground.path("sock").exists(), "whose it is keeps it");
    let err = stop(first);
    assert!(err.contains("--secret-file"), "tcp without a secret is told: {err}");
    let all = ["origin", "shop", "prices", "--listen", "tcp:0.0.0.0:0"];
    let mut warned = Background::start(&ground, &all);
    let line = warned.first_error();
    assert!(line.contains("other machines") && line.contains("not encrypted"), "{line}");
    warned.kill();
}

#[test]
fn a_deleted_map_or_hold_ends_its_origin() {
    let ground = shop();
    let (first, _) = origin(&ground, &["--listen", "unix:./sock"]);
    let mut replica = follow(&ground, "unix:./sock", "copy", &[]);
    let mut other = follow(&ground, "unix:./sock", "other", &[]);
    hears(&mut replica, "ready");
    hears(&mut other, "ready");
    ground.ok(&["drop", "copy", "prices", "--yes"]);
    ground.ok(&["drop", "other", "--force"]);
    ground.ok(&["drop", "shop", "prices", "--yes"]);
    for (background, why) in [
        (replica, "map prices was dropped"),
        (other, "deleted or replaced"),
        (first, "map prices was dropped"),
    ] {
        let run = background.end();
        assert!(run.code == 3 && run.err.contains(why), "{run:?}");
    }
    assert!(!ground.path("sock").exists());
}

#[test]
fn a_replica_is_compared_with_its_origin() {
    let ground = shop();
    let (first, addresses) = origin(&ground, &["--listen", "tcp:0"]);
    let mut replica = follow(&ground, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    let same = ground.ok(&["verify", &addresses[0], "copy", "prices"]);
    assert!(same.contains("1 pair, digest ") && same.contains(&addresses[0]), "{same}");
    let said = ground.json(&["verify", &addresses[0], "copy", "prices"]);
    assert_eq!((&said["equal"], &said["different"]), (&json!(true), &json!(0)), "{said}");
    let err = ground.fails(3, &["verify", &addresses[0], "shop", "prices"]);
    assert!(err.contains("is not a replica"), "{err}");
    stop(replica);
    stop(first);
}

/// The journal of `shop prices`, once it runs.
fn journal(ground: &Ground, options: &[&str]) -> Background {
    let fixed = ["journal", "shop", "prices", "./it.journal", "--format", "json"];
    let mut journal = Background::start(ground, &[&fixed[..], options].concat());
    hears(&mut journal, "journal");
    journal
}

#[test]
fn a_map_is_rebuilt_from_its_journal() {
    let ground = shop();
    let err = ground.fails(3, &["sync", "shop", "prices"]);
    assert!(err.contains("no stream") || err.contains("no journal"), "{err}");
    let first = journal(&ground, &[]);
    ground.ok(&["set", "shop", "prices", "pear", "5"]);
    ground.ok(&["sync", "shop", "prices"]);
    until(&ground, &["stat", "shop", "prices"], |stat| {
        stat["journals"][0]["durable"].is_string() && stat["journals"][0]["error"].is_null()
    });
    let text = ground.ok(&["stat", "shop", "prices"]);
    assert!(text.contains("journal of") && text.contains("durable to"), "{text}");
    let err = ground.fails(3, &["journal", "shop", "prices", "./other.journal"]);
    assert!(err.contains("already has a journal"), "{err}");
    first.signal(Signal::KILL);
    first.end();
    let err = ground.fails(3, &["sync", "shop", "prices"]);
    assert!(err.contains("no running journal"), "{err}");
    // As after a system crash: the contents of memory are gone.
    ground.ok(&["drop", "shop", "--yes"]);
    let second = journal(&ground, &["--sync", "every-ms", "5"]);
    assert_eq!(ground.ok(&["get", "shop", "prices", "pear"]), "5");
    assert_eq!(ground.ok(&["get", "shop", "prices", "apple"]), "3");
    ground.ok(&["set", "shop", "prices", "plum", "7"]);
    ground.ok(&["sync", "shop", "prices"]);
    let said = stop(second);
    assert!(!said.contains("error"), "{said}");
    // Another map of this name is not the journal's.
    ground.ok(&["drop", "shop", "prices", "--yes"]);
    ground.ok(&["set", "shop", "prices", "new", "1"]);
    let err = ground.fails(3, &["journal", "shop", "prices", "./it.journal"]);
    assert!(err.contains("rebuild the map from it"), "{err}");
    let rebuild = ["journal", "shop", "prices", "./it.journal", "--rebuild-only"];
    let err = ground.fails(3, &rebuild);
    assert!(err.contains("drop it first"), "{err}");
    ground.ok(&[&rebuild[..], &["--rebuild"]].concat());
    assert_eq!(ground.ok(&["get", "shop", "prices", "plum"]), "7");
    assert!(!ground.ok(&["keys", "shop", "prices"]).contains("new"));
    for wrong in [&["--sync", "sometimes"][..], &["--sync", "every-ms", "0"], &["7"]] {
        let err = ground.fails(2, &[&rebuild[..4], wrong].concat());
        assert!(err.contains("expected always") || err.contains("got one more"), "{err}");
    }
}
