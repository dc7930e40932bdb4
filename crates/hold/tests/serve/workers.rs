//! Workers that are killed and replaced while they serve.

use super::visitor::{answer, ask, connect, get, try_get};
use super::{Serving, files, is_gone, kill, site, until};
use crate::support::PROGRAM;
use rustix::process::Signal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::{fs, io};

#[test]
fn a_worker_that_is_killed_is_started_again() {
    for cache in [&["--cache", "hold"][..], &["--cache", "hold", "--eviction", "mutex"]] {
        let test_dir = site();
        let serving = Serving::start(&test_dir, "public", &[&["--workers", "2"], cache].concat());
        for round in 0..4 {
            let before = serving.workers();
            assert_eq!(before.len(), 2);
            let (port, over) = (serving.port, AtomicBool::new(false));
            let answered = AtomicU64::new(0);
            thread::scope(|scope| {
                let visitor = scope.spawn(|| {
                    let mut broken = 0;
                    while !over.load(Ordering::Relaxed) {
                        for (name, contents) in files() {
                            // It may be the one who dies that is asked; what he sends whole is
                            // right.
                            match try_get(port, &format!("/{name}")) {
                                Ok(answer) => {
                                    assert!((answer.status, answer.body) == (200, contents));
                                    answered.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(_) => broken += 1,
                            }
                        }
                    }
                    broken
                });
                let letting_go = Over(&over);
                let victim = before[round % 2];
                until("the visitor is answered", || {
                    answered.load(Ordering::Relaxed) > 0 || visitor.is_finished()
                });
                kill(victim);
                until("it is gone", || is_gone(victim));
                until("there is another", || {
                    let now = serving.workers();
                    now.len() == 2 && !now.contains(&victim)
                });
                drop(letting_go);
                let (broken, whole) =
                    (visitor.join().expect("a visitor"), answered.load(Ordering::Relaxed));
                assert!(broken <= 1 && whole > 0, "{broken} of {whole} were not answered");
            });
            assert!(serving.workers().contains(&before[1 - round % 2]), "the other has gone, too");
            for (name, contents) in files() {
                assert!(get(port, &format!("/{name}")).body == contents, "{name}");
            }
        }
        serving.stop();
        assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
    }
}

/// Releases the visitors, even when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks again and again over one connection, as long as the server keeps it. A connection that ends
/// before an answer has begun was not kept: the request is made again on a new one, where it must
/// be answered.
fn ask_on(port: u16, over: &AtomicBool, asked: &AtomicU64) -> io::Result<()> {
    let files = files();
    let mut kept = None;
    for (name, contents) in files.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/{name}");
        let again = kept.take().and_then(|mut stream| {
            let answer = ask(&mut stream, &path, "").and_then(|()| answer(&mut stream)).ok()?;
            Some((stream, answer))
        });
        let (stream, answer) = match again {
            Some(answered) => answered,
            None => {
                let mut stream = connect(port)?;
                ask(&mut stream, &path, "")?;
                let answer = answer(&mut stream)?;
                (stream, answer)
            }
        };
        assert!((answer.status, &answer.body) == (200, contents), "{name}");
        if !answer.head.contains("Connection: close") {
            kept = Some(stream);
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn workers_are_replaced_without_failed_requests() {
    for kind in ["epoll", "pool", "uring"] {
        let test_dir = site();
        let options = ["--workers", "2", "--loop", kind];
        let serving = Serving::start(&test_dir, "public", &options);
        let (port, over, asked) = (serving.port, AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let hasty = || {
                while !over.load(Ordering::Relaxed) {
                    let (name, contents) = files().swap_remove(11);
                    assert!(try_get(port, &format!("/{name}"))?.body == contents);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                io::Result::Ok(())
            };
            let mut visitors: Vec<_> = (0..2).map(|_| scope.spawn(hasty)).collect();
            for _ in 0..2 {
                visitors.push(scope.spawn(|| ask_on(port, &over, &asked)));
            }
            let letting_go = Over(&over);
            for _ in 0..4 {
                let before = serving.workers();
                let count = asked.load(Ordering::Relaxed);
                serving.background.signal(Signal::HUP);
                until("others serve", || {
                    let now = serving.workers();
                    now.len() == 2 && before.iter().all(|old| !now.contains(old))
                });
                until("they are asked", || asked.load(Ordering::Relaxed) > count + 100);
            }
            drop(letting_go);
            for visitor in visitors {
                let failed = visitor.join().expect("a visitor").err();
                assert!(failed.is_none(), "loop {kind}: {failed:?}");
            }
        });
        serving.stop();
        assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
    }
}

#[test]
fn a_missing_program_ends_no_worker() {
    let (installed, test_dir) = (Path::new(PROGRAM), site());
    let place = tempfile::tempdir_in(installed.parent().expect("a place")).expect("a directory");
    let program = place.path().join("hold");
    // No copy: a file that was written just now cannot be run while another test forks.
    let install = || fs::hard_link(installed, &program).expect("a link");
    install();
    let mut serving = Serving::start_of(&program, &test_dir, "public", &["--workers", "2"]);
    let before = serving.workers();
    fs::remove_file(&program).expect("it is there");
    kill(before[0]);
    serving.background.until_error("cannot start a worker");
    serving.background.signal(Signal::HUP);
    serving.background.until_error("the old one continues");
    // The parent tries again and again: each time there is a child for a moment.
    until("only the old one is there", || serving.workers() == [before[1]]);
    for (name, contents) in files() {
        assert!(get(serving.port, &format!("/{name}")).body == contents, "{name}");
    }
    install();
    until("there is another", || serving.workers().len() == 2);
    assert!(serving.workers().contains(&before[1]));
    serving.stop();
    assert_eq!(test_dir.leftovers(&["public"]), Vec::<String>::new());
}
