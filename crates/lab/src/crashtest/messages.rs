//! Messages while processes are killed and stopped: a queue, a channel and a log besides the maps.
//!
//! Their contents verify themselves, so no process needs to know what others did: an element of the
//! two queues at work names itself; a message is a function of its number, and numbers have no
//! gaps; a line names its writer and its number. Elements arrive in the orphan queue as the dead
//! left them, perhaps half written.
//!
//! Invariant: every element is in one queue, or in flight in a live process.

use crate::workload::{Result, RunError};
use commonhold::channel::{Channel, ChannelOptions, Join, Policy, Received};
use commonhold::log::{Log, LogLevel, LogOptions, Written};
use commonhold::queue::{Element, Queue, QueueOptions};
use commonhold::{ErrorKind, Hold};
use std::collections::HashMap;
use std::io::sink;
use std::time::Duration;

const ELEMENTS: u32 = 24;
const ELEMENT_BYTES: usize = 24;
const LOST: &str = "lost";
const AT_WORK: [&str; 2] = ["there", "back"];
const RING_BYTES: u64 = 16 << 10;
const RINGS: u32 = 16;
/// The time limit of calls that need not wait for a living process.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of messages that a consumer reads before it leaves.
const READS: u32 = 60;
/// The structures' names, and those of the ones that come and go.
const NAMES: [&str; 3] = ["elements", "messages", "lines"];
const PASSING: [&str; 3] = ["passing-queue", "passing-channel", "passing-log"];

/// The structures, open; and how many lines this thread has written.
pub struct Messages {
    queue: Queue,
    channel: Channel,
    log: Log,
    lines: u64,
}

impl Messages {
    /// Opens the structures, and creates missing ones.
    pub fn open(hold: &Hold) -> Result<Messages> {
        let (queue, channel, log) = open(hold, NAMES)?;
        Ok(Messages { queue, channel, log, lines: 0 })
    }

    /// A random operation on one of them.
    pub fn step(&mut self, rng: &mut fastrand::Rng, writer: u64) -> Result<()> {
        match rng.u8(..8) {
            0..=3 => self.pass_on(rng),
            4 => self.send(rng),
            5 => self.receive(rng),
            6 => self.write(rng, writer),
            _ => self.collect(),
        }
    }

    /// Pulls some elements from one queue, stamps them, and pushes them to another.
    pub fn pass_on(&self, rng: &mut fastrand::Rng) -> Result<()> {
        let from = [LOST, AT_WORK[0], AT_WORK[1]][rng.usize(..3)];
        let to = self.queue.named(AT_WORK[rng.usize(..2)])?;
        let most = rng.usize(1..6);
        let mut pulled = self.queue.batch();
        match rng.u8(..4) {
            0 => {
                let patience = Duration::from_micros(100);
                let queue = self.queue.named(from)?;
                match queue.pull_into_timeout(&mut pulled, most, patience) {
                    // A process that is stopped while it pulls holds that end of the queue.
                    Err(error) if error.kind() == ErrorKind::TimedOut => {}
                    other => drop(other?),
                }
            }
            _ => drop(self.queue.named(from)?.pull_into(&mut pulled, most)?),
        }
        let mut stamped = self.queue.batch();
        while let Some(element) = pulled.pop() {
            stamp(&element, from)?;
            stamped.add(element)?;
        }
        // A single element moves by itself, now and then together with another pulled one.
        if stamped.len() == 1
            && let Some(element) = stamped.pop()
        {
            let other = to.push_pull(element, self.queue.named(from)?)?;
            return other.map_or(Ok(()), |other| {
                stamp(&other, from)?;
                Ok(to.push(other)?)
            });
        }
        Ok(to.push_many(&mut stamped)?)
    }

    /// Becomes the producer, unless there is one, and sends what there is room for.
    pub fn send(&self, rng: &mut fastrand::Rng) -> Result<()> {
        let mut producer = match self.channel.producer() {
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(()),
            other => other?,
        };
        for _ in 0..rng.u32(1..40) {
            let number = producer.sequence();
            match producer.try_send(&message(number))? {
                None => break,
                Some(sent) if sent == number => {}
                Some(sent) => {
                    return Err(RunError::new(format!("message {number} was sent as {sent}")));
                }
            }
        }
        Ok(())
    }

