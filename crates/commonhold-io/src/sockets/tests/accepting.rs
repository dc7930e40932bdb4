//! Listeners.

use super::*;
use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

suite![
    accepts_a_flood,
    accepted_sockets_are_nonblocking_and_close_on_exec,
    accepts_nothing_while_paused,
    shut_ends_an_accept,
    accepting_on_what_does_not_listen_is_reported_once,
];

fn listen<D: Driver<Parts>>(driver: &mut D) -> (SocketId, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (driver.add(listener.into()).unwrap(), address)
}

fn accepted(done: Done<Parts>) -> OwnedFd {
    match done {
        Done::Accepted { result, .. } => result.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn accepts_a_flood<D: Driver<Parts>>(mut driver: D) {
    let (listener, address) = listen(&mut driver);
    driver.accept(listener);
    let caller = thread::spawn(move || {
        let calls = (0..300).map(|_| TcpStream::connect(address).unwrap());
        calls.collect::<Vec<_>>()
    });
    let connections: Vec<_> = many(&mut driver, 300).into_iter().map(accepted).collect();
    let callers = caller.join().unwrap();
    let peers = connections.iter().map(|fd| {
        let stream = TcpStream::from(fd.try_clone().unwrap());
        stream.peer_addr().unwrap()
    });
    let own = callers.iter().map(|stream| stream.local_addr().unwrap());
    assert_eq!(peers.collect::<HashSet<_>>(), own.collect::<HashSet<_>>());
    nothing(&mut driver);
}

fn accepted_sockets_are_nonblocking_and_close_on_exec<D: Driver<Parts>>(mut driver: D) {
    let (listener, address) = listen(&mut driver);
    driver.accept(listener);
    let _caller = TcpStream::connect(address).unwrap();
    let connection = accepted(one(&mut driver));
    let flags = rustix::fs::fcntl_getfl(connection.as_fd()).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    let flags = rustix::io::fcntl_getfd(connection.as_fd()).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    assert!(connection.as_raw_fd() > 2);
}

fn accepts_nothing_while_paused<D: Driver<Parts>>(mut driver: D) {
    let (listener, address) = listen(&mut driver);
    driver.accept(listener);
    nothing(&mut driver);
    driver.pause(listener);
    nothing(&mut driver);
    let _first = TcpStream::connect(address).unwrap();
    nothing(&mut driver);
    driver.accept(listener);
    accepted(one(&mut driver));
    // Requested again before the pause has taken effect.
    driver.pause(listener);
    driver.accept(listener);
    let _second = TcpStream::connect(address).unwrap();
    accepted(one(&mut driver));
    driver.pause(listener);
    nothing(&mut driver);
    assert!(driver.release(listener).is_some());
}

fn shut_ends_an_accept<D: Driver<Parts>>(mut driver: D) {
    let (listener, address) = listen(&mut driver);
    driver.accept(listener);
    nothing(&mut driver);
    driver.shut(listener);
    let Done::Accepted { listener: id, result } = one(&mut driver) else { panic!() };
    assert_eq!((id, code(&result)), (listener, libc::ECANCELED));
    nothing(&mut driver);
    // Another test may be starting a process, which has the descriptor until it begins.
    let begun = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it still listens");
    }
}

fn accepting_on_what_does_not_listen_is_reported_once<D: Driver<Parts>>(mut driver: D) {
    let (ours, _theirs) = pair();
    let ours = driver.add(ours).unwrap();
    for _ in 0..2 {
        driver.accept(ours);
        let Done::Accepted { result, .. } = one(&mut driver) else { panic!() };
        assert_eq!(code(&result), libc::EINVAL);
        nothing(&mut driver);
    }
}
