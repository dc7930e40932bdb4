//! How sockets end: by themselves, by their peer, with the driver.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

suite![
    tells_the_end_of_a_stream,
    the_end_comes_after_the_last_bytes,
    tells_that_a_peer_has_reset,
    sending_to_one_who_left_is_an_error_and_no_signal,
    a_peer_that_leaves_ends_a_waiting_send,
    finish_ends_one_direction_behind_what_was_sent,
    finish_waits_for_the_send_that_is_outstanding,
    finish_is_harmless_where_there_is_nothing_to_finish,
    a_finished_tcp_socket_loses_nothing,
    a_pending_finish_completes_when_the_socket_is_shut,
    shut_gives_back_what_is_outstanding,
    shut_before_a_turn_gives_back_what_was_given,
    shut_without_operations_closes_at_once,
    an_id_never_names_another_socket,
    release_gives_back_what_is_idle_and_nothing_else,
    dropping_a_driver_closes_what_is_busy,
];

/// Whether the peer has closed, without waiting longer than for a step.
fn has_ended(theirs: &mut UnixStream) -> bool {
    matches!(theirs.read(&mut [0; 1]), Ok(0))
}

fn tells_the_end_of_a_stream<D: Driver<Parts>>(mut driver: D) {
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, b"kept".to_vec(), 100);
    nothing(&mut driver);
    drop(theirs);
    // Once, and at every later receive.
    for _ in 0..3 {
        let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
        assert_eq!((buffer.as_slice(), result.unwrap()), (&b"kept"[..], 0));
        driver.receive(ours, buffer, 100);
    }
}

fn the_end_comes_after_the_last_bytes<D: Driver<Parts>>(mut driver: D) {
    // Both in one edge: a short receive must not wait for another.
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    theirs.write_all(b"last").unwrap();
    drop(theirs);
    driver.receive(ours, Vec::new(), 100);
    let Done::Received { buffer, .. } = one(&mut driver) else { panic!() };
    assert_eq!(buffer, b"last");
    driver.receive(ours, Vec::new(), 100);
    let Done::Received { result, .. } = one(&mut driver) else { panic!() };
    assert_eq!(result.unwrap(), 0);
}

fn tells_that_a_peer_has_reset<D: Driver<Parts>>(mut driver: D) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = driver.add(listener.accept().unwrap().0.into()).unwrap();
    driver.receive(ours, Vec::new(), 100);
    nothing(&mut driver);
    rustix::net::sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
    drop(theirs);
    let Done::Received { result, .. } = one(&mut driver) else { panic!() };
    assert_eq!(code(&result), libc::ECONNRESET);
    driver.send(ours, Parts::new("to nobody"));
    let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
    assert_eq!(code(&result), libc::EPIPE);
}

fn sending_to_one_who_left_is_an_error_and_no_signal<D: Driver<Parts>>(mut driver: D) {
    // The signal is ignored in tests; `processes` has one where it would kill.
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    drop(theirs);
    driver.send(ours, Parts::new("to nobody"));
    let Done::Sent { result, payload, .. } = one(&mut driver) else { panic!() };
    assert_eq!((code(&result), payload.bytes.as_slice()), (libc::EPIPE, &b"to nobody"[..]));
}

fn a_peer_that_leaves_ends_a_waiting_send<D: Driver<Parts>>(mut driver: D) {
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    fill(&mut driver, ours);
    drop(theirs);
    let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
    assert!([libc::EPIPE, libc::ECONNRESET].contains(&code(&result)), "{result:?}");
}

fn finish_ends_one_direction_behind_what_was_sent<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, Vec::new(), 100);
    driver.send(ours, Parts::new("last"));
    assert!(matches!(one(&mut driver), Done::Sent { result: Ok(4), .. }));
    driver.finish(ours);
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"last");
    driver.send(ours, Parts::new("too late"));
    let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
    assert_eq!(code(&result), libc::EPIPE);
    // The other direction still works.
    theirs.write_all(b"answer").unwrap();
    let Done::Received { buffer, .. } = one(&mut driver) else { panic!() };
    assert_eq!(buffer, b"answer");
    drop(theirs);
    driver.receive(ours, Vec::new(), 100);
    let Done::Received { result, .. } = one(&mut driver) else { panic!() };
    assert_eq!(result.unwrap(), 0);
}

fn finish_waits_for_the_send_that_is_outstanding<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    // Stored and not begun.
    driver.send(ours, Parts::new("all of it"));
    driver.finish(ours);
    assert!(matches!(one(&mut driver), Done::Sent { result: Ok(9), .. }));
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"all of it");
    // Begun, and waiting for the peer.
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    let taken = fill(&mut driver, ours);
    driver.finish(ours);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).map(|_| all.len())
    });
    let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
    let more = result.unwrap();
    assert!(more > 0);
    assert_eq!(reader.join().unwrap().unwrap(), taken + more);
}

fn finish_is_harmless_where_there_is_nothing_to_finish<D: Driver<Parts>>(mut driver: D) {
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    drop(theirs);
    driver.finish(ours);
    driver.finish(ours);
    driver.shut(ours);
    driver.finish(ours);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = driver.add(listener.into()).unwrap();
    driver.accept(listener);
    driver.finish(listener);
    let _theirs = TcpStream::connect(address).unwrap();
    assert!(matches!(one(&mut driver), Done::Accepted { result: Ok(_), .. }));
}

