//! Queues and channels of a copy, with the messages in them. No other process has the hold open.

use commonhold::Hold;
use commonhold::channel::{Join, Policy};
use commonhold::queue::NamedQueue;
use commonhold_terminal::failure::{Failure, Result};

/// Copies a queue with its elements, each in its named queue; their number.
pub fn queue(from: &Hold, to: &Hold, name: &str) -> Result<u64> {
    let from = from.queues().open(name)?;
    let to = to.queues().create(name, from.options())?;
    // All elements begin in the first queue.
    let Some(first) = to.all().next() else { return Ok(0) };
    let mut unused = first.pull_many(usize::MAX)?;
    let mut count = 0;
    for named in from.all() {
        for bytes in contents(named)? {
            let element = unused.pop().ok_or_else(|| too_many(name))?;
            element.write(0, &bytes)?;
            to.named(named.name())?.push(element)?;
            count += 1;
        }
    }
    first.push_many(&mut unused)?;
    Ok(count)
}

fn too_many(name: &str) -> Failure {
    Failure::failed(format!(
        "queue '{name}': has more elements than it was created with; see 'hold check'"
    ))
}

/// The bytes of all elements in a queue, which are in it again afterwards, in the same order. If
/// this process is killed meanwhile, they are in the orphan queue.
fn contents(named: NamedQueue<'_>) -> Result<Vec<Vec<u8>>> {
    let mut elements = named.pull_many(usize::MAX)?;
    let contents: commonhold::Result<_> = elements.iter().map(|one| one.to_vec()).collect();
    named.push_many(&mut elements)?;
    Ok(contents?)
}

/// Copies a channel with the messages that it keeps; their number.
pub fn channel(from: &Hold, to: &Hold, name: &str) -> Result<u64> {
    let from = from.channels().open(name)?;
    let to = to.channels().create(name, from.options())?;
    let mut consumer = from.consumer(Join::Oldest, Policy::Lossy)?;
    let mut producer = to.producer()?;
    let (mut message, mut count) = (Vec::new(), 0);
    while consumer.try_recv(&mut message)?.is_some() {
        producer.send(&message)?;
        count += 1;
    }
    Ok(count)
}
