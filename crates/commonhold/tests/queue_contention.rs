//! A call that waits for an element with a time of its own, and meets locks meanwhile: each of them
//! has a timeout of its own.

use crate::support::process::{Child, Watchdog, until};
use crate::support::standstill::until_asleep;
use crate::support::test_dir::TestDir;
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{Hold, Result, steps};
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than any of these tests may take, so that nobody waits for its end.
const FOR_EVER: Duration = Duration::from_secs(100_000);

thread_local! {
    /// The part that this thread plays.
    static ROLE: Cell<&'static str> = const { Cell::new("") };
}

/// One thread waits for an element of "a2b". When it finds one, another thread locks the head
/// first, and takes the element.
struct Contention {
    phase: AtomicU32,
}

/// Phases.
const CALM: u32 = 0;
const PUSHED: u32 = 1;
const FOUND: u32 = 2;
const LOCKED: u32 = 3;
/// The waiter has met the lock, waited for it outside of its lane, and looks again.
const MET: u32 = 4;
const OVER: u32 = 5;

static CONTENTION: Contention = Contention { phase: AtomicU32::new(CALM) };

impl Contention {
    fn is(&self, phases: impl Fn(u32) -> bool) -> bool {
        phases(self.phase.load(Ordering::SeqCst))
    }

    fn enter(&self, phase: u32) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    fn turn(&self, from: u32, to: u32) -> bool {
        let order = Ordering::SeqCst;
        self.phase.compare_exchange(from, to, order, order).is_ok()
    }

    fn observe(&self, step: &str, until_over: bool) {
        match (ROLE.get(), step) {
            ("waits", "queue.listed") if self.turn(PUSHED, FOUND) => {
                until("the head is locked", || self.is(|phase| phase != FOUND));
            }
            ("waits", "queue.listed") => drop(self.turn(LOCKED, MET)),
            ("holds", "queue.locked") if self.turn(FOUND, LOCKED) => {
                let may_go = |phase| phase == OVER || (phase == MET && !until_over);
                until("the lock is released", || self.is(may_go));
            }
            _ => {}
        }
    }

    /// Takes what the waiter finds, until its wait is over.
    fn hold(&self, queue: &Queue) {
        ROLE.set("holds");
        let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
        until("the wait is over", || {
            if self.is(|phase| phase == FOUND) {
                free.push(a2b.pull().unwrap().expect("the waiter has found it")).unwrap();
                let _ = self.turn(MET, CALM);
            }
            self.is(|phase| phase == OVER)
        });
    }
}

/// Runs a wait for an element with a thread that holds it up, and `meanwhile`, which begins when it
/// sleeps. With `until_over`, the lock that it meets first is released after the wait.
fn contend(
    path: &Path,
    lock_timeout: Duration,
    until_over: bool,
    wait: impl Fn(&Queue) -> Result<bool> + Sync,
    meanwhile: impl Fn(&Queue),
) {
    Child::run("contention", || {
        let _watchdog = Watchdog::new("contention", Duration::from_secs(50));
        let hold = Hold::options().lock_timeout(lock_timeout).open(path).unwrap();
        let queue = hold.queues().open("it").unwrap();
        steps::observe(move |step| CONTENTION.observe(step, until_over));
        std::thread::scope(|scope| {
            let waits = || {
                ROLE.set("waits");
                let found = wait(&queue);
                CONTENTION.enter(OVER);
                found
            };
            let waits = std::thread::Builder::new().name("waits".into()).spawn_scoped(scope, waits);
            let waits = waits.unwrap();
            scope.spawn(|| CONTENTION.hold(&queue));
            until_asleep(std::process::id() as i32, "waits", 1);
            meanwhile(&queue);
            // After the wait in which it met the lock first, nothing was there.
            assert_eq!(waits.join().unwrap().unwrap(), !until_over);
        });
    })
    .finish();
}

/// Moves an element from "free" to "a2b", where the waiter finds it.
fn push_contended(queue: &Queue) {
    let element = queue.named("free").unwrap().pull().unwrap().unwrap();
    CONTENTION.enter(PUSHED);
    queue.named("a2b").unwrap().push(element).unwrap();
}

fn empty_queue(path: &Path) {
    let options = QueueOptions::new(4, 16).queues(["free", "a2b"]);
    drop(Hold::create(path).unwrap().queues().open_or_create("it", options).unwrap());
}

#[test]
fn a_lock_at_the_end_of_a_wait_is_no_timeout_of_the_lock() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    empty_queue(&path);
    let wait = |queue: &Queue| {
        let pulled = queue.named("a2b").unwrap().pull_timeout(Duration::from_secs(5));
        assert!(CONTENTION.is(|phase| phase >= LOCKED), "it met the lock");
        Ok(pulled?.is_some())
    };
    contend(&path, FOR_EVER, true, wait, push_contended);
}

#[test]
fn each_lock_of_a_wait_has_a_timeout_of_its_own() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    empty_queue(&path);
    let wait = |queue: &Queue| Ok(queue.named("a2b").unwrap().pull_timeout(FOR_EVER)?.is_some());
    contend(&path, TIMEOUT, false, wait, |queue| {
        for _ in 0..2 {
            push_contended(queue);
            until("the other has taken it", || {
                CONTENTION.is(|phase| [CALM, OVER].contains(&phase))
            });
            std::thread::sleep(TIMEOUT);
        }
        let element = queue.named("free").unwrap().pull().unwrap().unwrap();
        queue.named("a2b").unwrap().push(element).unwrap();
    });
}