    /// Joins as a consumer and reads on for a while.
    pub fn receive(&self, rng: &mut fastrand::Rng) -> Result<()> {
        let policies = [Policy::Lossless, Policy::Lossy, Policy::Patient(Duration::from_millis(2))];
        let policy = policies[rng.usize(..policies.len())];
        let from = if rng.bool() { Join::Oldest } else { Join::Now };
        let mut consumer = match self.channel.consumer(from, policy) {
            Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::Busy) => {
                return Ok(());
            }
            other => other?,
        };
        let (mut buffer, mut next) = (Vec::new(), consumer.sequence());
        for _ in 0..READS {
            let received = match consumer.try_recv(&mut buffer) {
                Err(_) if matches!(policy, Policy::Patient(_)) => return Ok(()),
                other => other?,
            };
            let Some(received) = received else { break };
            if policy == Policy::Lossy {
                next += received.missed;
            }
            if received.sequence != next || buffer != message(next) {
                let what = format!("expected message {next}, got {}", received.sequence);
                return Err(RunError::new(format!("{policy:?} consumer: {what}, or it is torn")));
            }
            next += 1;
        }
        Ok(())
    }

    /// Writes some lines.
    pub fn write(&mut self, rng: &mut fastrand::Rng, writer: u64) -> Result<()> {
        for _ in 0..rng.u32(1..20) {
            let line = line(writer, self.lines);
            if self.log.write(LogLevel::Info, line)? == Written::Accepted {
                self.lines += 1;
            }
        }
        Ok(())
    }

    /// Becomes the collector, unless there is one, and collects what there is.
    pub fn collect(&self) -> Result<()> {
        match self.log.collector() {
            Err(error) if error.kind() == ErrorKind::Busy => Ok(()),
            collector => collector?.poll(&mut sink()).map(drop).map_err(RunError::from),
        }
    }

    /// Verifies everything while no process works.
    pub fn look(&self) -> Result<()> {
        self.look_at_elements()?;
        self.look_at_messages()?;
        self.look_at_lines()
    }

    /// Each element is in one of the queues.
    fn look_at_elements(&self) -> Result<()> {
        let mut found = [0u32; ELEMENTS as usize];
        for name in [LOST, AT_WORK[0], AT_WORK[1]] {
            let named = self.queue.named(name)?;
            let mut all = named.pull_many(ELEMENTS as usize + 1)?;
            let mut ids = Vec::new();
            let mut seen = self.queue.batch();
            while let Some(element) = all.pop() {
                ids.push(element.id());
                stamp(&element, name)?;
                seen.add(element)?;
            }
            named.push_many(&mut seen)?;
            ids.iter().for_each(|id| found[*id as usize] += 1);
        }
        match found.iter().position(|count| *count != 1) {
            None => Ok(()),
            Some(id) => Err(RunError::new(format!("element {id} is in {} queues", found[id]))),
        }
    }

    /// All kept messages can be read, and a dead process at either end prevents no other from
    /// sending.
    fn look_at_messages(&self) -> Result<()> {
        let mut consumer = self.channel.consumer(Join::Oldest, Policy::Lossless)?;
        let (mut buffer, mut next) = (Vec::new(), consumer.sequence());
        let right = |next: u64, found: Option<Received>, buffer: &[u8]| match found
            .map(|found| found.sequence)
            == Some(next)
            && buffer == message(next)
        {
            true => Ok(next + 1),
            false => Err(RunError::new(format!("message {next} is lost or torn: {found:?}"))),
        };
        while let Some(received) = consumer.try_recv(&mut buffer)? {
            next = right(next, Some(received), &buffer)?;
        }
        let sent = self.channel.producer()?.send_timeout(&message(next), PATIENCE)?;
        if sent != Some(next) {
            return Err(RunError::new(format!("message {next} was sent as {sent:?}")));
        }
        let received = consumer.recv_timeout(&mut buffer, PATIENCE)?;
        right(next, received, &buffer).map(drop)
    }

    /// Each writer's lines are whole and in order.
    fn look_at_lines(&self) -> Result<()> {
        let mut last = HashMap::new();
        for found in self.log.dump()?.iter().filter(|found| found.level.is_some()) {
            let text = String::from_utf8_lossy(&found.text);
            let mut words = text.split(' ').map(str::parse::<u64>);
            let (Some(Ok(writer)), Some(Ok(number))) = (words.next(), words.next()) else {
                return Err(RunError::new(format!("a line that no process wrote: {text:?}")));
            };
            if text != line(writer, number) {
                return Err(RunError::new(format!("a torn line: {text:?}")));
            }
            let before = last.insert((writer, found.thread), number);
            if before.is_some_and(|before| before >= number) {
                return Err(RunError::new(format!(
                    "writer {writer}: line {number} is out of order"
                )));
            }
        }
        self.log.collector()?.finish(&mut sink())?;
        Ok(())
    }
}

/// Creates structures of every kind and drops them, unless another process has them open.
pub fn come_and_go(hold: &Hold) -> Result<()> {
    drop(open(hold, PASSING)?);
    let [queue, channel, log] = PASSING;
    for dropped in [hold.queues().drop(queue), hold.channels().drop(channel), hold.logs().drop(log)]
    {
        if let Err(error) = dropped
            && error.kind() != ErrorKind::Busy
        {
            return Err(error.into());
        }
    }
    Ok(())
}

fn open(hold: &Hold, names: [&str; 3]) -> Result<(Queue, Channel, Log)> {
    let [queue, channel, log] = names;
    let elements = QueueOptions::new(ELEMENTS, ELEMENT_BYTES as u32)
        .queues([LOST, AT_WORK[0], AT_WORK[1]])
        .orphans(LOST);
    Ok((
        hold.queues().open_or_create(queue, elements)?,
        hold.channels().open_or_create(channel, ChannelOptions::new(RING_BYTES))?,
        hold.logs().open_or_create(log, LogOptions::new().rings(RINGS).ring_bytes(RING_BYTES))?,
    ))
}

/// Verifies the stamp of the last owner in an element of that queue, and writes the next stamp.
fn stamp(element: &Element<'_>, queue: &str) -> Result<()> {
    let id = u64::from(element.id());
    let mut bytes = [0; ELEMENT_BYTES];
    element.read(0, &mut bytes)?;
    let count = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
    if queue != LOST && bytes != stamped(id, count) {
        return Err(RunError::new(format!("element {id} in queue {queue}: {bytes:02x?}")));
    }
    Ok(element.write(0, &stamped(id, count.wrapping_add(1)))?)
}

fn stamped(id: u64, count: u64) -> [u8; ELEMENT_BYTES] {
    let mut bytes = [0; ELEMENT_BYTES];
    for (part, word) in bytes.chunks_exact_mut(8).zip([id, count, id ^ !count]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The contents of message `number`, with a length of its own.
fn message(number: u64) -> Vec<u8> {
    let len = 8 + (number.wrapping_mul(0x9e37_79b9) % 700) as usize;
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn line(writer: u64, number: u64) -> String {
    format!("{writer} {number} {}", "x".repeat((writer ^ number) as usize % 50))
}
