//! Tests that need a process of their own: they count its descriptors and threads, make them run
//! out, or let its signals have their default effect.
//!
//! The ignored tests are the children; a parent starts each, for every driver.

use super::*;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

const KIND: &str = "COMMONHOLD_EVENT_LOOP";

fn run(child: &str) {
    for kind in LoopKind::ALL {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("sockets::tests::processes::{child}")])
            .args(["--ignored", "--nocapture", "--test-threads=1"])
            .env(KIND, kind.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{kind}: {text}{errors}");
    }
}

/// In a child: runs on the driver that the parent named.
fn on_driver<W: WithDriver<Parts>>(with: W) -> W::Output {
    let kind = std::env::var(KIND).expect("started by its parent").parse().unwrap();
    choose(kind, &Options::default(), with).unwrap()
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn leaves_no_descriptors_and_no_threads() {
    run("busy_and_dropped");
}

#[test]
#[ignore = "started by leaves_no_descriptors_and_no_threads"]
fn busy_and_dropped() {
    struct Busy;
    impl WithDriver<Parts> for Busy {
        type Output = ();
        fn run<D: Driver<Parts>>(self, mut driver: D, _: Chosen) {
            streams::exchange(&mut driver, 20);
            let (deaf, _kept) = pair();
            let deaf = driver.add(deaf).unwrap();
            fill(&mut driver, deaf);
            driver.receive(deaf, Vec::new(), 100);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let listener = driver.add(listener.into()).unwrap();
            driver.accept(listener);
            nothing(&mut driver);
            // An accepted connection that is never reported.
            let _caller = TcpStream::connect(address).unwrap();
        }
    }
    let before = (count("/proc/self/fd"), count("/proc/self/task"));
    on_driver(Busy);
    let begun = Instant::now();
    // A joined thread may still be running its last instructions.
    while (count("/proc/self/fd"), count("/proc/self/task")) != before {
        assert!(begun.elapsed() < PATIENCE / 2, "{before:?} before");
        std::thread::yield_now();
    }
}

#[test]
fn does_not_spin_when_descriptors_run_out() {
    run("out_of_descriptors");
}

#[test]
#[ignore = "started by does_not_spin_when_descriptors_run_out"]
fn out_of_descriptors() {
    struct Poor;
    impl WithDriver<Parts> for Poor {
        type Output = ();
        fn run<D: Driver<Parts>>(self, mut driver: D, _: Chosen) {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let listener = driver.add(listener.into()).unwrap();
            let _callers = [(); 2].map(|()| TcpStream::connect(address).unwrap());
            let most = limit_descriptors(3);
            for _ in 0..2 {
                driver.accept(listener);
                let Done::Accepted { result, .. } = one(&mut driver) else { panic!() };
                assert_eq!(code(&result), libc::EMFILE);
                // The error comes once, although the connections still wait.
                nothing(&mut driver);
            }
            limit_descriptors(most);
            driver.accept(listener);
            for done in many(&mut driver, 2) {
                assert!(matches!(done, Done::Accepted { result: Ok(_), .. }));
            }
        }
    }
    on_driver(Poor);
}

/// Allows numbers below `most` for new descriptors; returns the limit before.
fn limit_descriptors(most: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid memory.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    let before = std::mem::replace(&mut limit.rlim_cur, most);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    before
}

#[test]
fn raises_no_signal_when_a_peer_has_left() {
    run("no_signal");
}

#[test]
#[ignore = "started by raises_no_signal_when_a_peer_has_left"]
fn no_signal() {
    struct Alone;
    impl WithDriver<Parts> for Alone {
        type Output = ();
        fn run<D: Driver<Parts>>(self, mut driver: D, _: Chosen) {
            let (ours, theirs) = pair();
            let ours = driver.add(ours).unwrap();
            drop(theirs);
            driver.send(ours, Parts::new("to nobody"));
            let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
            assert_eq!(code(&result), libc::EPIPE);
        }
    }
    // SAFETY: the default action, which ends the process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    on_driver(Alone);
}
