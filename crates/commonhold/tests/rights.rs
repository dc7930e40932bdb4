//! Who can open nothing any more can still recover others, take part, and close.
//!
//! A server opens its holds, forks, and gives up its rights; another one goes into a chroot, forbids itself system calls,
//! or has used up its descriptors. None of that may keep it from settling what somebody left who was killed, nor from
//! taking a place of its own in a hold that its parent had opened. For the superuser, who alone can give up anything.
//!
//! # Safety
//! Unsafe to install a filter of system calls in a child process.
#![allow(unsafe_code)]

use crate::support::process::{Board, Child, End, close_everything, until};
use crate::support::scenario;
use crate::support::script;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::map::Map;
use commonhold::{Hold, steps};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chroot, setresgid, setresuid};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const SHAPE: Shape = Shape::General;
/// The key whose segment the victim has locked when it dies.
const KEY: u32 = 7;
const NOBODY: u32 = 65534;

/// Words of the board.
const THERE: usize = 0;
const DEAD: usize = 1;
const ALL: usize = 8;

/// One way to become unable to open anything.
type Loss = fn(&Path);

fn become_nobody(_: &Path) {
    setresgid(Gid::from_raw(NOBODY), Gid::from_raw(NOBODY), Gid::from_raw(NOBODY)).unwrap();
    setresuid(Uid::from_raw(NOBODY), Uid::from_raw(NOBODY), Uid::from_raw(NOBODY)).unwrap();
}

fn go_into_a_chroot(path: &Path) {
    let empty = path.with_extension("root");
    // Several may go.
    let _ = std::fs::create_dir(&empty);
    chroot(&empty).unwrap();
    std::env::set_current_dir("/").unwrap();
}

fn lose_the_name(path: &Path) {
    std::fs::remove_file(path).unwrap();
    go_into_a_chroot(path);
}

fn use_up_descriptors(_: &Path) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
}

/// Refuses every system call that opens a file.
fn forbid_opening(_: &Path) {
    #[cfg(target_arch = "x86_64")]
    let forbidden = [libc::SYS_open, libc::SYS_openat, libc::SYS_openat2];
    #[cfg(not(target_arch = "x86_64"))]
    let forbidden = [libc::SYS_openat, libc::SYS_openat2];
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for number in forbidden {
        program.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32));
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        program.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, refusal));
    }
    program.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives until the call has copied it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0), 0);
    }
}

/// Says so and returns true where the test cannot be done.
fn is_somebody(test: &str) -> bool {
    let somebody = !Uid::effective().is_root();
    if somebody {
        eprintln!("{test}: left out, it needs the superuser");
    }
    somebody
}

fn set(map: &Map, id: u32, version: u64) {
    map.set(SHAPE.key(id), SHAPE.value(id, version)).unwrap();
}

#[track_caller]
fn has(map: &Map, id: u32, version: u64) {
    let value = map.get(SHAPE.key(id)).unwrap().expect("a key that was set");
    assert_eq!(script::read(SHAPE, id, &value), version);
}

#[track_caller]
fn sound(hold: &Hold) {
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable, "{report:?}");
    assert_eq!(report.in_flight, 0, "{report:?}");
}

/// Dies with the lock of the key's segment.
fn die(path: &Path) {
    let (_hold, map) = scenario::open(path, SHAPE);
    steps::arm("write.locked:kill").unwrap();
    set(&map, KEY, 1);
}

/// Opens, loses, and then recovers somebody: by a wait for a lock, and by a sweep.
fn recovers_after(test: &str, lose: Loss) {
    if is_somebody(test) {
        return;
    }
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(ALL));
    let survivor = Child::run(format!("survivor; {test}"), || {
        let (hold, map) = scenario::open(&path, SHAPE);
        for round in 1..3 {
            board.put(THERE, round);
            until("the victim is dead", || board.get(DEAD) == round);
            if round == 1 {
                lose(&path);
                set(&map, KEY, 2);
            }
            sound(&hold);
            set(&map, KEY, 2 + round);
            has(&map, KEY, 2 + round);
            let others = hold.participants().unwrap();
            assert_eq!(others.len(), 1, "somebody is left: {others:?}");
            board.put(THERE, 0);
        }
    });
    for round in 1..3 {
        until("the survivor waits", || board.get(THERE) == round || survivor.is_gone());
        if round == 2 && !path.exists() {
            // Without its name nobody else comes to it.
            board.put(DEAD, round);
            continue;
        }
        let mut victim = Child::run(format!("victim; {test}"), || die(&path));
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
        board.put(DEAD, round);
    }
    survivor.finish();
}

#[test]
fn nobody_recovers_somebody() {
    recovers_after("nobody_recovers_somebody", become_nobody);
}

#[test]
fn a_process_in_a_chroot_recovers_somebody() {
    recovers_after("a_process_in_a_chroot_recovers_somebody", go_into_a_chroot);
}

#[test]
fn a_process_whose_file_lost_its_name_recovers_somebody() {
    recovers_after("a_process_whose_file_lost_its_name_recovers_somebody", lose_the_name);
}

