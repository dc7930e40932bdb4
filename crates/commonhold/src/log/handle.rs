//! [`Log`]: the public handle.
//!
//! The path of a line: a look at the level, the thread's slot, the clock, a copy, one store. It has
//! no lock, no system call, no locked instruction and no allocation. Slower work (a thread's first
//! line, a fork, a full ring) is off this path.

use crate::error::{Error, ErrorKind, Result};
use crate::log::collect::Collector;
use crate::log::layout::{self, Header, Layout, tenant};
use crate::log::line::{self, LogLine};
use crate::log::lost_lines::LostLines;
use crate::log::merge;
use crate::log::options::{LogLevel, LogOptions, Written};
use crate::log::reader::LogReader;
use crate::log::ring::{Kind, Place, Record, Ring};
use crate::log::ring_slot::{self, Entered, RingSlotId, RingSlots};
use crate::log::stat::{self, LogStat};
use crate::memory::arena::Arena;
use crate::memory::attach::Attachment;
use crate::memory::block::{self, Block, Wanted};
use crate::memory::guests::Guests;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::os::thread::complain;
use crate::os::{clock, line_clock};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A handle on a log, which merges the lines of many writers.
///
/// A handle is cheap to clone, and usable from any thread and in a forked child. Each thread writes
/// into a ring of its own, so no writer ever waits for another, for the collector, or for a dead or
/// stopped process. Accepted lines are in the hold, and survive their writer's death. One
/// [`Collector`] at a time merges all lines, and [`dump`](Log::dump) returns them without a
/// collector.
///
/// A thread's first line claims its ring, which may allocate memory and take a lock for a moment;
/// all others do not. If another process keeps the hold [frozen](crate::Hold::freeze) when a forked
/// child uses the log for the first time, the child's lines are dropped until the freeze ends. A
/// signal handler may write lines, even in the middle of another line. If a handler may be the
/// first to write in its thread, call [`prepare`](Log::prepare) in that thread before.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-log-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, log::{LogLevel, LogOptions, Written}};
///
/// let hold = Hold::open_or_create(&path)?;
/// let options = LogOptions::new().rings(8).ring_bytes(64 << 10);
/// let log = hold.logs().open_or_create("events", options)?;
/// assert_eq!(log.write(LogLevel::Info, "the shop is open")?, Written::Accepted);
///
/// // Here, or in any other process:
/// let mut text = Vec::new();
/// log.collector()?.finish(&mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("the shop is open"));
/// # drop((log, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The state that all clones of a handle share.
pub(crate) struct Inner {
    /// Unique in the process.
    pub(crate) number: u64,
    itself: Weak<Inner>,
    access: Access,
    pub(crate) layout: Layout,
    pub(crate) slots: Arc<RingSlots>,
    direct: bool,
    /// When this handle last looked in vain for the rings of dead threads, in monotonic
    /// milliseconds.
    in_vain_ms: AtomicU64,
    lost: LostLines,
}

/// How a handle is attached to the block.
enum Access {
    Writer(Attachment),
    /// A handle of a read-only hold.
    Reader(Arc<Arena>, Block),
}

/// How long the first line of a forked child waits for the names lock, which processes release much
/// sooner unless they freeze the hold.
const FIRST_USE: Duration = Duration::from_millis(5);

/// The result of a thread's search for a slot.
enum Found {
    Slot(RingSlotId),
    /// The thread is ending, so each of its lines claims a ring; with the thread's number.
    Once(u32),
}

static HANDLES: AtomicU64 = AtomicU64::new(1);

/// Creates the log; opens or refuses one that exists.
pub(crate) fn create(
    arena: &Arc<Arena>,
    name: &str,
    options: &LogOptions,
    existing: Existing,
) -> Result<Log> {
    roots::check_name(StructureKind::Log, name)?;
    let bytes = layout::bytes(name, options)?;
    let fill = |space: &Space, block: &Block| layout::fill(space, block, options);
    let log = match arena.participant() {
        None => open_existing(arena, name)?,
        Some(_) => {
            let wanted = Wanted { kind: StructureKind::Log, name, bytes, existing };
            match block::open(arena, &wanted, Some(&fill))? {
                Some(attachment) => Inner::open(Access::Writer(attachment), options.direct)?,
                None => return Err(roots::not_found(&arena.space, StructureKind::Log, name)),
            }
        }
    };
    let layout = &log.inner.layout;
    let same = (layout.rings, layout.ring_bytes, layout.overflow)
        == (options.rings, options.ring_bytes, options.overflow);
    match same {
        true => Ok(log),
        false => {
            let text = format!(
                "log '{name}' exists with other options; open it with its existing options"
            );
            Err(Error::new(ErrorKind::Mismatch, text))
        }
    }
}

