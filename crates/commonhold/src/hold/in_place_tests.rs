//! Parts of values that change in place meanwhile.

use crate::Hold;
use crate::map::engine::take::ReadValue;
use crate::map::{Map, MapOptions};
use std::sync::atomic::{AtomicBool, Ordering};

const KEY: &[u8] = b"12345678";

/// The beginning of a value, for a caller that has room for 3 bytes.
fn beginning(map: &Map) -> [u8; 3] {
    let mut room = [0; 3];
    let key = (map.bound.hasher.hash(KEY), KEY);
    assert_eq!(map.lookup(&map.bound, key, ReadValue(&mut room)).unwrap(), Some(8));
    room
}

#[test]
fn a_part_of_a_value_is_of_one_value() {
    // In memory: records on a disk do not change in place.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(dir.path().join("it.hold")).unwrap();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    map.set(KEY, [0; 8]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in (0..=255u8).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                map.set(KEY, [byte; 8]).unwrap();
            }
        });
        for _ in 0..100_000 {
            let [a, b, c] = beginning(&map);
            assert!(a == b && b == c, "torn: {a} {b} {c}");
        }
        done.store(true, Ordering::Relaxed);
    });
}
