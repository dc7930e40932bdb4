//! One suite, run against every driver.
//!
//! A test is a function over a driver; [`suite`] makes three of it. A test that needs a process of
//! its own (to count descriptors, or to run out of them) starts this binary again.
//!
//! # Safety
//! Unsafe to be a payload, and to forbid a thread a system call.
#![allow(unsafe_code)]

use super::*;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

mod accepting;
mod edge;
mod endings;
mod processes;
mod refusals;
mod streams;
mod waiting;

/// The time that no step of a test may exceed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes three tests of each function, one per driver.
macro_rules! suite {
    ($($test:ident),+ $(,)?) => {
        suite! { epoll Epoll: $($test),+ }
        suite! { pool Pool: $($test),+ }
        suite! { uring Uring: $($test),+ }
    };
    ($module:ident $driver:ident: $($test:ident),+) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test($crate::sockets::$driver::new(&Default::default()).unwrap());
            })+
        }
    };
}
use suite;

/// A payload of two parts, to be sent from anywhere in it.
#[derive(Debug)]
struct Parts {
    bytes: Vec<u8>,
    cut: usize,
    sent: usize,
}

// SAFETY: as for `Bytes`: on the heap, and no code changes them.
unsafe impl Outgoing for Parts {
    fn parts(&self) -> [libc::iovec; 2] {
        let cut = self.cut.max(self.sent);
        [&self.bytes[self.sent..cut], &self.bytes[cut..]].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        })
    }
}

impl Parts {
    fn new(bytes: impl Into<Vec<u8>>) -> Parts {
        let bytes = bytes.into();
        Parts { cut: bytes.len() / 3, bytes, sent: 0 }
    }

    fn rest(&self) -> usize {
        self.bytes.len() - self.sent
    }
}

/// The next completions, at least one.
fn some<D: Driver<Parts>>(driver: &mut D) -> Vec<Done<Parts>> {
    let mut done = Vec::new();
    driver.wait(Some(PATIENCE), &mut done).unwrap();
    assert!(!done.is_empty(), "nothing came");
    done
}

/// The next completion, which is the only one.
fn one<D: Driver<Parts>>(driver: &mut D) -> Done<Parts> {
    let mut done = some(driver);
    assert_eq!(done.len(), 1, "{done:?}");
    done.remove(0)
}

/// The next `count` completions.
fn many<D: Driver<Parts>>(driver: &mut D, count: usize) -> Vec<Done<Parts>> {
    let mut done = Vec::new();
    while done.len() < count {
        done.append(&mut some(driver));
    }
    assert_eq!(done.len(), count, "{done:?}");
    done
}

/// Waits a little, and expects no completion.
fn nothing<D: Driver<Parts>>(driver: &mut D) {
    nothing_for(driver, Duration::from_millis(50));
}

/// Starts the operations; expects no completion yet.
fn nothing_now<D: Driver<Parts>>(driver: &mut D) {
    nothing_for(driver, Duration::ZERO);
}

fn nothing_for<D: Driver<Parts>>(driver: &mut D, timeout: Duration) {
    let mut done = Vec::new();
    driver.wait(Some(timeout), &mut done).unwrap();
    assert!(done.is_empty(), "{done:?}");
}

fn pair() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    theirs.set_write_timeout(Some(PATIENCE)).unwrap();
    (ours.into(), theirs)
}

fn code<T>(result: &io::Result<T>) -> i32 {
    result.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or(0)
}

/// Bytes that differ at every place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends until the kernel takes no more and the last send waits. Returns the number of bytes taken.
fn fill<D: Driver<Parts>>(driver: &mut D, socket: SocketId) -> usize {
    let (mut taken, chunk) = (0, 1 << 20);
    loop {
        driver.send(socket, Parts::new(vec![7; chunk]));
        let mut done = Vec::new();
        driver.wait(Some(Duration::from_millis(100)), &mut done).unwrap();
        match done.pop() {
            Some(Done::Sent { result, .. }) => taken += result.unwrap(),
            None => return taken,
            other => panic!("{other:?}"),
        }
    }
}
