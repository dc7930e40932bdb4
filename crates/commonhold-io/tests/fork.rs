//! Programs that fork while they have a loop: the child may drop what it has inherited.

use commonhold_io::sockets::{Bytes, Done, Driver, Epoll, Options, Pool, Uring};
use commonhold_testing::alone::{LONG, drop_in_child};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn drivers_survive<D: Driver<Bytes>>(driver: D) {
    let mut driver = Some(driver);
    let own = driver.as_mut().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let ours = own.add(ours.into()).unwrap();
    own.receive(ours, Vec::new(), 100);
    let mut done = Vec::new();
    own.wait(Some(Duration::ZERO), &mut done).unwrap();
    assert!(done.is_empty(), "{done:?}");
    drop_in_child("drops a driver", &mut driver);
    let own = driver.as_mut().unwrap();
    theirs.write_all(b"still there").unwrap();
    own.wait(Some(LONG), &mut done).unwrap();
    let Some(Done::Received { buffer, .. }) = done.pop() else { panic!("{done:?}") };
    assert_eq!(buffer, b"still there");
}

#[test]
fn a_child_drops_its_parents_loop() {
    let options = Options::default();
    drivers_survive(Epoll::new(&options).unwrap());
    drivers_survive(Pool::new(&options).unwrap());
    drivers_survive(Uring::new(&options).unwrap());
}
