//! What the handles of one process on a queue have in common: being attached, and the elements in
//! flight that they know by number.

use crate::support::queues::{lens, make, sound};
use crate::support::refused;
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold};
use std::sync::Barrier;

fn options(elements: u32) -> QueueOptions {
    QueueOptions::new(elements, 16).queues(["free", "a2b"])
}

/// The last handle decides whether the process stays attached. An element in flight that another
/// handle pushes later keeps nobody from dropping the queue.
#[test]
fn a_process_is_attached_as_long_as_it_has_handles_or_elements() {
    let (_test_dir, hold, first) = make(options(3));
    let other = Hold::open(hold.path()).unwrap();
    let second = hold.queues().open("it").unwrap();
    let element = second.named("free").unwrap().pull().unwrap().unwrap();
    drop(first);
    refused(other.queues().drop("it"), ErrorKind::Busy, "has it open");
    second.named("a2b").unwrap().push(element).unwrap();
    let raw = second.named("a2b").unwrap().pull().unwrap().unwrap().into_raw();
    drop(second);
    refused(other.queues().drop("it"), ErrorKind::Busy, "has it open");
    let third = hold.queues().open("it").unwrap();
    third.named("a2b").unwrap().push(third.element(raw).unwrap()).unwrap();
    drop(third);
    assert!(other.queues().drop("it").unwrap());
    sound(&hold);
}

/// A number is an element's as long as the element is in flight, also while no handle is open.
#[test]
fn a_number_outlives_the_handles_of_its_queue() {
    let (_test_dir, hold, queue) = make(options(3));
    let raw = queue.named("free").unwrap().pull().unwrap().unwrap().into_raw();
    drop(queue);
    let again = hold.queues().open("it").unwrap();
    let element = again.element(raw).unwrap();
    refused(again.element(raw), ErrorKind::Invalid, "not in flight");
    again.named("a2b").unwrap().push(element).unwrap();
    assert_eq!(lens(&again), [2, 1]);
    sound(&hold);
}

/// A large queue, so that preparing to know its elements takes long.
#[test]
fn handles_that_are_opened_at_once_know_the_same_numbers() {
    let (_test_dir, hold, queue) = make(options(1 << 20));
    drop(queue);
    for _ in 0..20 {
        let together = Barrier::new(2);
        let open = || {
            together.wait();
            hold.queues().open("it").unwrap()
        };
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(open);
            let two = open();
            (one.join().unwrap(), two)
        });
        let raw = one.named("free").unwrap().pull().unwrap().unwrap().into_raw();
        let element = two.element(raw).expect("the other handle knows it");
        two.named("free").unwrap().push(element).unwrap();
    }
    sound(&hold);
}
