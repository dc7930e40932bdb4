//! How `wait` ends, and that it sleeps meanwhile.

use super::*;
use rustix::time::{ClockId, clock_gettime};
use std::thread;

suite![
    returns_after_the_timeout,
    is_woken_from_another_thread,
    wakings_before_the_wait_are_one,
    sleeps_while_nothing_is_ready,
];

fn returns_after_the_timeout<D: Driver<Parts>>(mut driver: D) {
    let (ours, _theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, Vec::new(), 1);
    for timeout in [0, 1, 70].map(Duration::from_millis) {
        let (begun, mut done) = (Instant::now(), Vec::new());
        driver.wait(Some(timeout), &mut done).unwrap();
        assert!(done.is_empty() && begun.elapsed() >= timeout);
        assert!(begun.elapsed() < timeout + PATIENCE / 4);
    }
}

fn is_woken_from_another_thread<D: Driver<Parts>>(mut driver: D) {
    for _ in 0..3 {
        let waker = driver.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            waker.wake();
        });
        let mut done = Vec::new();
        driver.wait(None, &mut done).unwrap();
        assert!(matches!(done[..], [Done::Woken]), "{done:?}");
        other.join().unwrap();
    }
}

fn wakings_before_the_wait_are_one<D: Driver<Parts>>(mut driver: D) {
    (0..10).for_each(|_| driver.waker().wake());
    assert!(matches!(one(&mut driver), Done::Woken));
    nothing(&mut driver);
}

fn sleeps_while_nothing_is_ready<D: Driver<Parts>>(mut driver: D) {
    let ((full, _deaf), (idle, _mute), (ended, gone)) = (pair(), pair(), pair());
    let [full, idle, ended] = [full, idle, ended].map(|fd| driver.add(fd).unwrap());
    fill(&mut driver, full);
    driver.receive(idle, Vec::new(), 100);
    // Broken, and without an operation: nothing to do either.
    drop(gone);
    driver.receive(ended, Vec::new(), 100);
    assert!(matches!(one(&mut driver), Done::Received { result: Ok(0), .. }));
    let busy = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
    let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (begun, mut done) = ((busy(), own()), Vec::new());
    driver.wait(Some(Duration::from_millis(300)), &mut done).unwrap();
    assert!(done.is_empty());
    assert!(own() - begun.1 < Duration::from_millis(50), "of the process: {:?}", busy() - begun.0);
}
