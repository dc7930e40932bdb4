//! Directories that cannot be served, and databases.

use super::visitor::get;
use super::{Serving, files, site, until};
use crate::support::TestDir;
use std::fs;
use std::net::TcpListener;

#[test]
fn a_directory_that_cannot_be_served_is_an_error_and_leaves_nothing() {
    let test_dir = site();
    test_dir.file(
        "text.db",
        "no database at all, but long enough to be read as the head of one".repeat(9),
    );
    test_dir.file("empty.db", "");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = format!("tcp:{}", taken.local_addr().expect("an address").port());
    let failures: [(&[&str], &str); 11] = [
        (&["public", "--listen", &port], "in use"),
        (&["absent"], "absent: no such directory"),
        (&["public/1.txt"], "not a directory"),
        (&["public", "--files", "sqlite"], "serve-import"),
        (&["text.db", "--files", "sqlite"], "serve-import"),
        (&["empty.db", "--files", "sqlite"], "serve-import"),
        (&["public", "--hold", "no/such/place"], "no/such/place"),
        (&["public", "--fallback", "app.html"], "--fallback app.html: no such file in public"),
        (&["public", "--error-page", "404=none.html"], "--error-page none.html: no such file"),
        (&["public", "--fallback", "../public/1.txt"], "cannot be a page"),
        (&["public", "--access-log", "no/such/log"], "access log no/such/log"),
    ];
    for (args, says) in failures {
        let listen: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "tcp:0"] };
        let err = test_dir.fails(3, &[&["serve"], args, listen].concat());
        assert!(err.contains(says), "{args:?}: {err}");
        assert_eq!(
            test_dir.leftovers(&["public", "text.db", "empty.db"]),
            Vec::<String>::new(),
            "{args:?}"
        );
    }
    let choices = [
        ("--loop", "epoll, pool, uring"),
        ("--requests", "std, hashbrown, slab"),
        ("--eviction", "none, mutex, lockfree"),
        ("--cache", "none, std, hashbrown, hold"),
        ("--files", "sendfile, sqlite"),
        ("--layout", "tree, zotero"),
        ("--protocol", "http, simple, both"),
        ("--access-log-format", "clf, combined, json"),
    ];
    for (option, valid) in choices {
        let err = test_dir.fails(2, &["serve", "public", option, "best"]);
        assert!(err.contains(valid) && err.contains("best"), "{err}");
    }
    for args in [
        &["serve"][..],
        &["serve", "public", "--workers", "0"],
        &["serve", "public", "--listen", "nowhere"],
        &["serve", "public", "--cache-bytes", "much"],
        &["serve", "public", "--fresh", "soon"],
        &["serve", "public", "--header", "ETag: mine"],
        &["serve", "public", "--header", "X-A: b\nX-C: d"],
        &["serve", "public", "--cache-control", ""],
        &["serve", "public", "--cors", "https://example.org/"],
        &["serve", "public", "--per-address", "0"],
        &["serve", "public", "--access-log-format", "json"],
        &["serve", "public", "--error-page", "418=1.txt"],
    ] {
        test_dir.fails(2, args);
    }
}

#[track_caller]
fn import(test_dir: &TestDir) {
    let said = test_dir.json(&["serve-import", "public", "files.db"]);
    let bytes: u64 = fs::read_dir(test_dir.path("public"))
        .expect("a directory")
        .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
        .sum();
    assert_eq!((said["files"].as_u64(), said["bytes"].as_u64()), (Some(40), Some(bytes)));
}

#[test]
fn a_database_is_served_and_a_new_one_is_noticed() {
    let test_dir = site();
    import(&test_dir);
    let options = ["--files", "sqlite", "--fresh", "50ms", "--workers", "2"];
    let serving = Serving::start(&test_dir, "files.db", &options);
    for (name, contents) in files() {
        assert!(get(serving.port, &format!("/{name}")).body == contents, "{name}");
    }
    test_dir.file("public/7.txt", "changed");
    fs::rename(test_dir.path("public/8.txt"), test_dir.path("public/moved.txt")).expect("a file");
    import(&test_dir);
    let seen = |path: &str| get(serving.port, path).body;
    until("the change is seen", || {
        seen("/7.txt") == b"changed" && get(serving.port, "/8.txt").status == 404
    });
    // By all workers, from now on.
    std::thread::sleep(std::time::Duration::from_millis(50));
    for _ in 0..50 {
        assert_eq!(seen("/7.txt"), b"changed");
        assert!(seen("/moved.txt") == files()[8].1);
    }
    serving.stop();
    assert_eq!(test_dir.leftovers(&["public", "files.db"]), Vec::<String>::new());
    for (args, says) in [(["absent", "x.db"], "absent"), (["public", "no/such/x.db"], "no/such")] {
        let err = test_dir.fails(3, &["serve-import", args[0], args[1]]);
        assert!(err.contains(says), "{err}");
    }
}
