//! Scripts of what processes do to maps, and the scenarios that they make. The tests and the
//! command of this crate call it.

use super::{Act, Lock, Order};

/// Makes a map: under the names lock, with growth.
#[must_use]
pub fn make() -> Vec<Act> {
    use Act::{Lock as L, Making, Unlock as U};
    let (names, growth) = (Lock::Names, Lock::Growth);
    vec![L(names), Making(true), L(growth), U(growth), Making(false), U(names)]
}

/// Drops the map: under the names lock, each segment once.
#[must_use]
pub fn drop_map() -> Vec<Act> {
    use Act::{Dropping, Lock as L, Unlock as U};
    let (names, first, second) = (Lock::Names, Lock::Segment(0), Lock::Segment(1));
    let [begin, end] = [Dropping(true), Dropping(false)];
    vec![L(names), begin, L(first), U(first), L(second), U(second), end, U(names)]
}

/// Splits a segment: memory for the child, then the directory, then what only goes forward.
#[must_use]
pub fn split(number: u8) -> Vec<Act> {
    use Act::{Lock as L, Publishing, Unlock as U};
    let (segment, directory, growth) = (Lock::Segment(number), Lock::Directory, Lock::Growth);
    let [begin, end] = [true, false].map(|b| Publishing(number, b));
    vec![L(segment), L(growth), U(growth), L(directory), begin, U(directory), end, U(segment)]
}

/// Doubles the directory with memory for a new chunk.
#[must_use]
pub fn double(number: u8) -> Vec<Act> {
    use Act::{Lock as L, Unlock as U};
    let (segment, directory, growth) = (Lock::Segment(number), Lock::Directory, Lock::Growth);
    vec![L(segment), L(directory), L(growth), U(growth), U(directory), U(segment)]
}

/// Changes a pair.
#[must_use]
pub fn write(number: u8) -> Vec<Act> {
    vec![Act::Lock(Lock::Segment(number)), Act::Unlock(Lock::Segment(number))]
}

/// Scenarios in which the second process may be stopped while another one dies.
#[must_use]
pub fn stopping() -> Vec<(&'static str, Order)> {
    let stopping = |scripts: &[Vec<Act>]| Order::new(&[0, 1, 2], scripts).stopping(1);
    vec![
        ("split, stopped double, write", stopping(&[split(0), double(1), write(0)])),
        ("split, stopped split, split", stopping(&[split(0), split(1), split(0)])),
        ("make, stopped make, double", stopping(&[make(), make(), double(0)])),
        ("double, stopped make, split", stopping(&[double(0), make(), split(1)])),
    ]
}

/// Every scenario with its name. In the first one of three single-threaded processes one is killed.
#[must_use]
pub fn all() -> Vec<(&'static str, Order)> {
    vec![
        ("make, split, drop", Order::new(&[0, 1, 2], &[make(), split(0), drop_map()])),
        ("two drops and a split", Order::new(&[0, 1, 2], &[drop_map(), split(0), drop_map()])),
        ("double with threads", Order::new(&[0, 0, 1], &[split(0), make(), double(1)])),
        ("drop with threads", Order::new(&[0, 0, 1, 2], &[drop_map(), make(), split(0), make()])),
    ]
}
