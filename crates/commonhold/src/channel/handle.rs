//! [`Channel`]: the handle on a channel; opening and dropping a channel.

use crate::channel::bound::{self, Bound};
use crate::channel::consumer::Consumer;
use crate::channel::layout::Word;
use crate::channel::options::{ChannelOptions, Join, Policy};
use crate::channel::producer::Producer;
use crate::channel::status::{self, ChannelStat};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::block::{self, Block, Incarnation, Wanted};
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A channel in a hold: one producer sends messages, and every consumer receives all of them, in
/// any process.
///
/// The messages are in a ring buffer in shared memory. A message may be as long as a quarter of the
/// ring. A handle is cheap to clone.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-channel-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("market.hold");
/// use commonhold::{Hold, channel::{ChannelOptions, Join, Policy}};
///
/// let hold = Hold::open_or_create(&path)?;
/// let ticks = hold.channels().open_or_create("ticks", ChannelOptions::new(1 << 16))?;
/// let mut consumer = ticks.consumer(Join::Now, Policy::Lossless)?; // usually in another process
/// let mut producer = ticks.producer()?;
/// producer.send(b"apple 12.50")?;
/// let mut message = Vec::new();
/// assert_eq!(consumer.recv(&mut message)?.sequence, 0);
/// assert_eq!(message, b"apple 12.50");
/// # drop((consumer, producer, ticks, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct Channel {
    bound: Arc<Bound>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Channel {
    /// The channel's name.
    pub fn name(&self) -> &str {
        &self.bound.block.name
    }

    /// The options that the channel was created with.
    pub fn options(&self) -> ChannelOptions {
        ChannelOptions::new(self.bound.ring.size())
    }

    /// Becomes the producer. Messages that were sent before stay, and the sequence numbers
    /// continue.
    ///
    /// # Errors
    /// `Busy`, which names the slot and the process, while another producer lives, even in this
    /// process; `ReadOnly`; `NotFound` if the channel was dropped; `Closed`; `Damaged`.
    pub fn producer(&self) -> Result<Producer> {
        Producer::new(&self.bound)
    }

    /// Becomes a consumer. A consumer of a read-only handle must be lossy, because any other
    /// consumer records in the hold how far it has read. A read-only consumer polls while it waits,
    /// at least every two milliseconds, because no producer can see that it waits.
    ///
    /// # Errors
    /// `Full` if there are 64 consumers already; `ReadOnly`; `NotFound` if the channel was dropped;
    /// `Closed`; `Damaged`.
    pub fn consumer(&self, from: Join, policy: Policy) -> Result<Consumer> {
        self.ensure()?;
        Consumer::new(&self.bound, from, policy)
    }

    /// Sizes, the producer, and the consumers with their lag.
    ///
    /// # Errors
    /// `NotFound` if the channel was dropped; `Closed`; `Damaged`.
    pub fn stat(&self) -> Result<ChannelStat> {
        self.ensure()?;
        status::stat(&self.bound)
    }

    fn ensure(&self) -> Result<()> {
        self.bound.arena.ensure_open()?;
        match self.bound.is_current() {
            true => Ok(()),
            false => {
                Err(self.bound.error(ErrorKind::NotFound, "was dropped; open it again by name"))
            }
        }
    }
}

/// The incarnation of the channel that this handle is bound to.
pub fn channel_incarnation(channel: &Channel) -> Incarnation {
    channel.bound.block.incarnation()
}

/// Opens the channel of this name, or creates it if options are given. `None` if there is none.
///
/// # Errors
/// `Mismatch` if it exists with another ring or as another kind; `Invalid`; `Full`; `ReadOnly`.
pub(crate) fn open(
    arena: &Arc<Arena>,
    name: &str,
    options: Option<ChannelOptions>,
    existing: Existing,
) -> Result<Option<Channel>> {
    if let Some(options) = options {
        options.check()?;
    }
    let bound = match arena.participant() {
        Some(_) => open_writable(arena, name, options, existing)?,
        None => open_read_only(arena, name)?,
    };
    let Some(bound) = bound else { return Ok(None) };
    let channel = Channel { bound: Arc::new(bound) };
    if options.is_some_and(|options| options != channel.options()) {
        let text = format!(
            "channel '{name}' exists with a ring of {} bytes; open it with that size",
            channel.options().ring_bytes
        );
        return Err(Error::new(ErrorKind::Mismatch, text));
    }
    Ok(Some(channel))
}

fn open_writable(
    arena: &Arc<Arena>,
    name: &str,
    options: Option<ChannelOptions>,
    existing: Existing,
) -> Result<Option<Bound>> {
    let bytes = options.map_or(0, |options| bound::bytes(options.ring_bytes));
    let wanted = Wanted { kind: StructureKind::Channel, name, bytes, existing };
    let fill: &dyn Fn(&Space, &Block) = &bound::fill;
    let attachment = block::open(arena, &wanted, options.map(|_| fill))?;
    let Some(attachment) = attachment else { return Ok(None) };
    Bound::new(arena, attachment.block.clone(), Some(attachment)).map(Some)
}

fn open_read_only(arena: &Arc<Arena>, name: &str) -> Result<Option<Bound>> {
    let space = &arena.space;
    roots::check_name(StructureKind::Channel, name)?;
    roots::check_kind(space, name, StructureKind::Channel)?;
    let Some((id, root)) = roots::find(space, name) else { return Ok(None) };
    Bound::new(arena, Block::bind(space, id, root)?, None).map(Some)
}

/// Drops the channel of this name with all messages; false if there is none.
///
/// # Errors
/// `Busy`, which names slot and process, while another participant has it open, or while this
/// participant has a producer or consumer of it.
pub(crate) fn drop_named(arena: &Arena, name: &str) -> Result<bool> {
    block::drop_named(arena, StructureKind::Channel, name, &no_own_endpoint)
}

/// The channel's endpoint slots store into the block without an operation, so there must be none.
fn no_own_endpoint(space: &Space, block: &Block, lane: &LaneGuard<'_>) -> Result<()> {
    let Some(head) = bound::head(space, block) else { return Ok(()) };
    let own = |word: u64| Word(word).owner() == Some(lane.me());
    let lines = (0..head.lines_used()).map(|number| bound::line(space, block, number));
    let mut words = lines.map(|line| line.word.load(Ordering::Acquire));
    if own(head.producer.load(Ordering::Acquire)) || words.any(own) {
        let text = format!(
            "channel '{}': this process has a producer or consumer open; drop it first",
            block.name
        );
        return Err(Error::new(ErrorKind::Busy, text));
    }
    Ok(())
}