#[test]
fn a_process_that_may_not_open_recovers_somebody() {
    recovers_after("a_process_that_may_not_open_recovers_somebody", forbid_opening);
}

#[test]
fn a_process_without_descriptors_recovers_somebody() {
    recovers_after("a_process_without_descriptors_recovers_somebody", use_up_descriptors);
}

/// Workers of one server lose what they may before they do anything; one of them is killed with a lock.
fn workers_after(test: &str, lose: Loss) {
    if is_somebody(test) {
        return;
    }
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(ALL));
    Child::run(format!("server; {test}"), || {
        let (hold, map) = scenario::open(&path, SHAPE);
        set(&map, KEY, 1);
        let mut victim = Child::run(format!("victim; {test}"), || {
            lose(&path);
            set(&map, KEY, 2);
            steps::arm("write.locked:kill").unwrap();
            set(&map, KEY, 3);
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
        let workers: Vec<_> = (1..4)
            .map(|worker| {
                let (path, board, hold, map) = (&path, &board, &hold, &map);
                Child::run(format!("worker {worker}; {test}"), move || {
                    lose(path);
                    set(map, KEY + worker, 5);
                    board.count(THERE, 1);
                    // All at a time, so that each needs a place of its own.
                    until("all are there", || board.get(THERE) == 3);
                    set(map, KEY, 4);
                    has(map, KEY + worker, 5);
                    let all = hold.participants().unwrap();
                    let me = std::process::id();
                    assert!(all.iter().any(|p| p.pid == me), "no place of its own: {all:?}");
                })
            })
            .collect();
        workers.into_iter().for_each(Child::finish);
        has(&map, KEY, 4);
        sound(&hold);
    })
    .finish();
}

#[test]
fn workers_that_are_nobody_take_part() {
    workers_after("workers_that_are_nobody_take_part", become_nobody);
}

#[test]
fn workers_in_a_chroot_take_part() {
    workers_after("workers_in_a_chroot_take_part", go_into_a_chroot);
}

#[test]
fn workers_that_may_not_open_take_part() {
    workers_after("workers_that_may_not_open_take_part", forbid_opening);
}

#[test]
fn workers_without_descriptors_take_part() {
    workers_after("workers_without_descriptors_take_part", use_up_descriptors);
}

/// What is kept for a child of a child is its own: it lives when its parent is dead, and its parent is seen to be dead.
#[test]
fn a_workers_worker_lives_on_when_the_worker_dies() {
    if is_somebody("a_workers_worker_lives_on_when_the_worker_dies") {
        return;
    }
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(ALL));
    Child::run("server", || {
        let (hold, map) = scenario::open(&path, SHAPE);
        let mut worker = Child::run("worker", || {
            let grandchild = Child::run("the worker's worker", || {
                crate::support::process::outlive_parent();
                become_nobody(&path);
                set(&map, KEY, 1);
                board.put(THERE, 1);
                until("the worker is dead", || board.get(DEAD) == 1);
                set(&map, KEY, 2);
                board.put(THERE, 2);
                until("the server has looked", || board.get(DEAD) == 2);
            });
            become_nobody(&path);
            set(&map, KEY + 1, 1);
            until("the other one is there", || board.get(THERE) == 1 || grandchild.is_gone());
            steps::arm("write.locked:kill").unwrap();
            set(&map, KEY + 1, 2);
        });
        assert_eq!(worker.wait(), End::By(Signal::SIGKILL));
        assert_eq!(hold.sweep().unwrap(), 1, "the worker is dead, and its worker is not");
        board.put(DEAD, 1);
        until("the worker's worker goes on", || board.get(THERE) == 2);
        assert_eq!(hold.participants().unwrap().len(), 2);
        board.put(DEAD, 2);
        until("it ends", || hold.sweep().is_ok() && hold.participants().unwrap().len() == 1);
        has(&map, KEY, 2);
        sound(&hold);
    })
    .finish();
}

/// A file hold that was closed is clean, whoever closed it: a copy of it can be opened.
fn closes_cleanly_after(test: &str, lose: Loss) {
    if is_somebody(test) {
        return;
    }
    let test_dir = TestDir::file();
    let (path, copy) = (test_dir.path("it.hold"), test_dir.path("copy.hold"));
    Child::run(format!("closer; {test}"), || {
        let (hold, map) = scenario::open(&path, SHAPE);
        set(&map, KEY, 1);
        lose(&path);
        drop(map);
        hold.close().unwrap();
    })
    .finish();
    std::fs::copy(&path, &copy).unwrap();
    let (_hold, map) = scenario::open(&copy, SHAPE);
    has(&map, KEY, 1);
}

#[test]
fn nobody_closes_cleanly() {
    closes_cleanly_after("nobody_closes_cleanly", become_nobody);
}

#[test]
fn a_process_without_descriptors_closes_cleanly() {
    closes_cleanly_after("a_process_without_descriptors_closes_cleanly", use_up_descriptors);
}

