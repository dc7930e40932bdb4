//! Scenarios of queues and channels.

use super::process::Board;
use super::scenario::{own, visit};
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{Hold, Result};
use std::path::Path;
use std::time::Duration;

const ELEMENTS: u32 = 40;
/// A queue in which a victim has company.
pub const SHARED: &str = "shared";

/// The queue that a victim moves elements in.
pub fn queue_options() -> QueueOptions {
    QueueOptions::new(ELEMENTS, 24).queues(["free", "full", "lost"]).orphans("lost")
}

/// Moves elements of a queue that others move at the same time.
pub fn mingle(shared: &Queue) -> Result<()> {
    let [free, full, lost] = ["free", "full", "lost"].map(|name| shared.named(name).unwrap());
    for (from, to) in [(free, full), (lost, free), (full, free)] {
        if let Some(element) = from.pull()? {
            element.write(0, &1u64.to_le_bytes())?;
            if let Some(other) = to.push_pull(element, from)? {
                to.push(other)?;
            }
        }
        to.push_many(&mut from.pull_many(7)?)?;
    }
    Ok(())
}

/// Makes a queue, moves elements in every way, drops it, and again; and moves those of one that is always there.
pub fn move_elements(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let shared = hold.queues().open_or_create(SHARED, queue_options())?;
    let name = own("moving", at);
    for n in 1..=4u64 {
        board.put(at, n);
        let queue = hold.queues().open_or_create(&name, queue_options())?;
        let [free, full, lost] = ["free", "full", "lost"].map(|name| queue.named(name).unwrap());
        for _ in 0..3 {
            let mut batch = free.pull_many(10)?;
            for element in batch.iter() {
                element.write(0, &n.to_le_bytes())?;
            }
            drop(batch.pop());
            full.push_many(&mut batch)?;
            let one = full.pull()?.expect("just pushed");
            let other = free.push_pull(one, full)?.expect("just pushed");
            full.push(other)?;
            drop(full.pull()?);
            free.push_many(&mut full.pull_many(100)?)?;
            free.push_many(&mut lost.pull_many(100)?)?;
            assert_eq!(free.len()?, u64::from(ELEMENTS));
            mingle(&shared)?;
        }
        drop(queue);
        if n % 2 == 0 {
            assert!(hold.queues().drop(&name)?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

/// Each element is in one of the queues, if there is a queue; nobody else has any.
pub fn elements_are_conserved(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    let name = own("moving", at);
    match hold.queues().open(&name) {
        Ok(queue) => {
            assert!(begun > done || done % 2 == 1, "a queue after round {done}");
            all_are_there(&queue);
        }
        Err(error) => assert!(error.is_not_found() && (begun > done || done % 2 == 0), "{error}"),
    }
    // Whatever happened to it, the name can be used again.
    drop(hold.queues().open_or_create(&name, queue_options()).unwrap());
    assert!(hold.queues().drop(&name).unwrap());
    all_are_there(&hold.queues().open_or_create(SHARED, queue_options()).unwrap());
}

/// Each element is in one of the queues, and nobody has any in flight.
fn all_are_there(queue: &Queue) {
    let mut batch = queue.batch();
    for named in queue.all() {
        named.pull_into(&mut batch, 1000).unwrap();
    }
    let mut ids: Vec<u32> = batch.iter().map(|element| element.id()).collect();
    ids.sort();
    queue.named("free").unwrap().push_many(&mut batch).unwrap();
    assert_eq!(ids, (0..ELEMENTS).collect::<Vec<_>>());
    assert!(queue.stat().unwrap().holders.is_empty());
}

fn message(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; (sequence * 37 % 600) as usize]
}

/// Makes a channel, is its producer and its consumers, drops it, and again.
pub fn pass_messages(path: &Path, board: &Board, at: usize) -> Result<()> {
    let (hold, name) = (visit(path)?, own("passing", at));
    for n in 1..=3u64 {
        board.put(at, n);
        let channel = hold.channels().open_or_create(&name, ChannelOptions::new(4096))?;
        let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless)?;
        let lossy = channel.consumer(Join::Now, Policy::Lossy)?;
        let patience = Duration::from_millis(1);
        let mut patient = Some(channel.consumer(Join::Now, Policy::Patient(patience))?);
        let mut producer = channel.producer()?;
        let mut buffer = Vec::new();
        // What the last round has left.
        while consumer.try_recv(&mut buffer)?.is_some() {}
        for _ in 0..60 {
            let sequence = producer.sequence();
            let bytes = message(sequence);
            // The patient one is in the way after a while.
            if producer.try_send(&bytes)?.is_none() {
                producer.send(&bytes)?;
                patient = None;
            }
            assert_eq!(consumer.recv(&mut buffer)?.sequence, sequence);
            assert!(buffer == bytes && consumer.try_recv(&mut buffer)?.is_none());
        }
        assert!(patient.is_none() && consumer.recv_timeout(&mut buffer, patience)?.is_none());
        drop((producer, consumer, lossy, channel));
        if n % 2 == 0 {
            assert!(hold.channels().drop(&name)?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

/// What the ring still has is in order and intact, if there is a channel; nobody is at it.
pub fn messages_are_whole(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    let name = own("passing", at);
    match hold.channels().open(&name) {
        Ok(channel) => {
            assert!(begun > done || done % 2 == 1, "a channel after round {done}");
            let stat = channel.stat().unwrap();
            assert!(stat.producer.is_none() && stat.consumers.is_empty(), "{stat:?}");
            let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
            let mut buffer = Vec::new();
            for sequence in consumer.sequence()..stat.sequence {
                let received = consumer.try_recv(&mut buffer).unwrap();
                assert_eq!(received.map(|received| received.sequence), Some(sequence));
                assert_eq!(buffer, message(sequence));
            }
            assert_eq!(channel.producer().unwrap().send(b"more").unwrap(), stat.sequence);
        }
        Err(error) => assert!(error.is_not_found() && (begun > done || done % 2 == 0), "{error}"),
    }
    // Whatever happened to it, the name can be used again.
    drop(hold.channels().open_or_create(&name, ChannelOptions::new(4096)).unwrap());
    assert!(hold.channels().drop(&name).unwrap());
}
