//! Batches of elements that another language keeps by number.

use crate::support::queues::{lens, make, sound};
use crate::support::refused;
use commonhold::ErrorKind;
use commonhold::queue::{Queue, QueueOptions};
use commonhold::raw::{self, RawElement};
use std::sync::Barrier;

fn options(elements: u32) -> QueueOptions {
    QueueOptions::new(elements, 16).queues(["free", "a2b", "b2a"])
}

/// The elements of a batch that another language keeps by number.
fn pull_raw(queue: &Queue, name: &str, max: usize) -> Vec<RawElement> {
    let mut pulled = Vec::new();
    let count = raw::pull_raw(queue.named(name).unwrap(), max, None, |at, element| {
        assert_eq!(at, pulled.len());
        pulled.push(element);
    });
    assert_eq!(count.unwrap(), pulled.len());
    pulled
}

fn push_raw(queue: &Queue, name: &str, elements: &[RawElement]) -> commonhold::Result<()> {
    raw::push_raw(queue.named(name).unwrap(), elements, |element| *element)
}

#[test]
fn a_batch_of_numbers_moves_whole_or_not_at_all() {
    let (_test_dir, hold, queue) = make(options(8));
    let other = hold.queues().open_or_create("other", options(8)).unwrap();
    let elements = pull_raw(&queue, "free", 5);
    let theirs = pull_raw(&other, "free", 5);
    assert_eq!((elements.len(), elements[0].len, elements[0].id), (5, 16, theirs[0].id));
    let refuses = |elements: &[RawElement], text: &str| {
        refused(push_raw(&queue, "a2b", elements), ErrorKind::Invalid, text);
        assert_eq!(lens(&queue), [3, 0, 0]);
    };
    let with = |last: RawElement| [&elements[..], &[last]].concat();
    refuses(&with(elements[1]), "is present twice");
    refuses(&[&elements[..4], &[theirs[4]]].concat(), "belongs to another queue");
    refuses(&with(RawElement { owner: elements[0].owner ^ 1, ..elements[1] }), "twice");
    refuses(&with(RawElement { id: 7, owner: 1 << 20, ..elements[0] }), "in the same process");
    refuses(&with(RawElement { id: 7, ..elements[0] }), "in flight");
    refuses(&with(RawElement { id: 1 << 30, ..elements[0] }), "in flight");
    push_raw(&queue, "a2b", &elements).unwrap();
    push_raw(&queue, "a2b", &[]).unwrap();
    refused(push_raw(&queue, "b2a", &elements), ErrorKind::Invalid, "in flight");
    // In their order, and as values again.
    let again = pull_raw(&queue, "a2b", 9);
    assert!(again.iter().map(|e| e.id).eq(elements.iter().map(|e| e.id)));
    for element in again {
        let element = queue.element((element.id, element.owner)).unwrap();
        queue.named("free").unwrap().push(element).unwrap();
    }
    push_raw(&other, "free", &theirs).unwrap();
    assert_eq!((lens(&queue), lens(&other)), (vec![8, 0, 0], vec![8, 0, 0]));
    sound(&hold);
}

/// Two threads that push the same numbers at the same moment: one of them does.
#[test]
fn a_number_is_pushed_by_one_thread_only() {
    let (_test_dir, hold, queue) = make(options(64));
    for round in 0..2_000 {
        let ids: Vec<_> =
            pull_raw(&queue, "free", 64).iter().map(|e| (e.id, e.owner, e.bytes.addr())).collect();
        let start = Barrier::new(2);
        let push = |name: &str| {
            let element = |(id, owner, at): &(u32, u32, usize)| RawElement {
                id: *id,
                owner: *owner,
                bytes: std::ptr::without_provenance_mut(*at),
                len: 16,
            };
            start.wait();
            raw::push_raw(queue.named(name).unwrap(), &ids, element).is_ok()
        };
        let pushed = std::thread::scope(|scope| {
            let other = scope.spawn(|| push("b2a"));
            [push("a2b"), other.join().unwrap()]
        });
        // Each may meet an element that the other has just claimed; then it gives back its own.
        let moved = pushed.map(|pushed| if pushed { 64 } else { 0 });
        assert_eq!(lens(&queue), [0, moved[0], moved[1]], "round {round}");
        assert!(pushed != [true, true]);
        if pushed == [false, false] {
            assert!(push_again(&queue, &ids));
        }
        let from = if pushed[1] { "b2a" } else { "a2b" };
        push_raw(&queue, "free", &pull_raw(&queue, from, 64)).unwrap();
    }
    sound(&hold);
}

fn push_again(queue: &Queue, ids: &[(u32, u32, usize)]) -> bool {
    let value = |(id, owner, _): &(u32, u32, usize)| queue.element((*id, *owner)).unwrap();
    ids.iter().all(|raw| queue.named("a2b").unwrap().push(value(raw)).is_ok())
}