fn a_finished_tcp_socket_loses_nothing<D: Driver<Parts>>(mut driver: D) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    let ours = driver.add(listener.accept().unwrap().0.into()).unwrap();
    // The system would reset the connection if it were closed now, with these bytes unread.
    theirs.write_all(b"unread").unwrap();
    let taken = fill(&mut driver, ours);
    driver.finish(ours);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).map(|_| all.len())
    });
    let Done::Sent { result, .. } = one(&mut driver) else { panic!() };
    let taken = taken + result.unwrap();
    // Until the peer ends, too.
    loop {
        driver.receive(ours, Vec::new(), 100);
        let Done::Received { result, .. } = one(&mut driver) else { panic!() };
        if result.unwrap() == 0 {
            break;
        }
    }
    driver.shut(ours);
    assert_eq!(reader.join().unwrap().unwrap(), taken);
}

fn a_pending_finish_completes_when_the_socket_is_shut<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    // A forked child would have such a copy.
    let _copy = ours.try_clone().unwrap();
    let ours = driver.add(ours).unwrap();
    let taken = fill(&mut driver, ours);
    driver.finish(ours);
    driver.shut(ours);
    assert_eq!(code(&sent_result(one(&mut driver))), libc::ECANCELED);
    nothing(&mut driver);
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), taken);
}

fn sent_result(done: Done<Parts>) -> io::Result<usize> {
    let Done::Sent { result, .. } = done else { panic!("{done:?}") };
    result
}

fn shut_gives_back_what_is_outstanding<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    let taken = fill(&mut driver, ours);
    driver.receive(ours, b"kept".to_vec(), 100);
    nothing(&mut driver);
    driver.shut(ours);
    let (mut received, mut sent) = (0, 0);
    for done in many(&mut driver, 2) {
        match done {
            Done::Received { socket, buffer, result } => {
                assert_eq!((socket, code(&result)), (ours, libc::ECANCELED));
                assert_eq!(buffer, b"kept");
                received += 1;
            }
            Done::Sent { socket, payload, result } => {
                assert_eq!((socket, code(&result)), (ours, libc::ECANCELED));
                assert_eq!(payload.rest(), 1 << 20);
                sent += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((received, sent), (1, 1));
    nothing(&mut driver);
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), taken);
}

fn shut_before_a_turn_gives_back_what_was_given<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, b"kept".to_vec(), 100);
    driver.shut(ours);
    let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((buffer.as_slice(), code(&result)), (&b"kept"[..], libc::ECANCELED));
    nothing(&mut driver);
    assert!(has_ended(&mut theirs));
}

fn shut_without_operations_closes_at_once<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.shut(ours);
    assert!(has_ended(&mut theirs));
    nothing(&mut driver);
}

fn an_id_never_names_another_socket<D: Driver<Parts>>(mut driver: D) {
    let mut ids = std::collections::HashSet::new();
    for _ in 0..50 {
        let (ours, mut theirs) = pair();
        let ours = driver.add(ours).unwrap();
        assert!(ids.insert(ours));
        for &old in ids.iter().filter(|&&id| id != ours) {
            driver.send(old, Parts::new("astray"));
            let Done::Sent { socket, result, .. } = one(&mut driver) else { panic!() };
            assert_eq!((socket, code(&result)), (old, libc::EBADF));
            driver.shut(old);
        }
        driver.send(ours, Parts::new("x"));
        assert!(matches!(one(&mut driver), Done::Sent { result: Ok(1), .. }));
        theirs.read_exact(&mut [0]).unwrap();
        driver.receive(ours, Vec::new(), 1);
        nothing_now(&mut driver);
        driver.shut(ours);
        assert!(matches!(one(&mut driver), Done::Received { .. }));
        assert!(has_ended(&mut theirs));
    }
}

fn release_gives_back_what_is_idle_and_nothing_else<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let id = driver.add(ours).unwrap();
    driver.receive(id, Vec::new(), 100);
    assert!(driver.release(id).is_none());
    nothing(&mut driver);
    assert!(driver.release(id).is_none());
    theirs.write_all(b"x").unwrap();
    assert!(matches!(one(&mut driver), Done::Received { result: Ok(1), .. }));
    let mut ours = UnixStream::from(driver.release(id).unwrap());
    ours.write_all(b"mine again").unwrap();
    theirs.read_exact(&mut [0; 10]).unwrap();
    theirs.write_all(b"not the driver's").unwrap();
    nothing(&mut driver);
    assert!(driver.release(id).is_none());
}

fn dropping_a_driver_closes_what_is_busy<D: Driver<Parts>>(mut driver: D) {
    let mut peers = Vec::new();
    for at in 0..20 {
        let (ours, theirs) = pair();
        let ours = driver.add(ours).unwrap();
        driver.receive(ours, Vec::new(), 1 << 16);
        if at % 2 == 0 {
            nothing_now(&mut driver);
        }
        peers.push(theirs);
    }
    drop(driver);
    assert!(peers.iter_mut().all(has_ended));
}
