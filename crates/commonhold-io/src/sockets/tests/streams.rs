//! All bytes arrive where they should, and no socket waits for another.

use super::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;

suite![
    echoes_over_a_socketpair,
    echoes_over_tcp,
    echoes_over_a_unix_listener,
    sends_in_part_and_then_the_rest,
    one_who_does_not_read_holds_nobody_up,
    one_who_is_fast_holds_nobody_up,
    carries_two_hundred_pairs_both_ways,
    sends_and_receives_on_one_socket_at_once,
    appends_to_what_a_buffer_contains,
];

/// Sends all received bytes back, until every connection has ended.
fn echo<D: Driver<Parts>>(driver: &mut D, mut open: usize) {
    while open > 0 {
        for done in some(driver) {
            match done {
                Done::Accepted { result, .. } => {
                    let socket = driver.add(result.unwrap()).unwrap();
                    driver.receive(socket, Vec::new(), 4096);
                }
                Done::Received { socket, result, .. } if result.as_ref().unwrap() == &0 => {
                    driver.shut(socket);
                    open -= 1;
                }
                Done::Received { socket, buffer, .. } => driver.send(socket, Parts::new(buffer)),
                Done::Sent { socket, mut payload, result } => {
                    payload.sent += result.unwrap();
                    match payload.rest() {
                        0 => driver.receive(socket, Vec::new(), 4096),
                        _ => driver.send(socket, payload),
                    }
                }
                Done::Woken => panic!("nobody wakes"),
            }
        }
    }
}

/// Sends bytes and expects the same bytes back.
fn call(mut stream: impl Read + Write) {
    for len in [1, 5_000, 100_000] {
        let bytes = pattern(len);
        for piece in bytes.chunks(30_000) {
            stream.write_all(piece).unwrap();
            let mut back = vec![0; piece.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == piece);
        }
    }
}

fn echoes_over_a_socketpair<D: Driver<Parts>>(mut driver: D) {
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, Vec::new(), 4096);
    let caller = thread::spawn(|| call(theirs));
    echo(&mut driver, 1);
    caller.join().unwrap();
}

fn echoes_over_tcp<D: Driver<Parts>>(mut driver: D) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = driver.add(listener.into()).unwrap();
    driver.accept(listener);
    let callers =
        [(); 3].map(|()| thread::spawn(move || call(TcpStream::connect(address).unwrap())));
    echo(&mut driver, 3);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