/// Opens an existing log, whatever its options.
pub(crate) fn open_existing(arena: &Arc<Arena>, name: &str) -> Result<Log> {
    if arena.participant().is_some() {
        let wanted = Wanted { kind: StructureKind::Log, name, bytes: 0, existing: Existing::Open };
        return match block::open(arena, &wanted, None)? {
            Some(attachment) => Inner::open(Access::Writer(attachment), false),
            None => Err(roots::not_found(&arena.space, StructureKind::Log, name)),
        };
    }
    roots::check_name(StructureKind::Log, name)?;
    roots::check_kind(&arena.space, name, StructureKind::Log)?;
    match roots::find(&arena.space, name) {
        Some((id, root)) => {
            let block = Block::bind(&arena.space, id, root)?;
            Inner::open(Access::Reader(Arc::clone(arena), block), false)
        }
        None => Err(roots::not_found(&arena.space, StructureKind::Log, name)),
    }
}

/// Drops a log.
pub(crate) fn drop_log(arena: &Arena, name: &str) -> Result<bool> {
    block::drop_named(arena, StructureKind::Log, name, &|_, _, _| Ok(()))
}

impl Log {
    /// The log's name.
    pub fn name(&self) -> &str {
        &self.inner.block().name
    }

    /// True if the log accepts lines of this level at the moment; takes a few nanoseconds.
    #[inline]
    pub fn enabled(&self, level: LogLevel) -> bool {
        // Relaxed: a setting, no order with anything. In a dropped log it may be anything; `write`
        // detects that.
        level.code() <= self.inner.header().level.load(Ordering::Relaxed)
    }

    /// Writes one line of any bytes. The log shows the text unchanged, so leave out line ends; the
    /// collector cuts off one at the end. Takes about 50 ns and never waits; signal-safe (but see
    /// [`Log`]).
    ///
    /// # Errors
    /// `TooLarge` beyond a quarter of the ring less 64 bytes; `Closed`; `NotFound` if the log was
    /// dropped; `ReadOnly`; `Reentrant` from a signal handler inside another operation, unless the
    /// thread's last line before was for this log. A line that is filtered or finds no room is not
    /// an error: see [`Written`].
    #[inline]
    pub fn write(&self, level: LogLevel, line: impl AsRef<[u8]>) -> Result<Written> {
        if !self.enabled(level) {
            return Ok(Written::Filtered);
        }
        self.inner.write(level, line.as_ref())
    }

    /// Writes one line of formatted text, as `write!(log, ...)` would. Up to 1 KiB is formatted
    /// without allocation. The macro [`log_line!`](crate::log_line) does not even evaluate the
    /// arguments of a filtered line. Errors as for [`write`](Log::write).
    pub fn print(&self, level: LogLevel, text: fmt::Arguments<'_>) -> Result<Written> {
        if !self.enabled(level) {
            return Ok(Written::Filtered);
        }
        if let Some(text) = text.as_str() {
            return self.inner.write(level, text.as_bytes());
        }
        let mut short = line::Short::new();
        match short.write_fmt(text) {
            Ok(()) => self.inner.write(level, short.bytes()),
            Err(_) => self.inner.write(level, text.to_string().as_bytes()),
        }
    }

    /// Claims the calling thread's ring now, before its first line. False if no ring is free. In a
    /// forked child that has not used the log yet, waits for the end of a
    /// [freeze](crate::Hold::freeze).
    ///
    /// # Errors
    /// As for [`write`](Log::write); `TimedOut`.
    pub fn prepare(&self) -> Result<bool> {
        Ok(self.inner.take_slot(None)?.is_some())
    }

    /// The least important level that the log accepts.
    pub fn level(&self) -> LogLevel {
        LogLevel::from_code(self.inner.header().level.load(Ordering::Relaxed))
    }

