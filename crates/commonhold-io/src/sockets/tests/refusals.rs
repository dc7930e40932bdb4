//! A refused operation comes back, with the reason.

use super::*;

suite![refuses_a_second_operation_of_a_kind, refuses_what_names_no_socket, refuses_nonsense];

fn refuses_a_second_operation_of_a_kind<D: Driver<Parts>>(mut driver: D) {
    let (ours, _theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, Vec::new(), 100);
    nothing(&mut driver);
    driver.receive(ours, b"second".to_vec(), 100);
    let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((buffer.as_slice(), code(&result)), (&b"second"[..], libc::EALREADY));
    fill(&mut driver, ours);
    driver.send(ours, Parts::new("second"));
    let Done::Sent { payload, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((payload.bytes.as_slice(), code(&result)), (&b"second"[..], libc::EALREADY));
}

fn refuses_what_names_no_socket<D: Driver<Parts>>(mut driver: D) {
    let astray = [0, 1, u64::MAX, u64::MAX - 1, 1 << 32].map(SocketId::from_bits);
    for id in astray {
        driver.receive(id, b"back".to_vec(), 100);
        driver.send(id, Parts::new("back"));
        driver.accept(id);
        for done in many(&mut driver, 3) {
            let refused = match done {
                Done::Received { result, buffer, .. } => {
                    assert_eq!(buffer, b"back");
                    code(&result)
                }
                Done::Sent { result, payload, .. } => {
                    assert_eq!(payload.bytes, b"back");
                    code(&result)
                }
                Done::Accepted { result, .. } => code(&result),
                Done::Woken => 0,
            };
            assert_eq!(refused, libc::EBADF);
        }
        driver.pause(id);
        driver.shut(id);
        assert!(driver.release(id).is_none());
        nothing_now(&mut driver);
    }
}

fn refuses_nonsense<D: Driver<Parts>>(mut driver: D) {
    let (ours, _theirs) = pair();
    let ours = driver.add(ours).unwrap();
    driver.receive(ours, b"back".to_vec(), 0);
    let Done::Received { buffer, result, .. } = one(&mut driver) else { panic!() };
    assert_eq!((buffer.as_slice(), code(&result)), (&b"back"[..], libc::EINVAL));
    // An empty send is not an error.
    driver.send(ours, Parts::new(""));
    assert!(matches!(one(&mut driver), Done::Sent { result: Ok(0), .. }));
}