/// A program that closes what it does not know, as daemons do, loses nothing of what it needs, as long as the name is there.
#[test]
fn a_descriptor_closed_behind_its_back_is_opened_again() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(ALL));
    let survivor = Child::run("survivor", || {
        let (hold, map) = scenario::open(&path, SHAPE);
        board.put(THERE, 1);
        until("the victim is dead", || board.get(DEAD) == 1);
        close_everything();
        set(&map, KEY, 2);
        sound(&hold);
    });
    until("the survivor waits", || board.get(THERE) == 1 || survivor.is_gone());
    let mut victim = Child::run("victim", || die(&path));
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
    board.put(DEAD, 1);
    survivor.finish();
}

/// One failed look at a descriptor does not prove that it is another file's.
#[test]
fn a_worker_takes_part_after_one_failed_look_at_its_descriptors() {
    if is_somebody("a_worker_takes_part_after_one_failed_look_at_its_descriptors") {
        return;
    }
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board: &'static Board = Box::leak(Box::new(Board::new(ALL)));
    Child::run("server", || {
        let (hold, map) = scenario::open(&path, SHAPE);
        set(&map, KEY, 1);
        // Until a worker has looked less often than that.
        for number in 1.. {
            board.put(THERE, 0);
            Child::run(format!("worker with failure {number}"), || {
                become_nobody(&path);
                steps::observe_faults(|name| {
                    board.count(THERE, u64::from(name == "os.fstat"));
                });
                steps::arm_fault(&format!("os.fstat:ENOMEM:once:{number}")).unwrap();
                let before = open_descriptors();
                let _ = map.set(SHAPE.key(KEY), SHAPE.value(KEY, 2));
                set(&map, KEY, 3);
                assert!(open_descriptors() <= before, "a descriptor was opened and not closed");
            })
            .finish();
            has(&map, KEY, 3);
            sound(&hold);
            if board.get(THERE) < number {
                break;
            }
        }
    })
    .finish();
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Neither a worker nor its own worker keeps the other one's description open: each is seen to be dead.
#[test]
fn a_failed_look_after_a_fork_keeps_nobody_alive() {
    if is_somebody("a_failed_look_after_a_fork_keeps_nobody_alive") {
        return;
    }
    for first_dies in [true, false] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        Child::run("server", || {
            let _other = Hold::create(test_dir.path("other.hold")).unwrap();
            let (hold, map) = scenario::open(&path, SHAPE);
            // Two looks at each hold prepare its description, and a third one is of that to close,
            // in both processes. Other tests of this process may have holds open, too.
            let looks = looks_at_a_fork();
            for look in looks / 3 * 2 + 1..=looks {
                let fault = format!("os.fstat:ENOMEM:once:{look}");
                dies_and_is_found(&path, &hold, &map, &fault, first_dies);
            }
        })
        .finish();
    }
}

/// The number of looks at descriptors in the parent of a fork.
fn looks_at_a_fork() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    steps::observe_faults(|name| {
        LOOKS.fetch_add(u64::from(name == "os.fstat"), Ordering::SeqCst);
    });
    let child = Child::run("a child that does nothing", || {});
    let looks = LOOKS.load(Ordering::SeqCst);
    child.finish();
    steps::observe_faults(|_| {});
    looks
}

/// One of two workers dies, of which one was forked by the other while a look failed.
fn dies_and_is_found(path: &Path, hold: &Hold, map: &Map, fault: &str, first_dies: bool) {
    let board = Board::new(ALL);
    let mut worker = Child::run("worker", || {
        steps::arm_fault(fault).unwrap();
        let mut second = Child::run("the worker's worker", || {
            crate::support::process::outlive_parent();
            steps::arm_fault("").unwrap();
            become_nobody(path);
            set(map, KEY, 1);
            board.put(THERE, 1);
            until("the server has looked", || board.get(DEAD) == 1);
        });
        steps::arm_fault("").unwrap();
        until("the other one is there", || board.get(THERE) == 1 || second.is_gone());
        become_nobody(path);
        set(map, KEY + 1, 1);
        if first_dies {
            nix::sys::signal::raise(Signal::SIGKILL).unwrap();
        }
        second.signal(Signal::SIGKILL);
        assert_eq!(second.wait(), End::By(Signal::SIGKILL));
        board.put(THERE, 2);
        until("the server has looked", || board.get(DEAD) == 1);
    });
    match first_dies {
        true => assert_eq!(worker.wait(), End::By(Signal::SIGKILL)),
        false => until("one is dead", || board.get(THERE) == 2 || worker.is_gone()),
    }
    // The other one lives until it is found.
    let what = format!("the dead one is found; the first: {first_dies}; {fault}");
    until(&what, || hold.sweep().unwrap() == 1);
    board.put(DEAD, 1);
    worker.wait();
    let is_alone = || hold.sweep().is_ok() && hold.participants().unwrap().len() == 1;
    until("the other one has gone", is_alone);
}
