//! Operations of queues, channels and logs.

use crate::measured;
use anyhow::{Context, Result, bail, ensure};
use commonhold::Hold;
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::{LogLevel, LogOptions, Written};
use commonhold::queue::QueueOptions;

/// A message or a line.
const MESSAGE: [u8; 32] = [b'm'; 32];
/// Elements of one batch.
const BATCH: u32 = 1000;

/// Runs `push`, `pull`, `push_many`, `pull_many`; of batches, the count is that of elements.
pub fn run_queue(hold: &Hold, operation: &str, count: u32) -> Result<()> {
    let options = QueueOptions::new(count, 32).queues(["from", "to"]);
    let queue = hold.queues().create("queue", options)?;
    let (from, to) = (queue.named("from")?, queue.named("to")?);
    match operation {
        "pull" => {
            let mut pulled = Vec::with_capacity(count as usize);
            measured(count, |_| {
                pulled.push(from.pull()?.context("the queue is empty")?);
                Ok(())
            })
        }
        "push" => {
            let mut pulled = Vec::with_capacity(count as usize);
            while let Some(element) = from.pull()? {
                pulled.push(element);
            }
            measured(count, |_| Ok(to.push(pulled.pop().context("too few elements")?)?))
        }
        "move_many" => {
            let mut batch = queue.batch();
            measured(count / BATCH, |_| {
                ensure!(from.pull_into(&mut batch, BATCH as usize)? == BATCH as usize);
                Ok(to.push_many(&mut batch)?)
            })
        }
        "pull_empty" => measured(count, |_| {
            ensure!(to.pull()?.is_none());
            Ok(())
        }),
        _ => bail!("no operation of a queue is called '{operation}'"),
    }
}

/// Runs `send` and `recv`. The ring has room for all messages.
pub fn run_channel(hold: &Hold, operation: &str, count: u32) -> Result<()> {
    let channel = hold.channels().create("channel", ChannelOptions::new(64 << 20))?;
    let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless)?;
    let mut producer = channel.producer()?;
    let mut send = |_| {
        producer.send(&MESSAGE)?;
        Ok(())
    };
    if operation == "send" {
        return measured(count, send);
    }
    (0..count).try_for_each(&mut send)?;
    let mut message = Vec::with_capacity(64);
    match operation {
        "recv" => measured(count, |_| {
            consumer.recv(&mut message)?;
            Ok(())
        }),
        _ => bail!("no operation of a channel is called '{operation}'"),
    }
}

/// Runs `write` and `collect`. The ring has room for all lines.
pub fn run_log(hold: &Hold, operation: &str, count: u32) -> Result<()> {
    let log = hold.logs().create("log", LogOptions::new().ring_bytes(16 << 20))?;
    let write = |_| {
        ensure!(log.write(LogLevel::Info, MESSAGE)? == Written::Accepted);
        Ok(())
    };
    if operation == "write" {
        return measured(count, write);
    }
    (0..count).try_for_each(write)?;
    let mut collector = log.collector()?;
    match operation {
        // All lines in one turn; the text goes nowhere.
        "collect" => measured(1, |_| {
            let round = collector.finish(&mut std::io::sink())?;
            ensure!(round.lines > u64::from(count) && round.lost == 0);
            Ok(())
        }),
        _ => bail!("no operation of a log is called '{operation}'"),
    }
}