    /// From now on, rejects lines that are less important than `level`, from any process.
    ///
    /// # Errors
    /// `Closed`, `NotFound`, `ReadOnly`, `Reentrant`.
    pub fn set_level(&self, level: LogLevel) -> Result<()> {
        let _inside = self.inner.attachment()?.enter()?;
        // Relaxed: see `enabled`.
        self.inner.header().level.store(level.code(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns all lines that are in the hold, collected or not, merged by time. It works with a
    /// read-only handle and while other threads write, and changes nothing. Lines that are
    /// committed during the call may or may not be in the result.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the log was dropped.
    pub fn dump(&self) -> Result<Vec<LogLine>> {
        self.inner.ensure_there()?;
        let lines = merge::all(self.inner.space(), &self.inner.layout);
        self.inner.ensure_there()?;
        Ok(lines)
    }

    /// Returns a reader that follows the log without collecting it, even from a read-only handle.
    /// Changes nothing.
    ///
    /// # Errors
    /// As for [`dump`](Log::dump).
    pub fn reader(&self) -> Result<LogReader> {
        LogReader::new(self)
    }

    /// Counts of lines, the collector, and the owners of the rings.
    ///
    /// # Errors
    /// As for [`dump`](Log::dump).
    pub fn stat(&self) -> Result<LogStat> {
        self.inner.ensure_there()?;
        let stat = stat::stat(self.inner.space(), &self.inner.layout);
        self.inner.ensure_there()?;
        Ok(stat)
    }

    /// Becomes the log's collector, which continues where a dead one ended.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, while another collector lives; `Closed`, `NotFound`,
    /// `ReadOnly`.
    pub fn collector(&self) -> Result<Collector> {
        Collector::claim(self)
    }
}

impl Inner {
    fn open(access: Access, direct: bool) -> Result<Log> {
        let (arena, block) = access.ends();
        let layout = Layout::read(&arena.space, block)?;
        line_clock::prepare();
        let slots = Arc::new(RingSlots::new(block.id, layout.rings));
        let guests: Weak<dyn Guests> = Arc::downgrade(&(Arc::clone(&slots) as Arc<dyn Guests>));
        arena.guests.add(guests);
        let number = HANDLES.fetch_add(1, Ordering::Relaxed);
        let in_vain_ms = AtomicU64::new(0);
        let inner = Arc::new_cyclic(|itself| Inner {
            number,
            itself: Weak::clone(itself),
            access,
            layout,
            slots,
            direct,
            in_vain_ms,
            lost: LostLines::default(),
        });
        Ok(Log { inner })
    }

    #[inline]
    pub(crate) fn arena(&self) -> &Arena {
        self.access.ends().0
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.arena().space
    }

    pub(crate) fn block(&self) -> &Block {
        self.access.ends().1
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        self.layout.header(self.space())
    }

    #[inline]
    pub(crate) fn attachment(&self) -> Result<&Attachment> {
        match &self.access {
            Access::Writer(attachment) => Ok(attachment),
            Access::Reader(arena, _) => {
                let path = arena.space.file().path().display();
                let text = format!("{path}: opened read-only; open it for writing");
                Err(Error::new(ErrorKind::ReadOnly, text))
            }
        }
    }

    /// # Errors
    /// `Closed`; `NotFound` if the log was dropped: then the bytes read are not the log's.
    pub(crate) fn ensure_there(&self) -> Result<()> {
        self.arena().ensure_open()?;
        let (space, block) = (self.space(), self.block());
        // Incremented before the block is freed. Until then a drop may be taken back.
        let incarnation = |root: &roots::Root| root.incarnation.load(Ordering::Acquire);
        match roots::root(space, block.id).map(incarnation) == Some(block.incarnation) {
            true => Ok(()),
            false => Err(roots::not_found(space, StructureKind::Log, &block.name)),
        }
    }

    #[inline]
    fn write(&self, level: LogLevel, bytes: &[u8]) -> Result<Written> {
        if bytes.len() > self.layout.longest {
            return Err(self.too_large(bytes.len()));
        }
        let record = Record { kind: Kind::Line, level, time_ns: 0, thread: 0, bytes };
        let slot_id = ring_slot::last();
        let written = match slot_id.log == self.number {
            true => self.write_at(slot_id, &record),
            false => None,
        };
        let written = match written {
            Some(written) => written,
            None => self.write_slowly(&record)?,
        };
        if self.direct && written == Written::Accepted {
            self.tell(level, bytes);
        }
        Ok(written)
    }

    /// `None` if that is not (or no longer) the thread's slot.
    #[inline]
    fn write_at(&self, slot_id: RingSlotId, record: &Record<'_>) -> Option<Written> {
        let Access::Writer(attachment) = &self.access else { return None };
        let me = attachment.arena.current_owner()?;
        match self.slots.enter(slot_id, me) {
            Entered::Inside(inside) => {
                if attachment.arena.is_closed() || !attachment.is_current() {
                    return None;
                }
                let ring = Ring::new(attachment.space(), &self.layout, slot_id.ring);
                Some(put(&ring, inside.place(), record, slot_id.thread))
            }
            Entered::Nested if attachment.arena.is_closed() || !attachment.is_current() => None,
            // The interrupted operation keeps the log where it is.
            Entered::Nested => Some(self.write_once(record, me, slot_id.thread)),
            Entered::Stranger => None,
        }
    }

    #[cold]
    fn write_slowly(&self, record: &Record<'_>) -> Result<Written> {
        let found = match self.take_slot(Instant::now().checked_add(FIRST_USE)) {
            Err(error) if error.kind() == ErrorKind::TimedOut && self.is_inherited() => {
                self.lost.add();
                return Ok(Written::Dropped);
            }
            found => found?,
        };
        let written = match found {
            Some(Found::Slot(slot_id)) => self.write_at(slot_id, record),
            Some(Found::Once(thread)) => {
                let lane = self.attachment()?.enter()?;
                Some(self.write_once(record, lane.me(), thread))
            }
            None => None,
        };
        written.map_or_else(|| self.refuse(), Ok)
    }

    /// Counts a line that found no ring.
    fn refuse(&self) -> Result<Written> {
        // Enters an operation again: the log may have been dropped since the operation that found
        // no ring.
        let _inside = self.attachment()?.enter()?;
        step!("log.refused");
        // Relaxed: a counter.
        self.header().refused.fetch_add(1, Ordering::Relaxed);
        Ok(Written::Dropped)
    }

    /// Writes one line into a ring that is claimed for it alone.
    #[cold]
    fn write_once(&self, record: &Record<'_>, me: Owner, thread: u32) -> Written {
        let (space, layout) = (self.space(), &self.layout);
        let claimed = self.slots.claim(space, layout, false, || tenant(me, thread));
        let Some((number, _)) = claimed else {
            self.header().refused.fetch_add(1, Ordering::Relaxed);
            return Written::Dropped;
        };
        let (ring, place) = (Ring::new(space, layout, number), Place::default());
        // Release: as in `release_ring`. No other thread has changed it.
        let returned = UnwindGuard::new(|| ring.header.tenant.store(0, Ordering::Release));
        ring.catch_up(&place);
        line_clock::look_again();
        let written = put(&ring, &place, record, thread);
        drop(returned);
        written
    }

    /// True in a forked child that has not used the log yet.
    fn is_inherited(&self) -> bool {
        self.attachment().is_ok_and(Attachment::is_inherited)
    }

    /// The thread's slot, claimed if it has none. `None` if no ring is free. In a forked child that
    /// has not used the log yet, waits until `end` at most.
    #[cold]
    fn take_slot(&self, end: Option<Instant>) -> Result<Option<Found>> {
        let lane = self.attachment()?.enter_until(end)?;
        let me = lane.me();
        // Relaxed: a counter.
        self.header().refused.fetch_add(self.lost.take(), Ordering::Relaxed);
        let slot = ring_slot::find(self, me).map(Found::Slot);
        Ok(slot.or_else(|| self.claim(me)))
    }

    fn claim(&self, me: Owner) -> Option<Found> {
        let (space, layout) = (self.space(), &self.layout);
        // Relaxed: a counter.
        let number = || self.header().threads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let word = || tenant(me, number());
        let claimed = self.slots.claim(space, layout, false, word);
        let (ring, word) = claimed.or_else(|| self.claim_of_the_dead(word))?;
        let thread = (word >> 32) as u32;
        // A collector that has found the ring free relies on that.
        line_clock::look_again();
        let slot_id = RingSlotId { log: self.number, ring, thread };
        let returned = UnwindGuard::new(|| self.slots.release_ring(space, layout, ring, word));
        let bytes = layout.ring(space, ring).introduce();
        self.slots.catch_up(space, layout, ring, word);
        let (level, time_ns) = (LogLevel::Error, 0);
        let record = Record { kind: Kind::Thread, level, time_ns, thread, bytes: &bytes };
        let _ = self.write_at(slot_id, &record);
        if !ring_slot::remember(&self.itself, slot_id) {
            // The thread is ending and would not hand the ring back.
            drop(returned);
            return Some(Found::Once(thread));
        }
        returned.done();
        Some(Found::Slot(slot_id))
    }

    /// Checks whether owners of rings have died, which costs system calls: after a check in vain,
    /// not again for 10 ms.
    fn claim_of_the_dead(&self, word: impl Fn() -> u64) -> Option<(u32, u64)> {
        let now = clock::monotonic_ns() / 1_000_000;
        // Relaxed, here and below: a hint.
        let before = self.in_vain_ms.load(Ordering::Relaxed);
        if before != 0 && now.saturating_sub(before) < 10 {
            return None;
        }
        let claimed = self.slots.claim(self.space(), &self.layout, true, word);
        self.in_vain_ms.store(if claimed.is_some() { 0 } else { now }, Ordering::Relaxed);
        claimed
    }

    /// Called when a thread ends.
    pub(crate) fn leave(&self, slot_id: RingSlotId) {
        let Access::Writer(attachment) = &self.access else { return };
        let Some(me) = attachment.arena.current_owner() else { return };
        while let Entered::Inside(inside) = self.slots.enter(slot_id, me) {
            if self.arena().is_closed() {
                return;
            }
            if attachment.is_current() {
                return self.slots.leave(self.space(), &self.layout, slot_id, inside, me);
            }
            drop(inside);
            if !attachment.may_stay(me) {
                return;
            }
            std::thread::yield_now();
        }
    }

    #[cold]
    fn too_large(&self, len: usize) -> Error {
        let text = format!(
            "log '{}': a line of {len} bytes exceeds the limit of {}; split it, or create the log \
             with larger rings",
            self.block().name,
            self.layout.longest
        );
        Error::new(ErrorKind::TooLarge, text)
    }

    /// Writes an accepted line to standard error, if no collector runs.
    #[cold]
    fn tell(&self, level: LogLevel, bytes: &[u8]) {
        let collector = self.header().collector.load(Ordering::Relaxed);
        if Owner::from_bits(collector).is_none() {
            let mut short = line::Short::new();
            line::direct(&mut short, clock::realtime_ns(), level, ring_slot::last().thread, bytes);
            complain(short.bytes());
        }
    }
}

#[inline]
fn put(ring: &Ring<'_>, place: &Place, record: &Record<'_>, thread: u32) -> Written {
    let record = Record { time_ns: line_clock::now_ns(), thread, ..*record };
    if ring.put(place, &record) { Written::Accepted } else { Written::Dropped }
}

impl Access {
    #[inline]
    fn ends(&self) -> (&Arc<Arena>, &Block) {
        match self {
            Access::Writer(attachment) => (&attachment.arena, &attachment.block),
            Access::Reader(arena, block) => (arena, block),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Access::Writer(attachment) = &self.access else { return };
        // A forked child that did nothing with the log: the rings are the parent's.
        if self.arena().current_owner().is_none() {
            return;
        }
        // No thread has the log any more. If it is closed or dropped, there is nothing to hand
        // back.
        let Some(lane) = attachment.enter_to_leave() else { return attachment.stay() };
        let release_all = || {
            for (ring, word) in self.slots.taken(lane.me()).collect::<Vec<_>>() {
                self.slots.release_ring(self.space(), &self.layout, ring, word);
            }
        };
        // Also the others after a panic at one ring: no tenant may outlive its generation.
        let others = UnwindGuard::new(release_all);
        release_all();
        others.done();
    }
}