fn echoes_over_a_unix_listener<D: Driver<Parts>>(mut driver: D) {
    use std::os::linux::net::SocketAddrExt;
    // An abstract name, which needs no file: the listener's own address in memory tells tests
    // apart.
    let name = format!("commonhold-{}-{:?}", std::process::id(), thread::current().id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let listener = driver.add(UnixListener::bind_addr(&address).unwrap().into()).unwrap();
    driver.accept(listener);
    let callers = [(); 3].map(|()| {
        let address = address.clone();
        thread::spawn(move || call(UnixStream::connect_addr(&address).unwrap()))
    });
    echo(&mut driver, 3);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

fn sends_in_part_and_then_the_rest<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    let bytes = pattern(8 << 20);
    driver.send(ours, Parts::new(bytes.clone()));
    let Done::Sent { mut payload, result, .. } = one(&mut driver) else { panic!() };
    payload.sent += result.unwrap();
    assert!(payload.sent > 0 && payload.rest() > 0, "the kernel took {}", payload.sent);
    driver.send(ours, payload);
    let reader = thread::spawn(move || {
        let mut all = vec![0; 8 << 20];
        theirs.read_exact(&mut all).unwrap();
        all
    });
    loop {
        let Done::Sent { mut payload, result, .. } = one(&mut driver) else { panic!() };
        payload.sent += result.unwrap();
        if payload.rest() == 0 {
            break;
        }
        driver.send(ours, payload);
    }
    assert!(reader.join().unwrap() == bytes);
}

fn one_who_does_not_read_holds_nobody_up<D: Driver<Parts>>(mut driver: D) {
    let (deaf, _kept) = pair();
    let deaf = driver.add(deaf).unwrap();
    assert!(fill(&mut driver, deaf) > 0);
    let (ours, theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, Vec::new(), 4096);
    let caller = thread::spawn(|| call(theirs));
    echo(&mut driver, 1);
    caller.join().unwrap();
}

fn one_who_is_fast_holds_nobody_up<D: Driver<Parts>>(mut driver: D) {
    let ((fast, mut flood), (slow, mut drop)) = (pair(), pair());
    flood.write_all(&[1; 10_000]).unwrap();
    drop.write_all(&[2]).unwrap();
    let (fast, slow) = (driver.add(fast).unwrap(), driver.add(slow).unwrap());
    driver.receive(fast, Vec::new(), 1);
    driver.receive(slow, Vec::new(), 1);
    for _ in 0..200 {
        for done in some(&mut driver) {
            let Done::Received { socket, result, .. } = done else { panic!() };
            assert_eq!(result.unwrap(), 1);
            if socket == slow {
                return;
            }
            driver.receive(fast, Vec::new(), 1);
        }
    }
    panic!("the slow one did not have its turn");
}

fn carries_two_hundred_pairs_both_ways<D: Driver<Parts>>(mut driver: D) {
    exchange(&mut driver, 200);
}

/// Both ends of each pair send and receive 50,000 bytes of their own.
pub(super) fn exchange<D: Driver<Parts>>(driver: &mut D, pairs: usize) {
    const LEN: usize = 50_000;
    let mut expected = HashMap::new();
    for at in 0..pairs {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (driver.add(one.into()).unwrap(), driver.add(other.into()).unwrap());
        for (from, to, salt) in [(one, other, 0), (other, one, 1)] {
            let bytes = pattern(LEN + 2 * at + salt).split_off(2 * at + salt);
            driver.receive(to, Vec::new(), 8192);
            driver.send(from, Parts::new(bytes.clone()));
            expected.insert(to, bytes);
        }
    }
    let mut left = 2 * expected.len();
    while left > 0 {
        for done in some(driver) {
            match done {
                Done::Received { socket, buffer, result } => {
                    assert!(result.unwrap() > 0);
                    match buffer.len() {
                        LEN => {
                            assert!(expected.remove(&socket).unwrap() == buffer);
                            left -= 1;
                        }
                        _ => driver.receive(socket, buffer, 8192),
                    }
                }
                Done::Sent { socket, mut payload, result } => {
                    payload.sent += result.unwrap();
                    match payload.rest() {
                        0 => left -= 1,
                        _ => driver.send(socket, payload),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn sends_and_receives_on_one_socket_at_once<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    fill(&mut driver, ours);
    // The send waits; a receive works meanwhile.
    driver.receive(ours, Vec::new(), 10);
    theirs.write_all(b"here").unwrap();
    let Done::Received { buffer, .. } = one(&mut driver) else { panic!() };
    assert_eq!(buffer, b"here");
}

fn appends_to_what_a_buffer_contains<D: Driver<Parts>>(mut driver: D) {
    let (ours, mut theirs) = pair();
    let ours = driver.add(ours).unwrap();
    theirs.write_all(b"cdef").unwrap();
    driver.receive(ours, b"ab".to_vec(), 3);
    let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((buffer.as_slice(), result.unwrap()), (&b"abcde"[..], 3));
    driver.receive(ours, buffer, 1000);
    let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((buffer.as_slice(), result.unwrap()), (&b"abcdef"[..], 1));
}

#[test]
fn a_small_ring_takes_more_calls_and_loses_nothing() {
    // Two entries and eight completions, for 800 operations at once.
    let options = Options { ring_entries: 2, ..Options::default() };
    exchange(&mut Uring::new(&options).unwrap(), 200);
}

#[test]
fn a_pool_of_one_thread_is_enough() {
    let options = Options { threads: std::num::NonZeroUsize::new(1), ..Options::default() };
    exchange(&mut Pool::new(&options).unwrap(), 50);
}
