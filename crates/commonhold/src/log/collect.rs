//! The collector: merges all rings by time into one stream of text.
//!
//! A round takes the lines that are old enough, writes them out, and only then marks them in the
//! hold as collected, all of them in one step ([`rounds`]). So a successor loses no line. A
//! predecessor may have written lines and not marked them, one round at most. The successor removes
//! these from a file and writes them again.
//!
//! A line is old enough when every thread that has a ring has written a younger one, and in any
//! case after the hold-back. A writer that takes longer than that from its look at the clock to its
//! commit comes late, and its line is flagged. So a writer that is stopped in the middle of a line
//! holds up the others for no longer than that.

use crate::error::{Error, ErrorKind, Result};
use crate::log::front::Front;
use crate::log::handle::Log;
use crate::log::line::LogLine;
use crate::log::merge::{Cursor, Merge, is_wanted};
use crate::log::options::LogLevel;
use crate::log::ring::Ring;
use crate::log::rotate::{Place, RotatedFile};
use crate::log::rounds;
use crate::memory::endpoint::Endpoint;
use crate::memory::lane::LaneGuard;
use crate::os::clock;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::robust_lock::Peers;
use crate::sync::unwind::UnwindGuard;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The size of text, in bytes, at which a round ends.
const ROUND_BYTES: usize = 256 << 10;
/// The number of lines that are copied at a time.
const LINES: usize = 128;
/// The default age at which a line is written out.
pub(crate) const HOLD_BACK: Duration = Duration::from_millis(5);
/// The longest sleep when there is nothing to collect.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Round {
    /// Lines that were written out, including those with which the log announces threads.
    pub lines: u64,
    /// Lines that were found missing: dropped or overwritten.
    pub lost: u64,
    /// True if there are more lines, which the next round takes or which are too young.
    pub more: bool,
}

impl Round {
    fn and(self, next: Round) -> Round {
        let (lines, lost) = (self.lines + next.lines, self.lost + next.lost);
        Round { lines, lost, more: next.more }
    }
}

/// How far the last round has come.
#[derive(Clone, Copy)]
enum LeftAt {
    /// The round has ended.
    End,
    /// Lines were read, and their text is not out.
    Gathering,
    /// The text is out, and not marked.
    Marking,
}

/// How a line becomes text: by default [`LogLine::append_to`].
type Format = Box<dyn FnMut(&LogLine, &mut Vec<u8>) + Send>;

/// [`LogLine::append_to`], which keeps what two lines in a row have in common.
fn default_format() -> Format {
    let mut front = Front::default();
    Box::new(move |line, out| line.append_with(&mut front, out))
}

/// The collector of a log, from [`Log::collector`]. After it is dropped, another may begin.
///
/// It takes no processor time from the writers, and no writer ever waits for it. After the hold's
/// handle is closed, it remains the collector until it is dropped.
///
/// If its process dies, another collector may take over, and it omits no line. A file
/// ([`run_to_file`](Collector::run_to_file)) then contains every line exactly once. Any other
/// output cannot be taken back: **lines that were written out but not yet marked in the hold, at
/// most one round of about 256 KiB of text, are written again**.
pub struct Collector {
    log: Log,
    /// The endpoint of the participant that collects. A child that was forked since then is another
    /// participant.
    endpoint: Endpoint,
    merge: Merge,
    /// The positions that are marked in the hold.
    marked: Vec<Cursor>,
    /// Where a round that is not marked began in a file, as the hold contains it.
    left: Option<Place>,
    left_at: LeftAt,
    hold_back: Duration,
    level: LogLevel,
    format: Format,
    /// Reused, so that no line allocates memory.
    lines: Vec<LogLine>,
    text: Vec<u8>,
    pause: Duration,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Collector {
    pub(crate) fn claim(log: &Log) -> Result<Collector> {
        // Declared before the lane, and so dropped after it.
        let endpoint;
        let lane = log.inner.attachment()?.enter()?;
        endpoint = Endpoint::take(&log.inner.attachment()?.arena, lane.me());
        log.inner.arena().ensure_open()?;
        let (word, me) = (&log.inner.header().collector, lane.me());
        loop {
            let found = word.load(Ordering::Acquire);
            match Owner::from_bits(found) {
                Some(owner) if owner == me || !participant::has_died(lane.space(), owner) => {
                    return Err(busy(log, &lane, owner));
                }
                _ => {}
            }
            // AcqRel: acquire pairs with the release in `drop`: the tails are where the last one
            // left them.
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            if word.compare_exchange(found, me.bits(), success, failure).is_ok() {
                break;
            }
        }
        let released = UnwindGuard::new(|| release(word, me));
        step!("collect.claimed");
        let (space, layout) = (lane.space(), &log.inner.layout);
        let left = rounds::recover(space, layout);
        let begin = |number| {
            let ring = Ring::new(space, layout, number);
            let seen = ring.header.seen.load(Ordering::Acquire) as u32;
            Cursor::new(ring.tail(), Some(seen), 0)
        };
        let marked: Vec<Cursor> = (0..layout.rings).map(begin).collect();
        released.done();
        Ok(Collector {
            log: log.clone(),
            endpoint,
            merge: Merge::new(marked.clone()),
            marked,
            left,
            left_at: LeftAt::End,
            hold_back: HOLD_BACK,
            level: LogLevel::Trace,
            format: default_format(),
            lines: vec![LogLine::default(); LINES],
            text: Vec::new(),
            pause: Duration::from_millis(1),
        })
    }

    /// Sets the hold-back; default 5 ms. A line waits that long while some thread has written
    /// nothing since, because an older line of that thread may still come before it.
    pub fn hold_back(mut self, time: Duration) -> Collector {
        self.hold_back = time;
        self
    }

    /// Omits lines that are less important than this level. They count as collected.
    pub fn level(mut self, level: LogLevel) -> Collector {
        self.level = level;
        self
    }

    /// Replaces the conversion of lines to text: `format` appends a line's text, which ends with a
    /// line feed. A [`RotatedFile`] is split only behind line feeds.
    pub fn format(
        mut self,
        format: impl FnMut(&LogLine, &mut Vec<u8>) + Send + 'static,
    ) -> Collector {
        self.format = Box::new(format);
        self
    }

    /// Writes out one round of the lines that are old enough, and marks it as collected. Waits for
    /// nothing but `out`.
    ///
    /// # Errors
    /// `Io` and similar kinds if `out` fails. Then no line of the round counts as collected, and
    /// the next round writes all of them again; the same holds after a panic of `out` or of the
    /// conversion to text. `Closed`; `NotFound` if the log was dropped; `Busy` in a forked child:
    /// the parent collects.
    pub fn poll(&mut self, out: &mut impl Write) -> Result<Round> {
        self.poll_into(&mut Stream(out))
    }

    /// Like [`poll`](Collector::poll), to a file, which contains each line exactly once, whichever
    /// process is killed at whichever moment. Lines that a predecessor wrote to the file with the
    /// same path and did not mark are removed first, and so is the text of a round that failed.
    /// This applies until a round begins in another file, or gets out by `poll`: what the failed
    /// round left in the first file then stays there.
    ///
    /// # Errors
    /// As for [`poll`](Collector::poll).
    pub fn poll_to_file(&mut self, file: &mut RotatedFile) -> Result<Round> {
        self.poll_into(file)
    }

    /// Writes out all lines in the hold, even those that are younger than the hold-back. Lines that
    /// are written meanwhile may be among them, or remain ([`Round::more`]).
    ///
    /// # Errors
    /// As for [`poll`](Collector::poll).
    pub fn finish(&mut self, out: &mut impl Write) -> Result<Round> {
        self.finish_into(&mut Stream(out))
    }

    /// Like [`finish`](Collector::finish), to a file; see
    /// [`poll_to_file`](Collector::poll_to_file).
    ///
    /// # Errors
    /// As for [`poll`](Collector::poll).
    pub fn finish_to_file(&mut self, file: &mut RotatedFile) -> Result<Round> {
        self.finish_into(file)
    }

    /// Collects until `stop` returns true, then calls [`finish`](Collector::finish). Looks for
    /// lines every few milliseconds, and sleeps in between, up to 20 ms if no lines arrive.
    ///
    /// # Errors
    /// As for [`poll`](Collector::poll).
    pub fn run(&mut self, out: &mut impl Write, stop: impl FnMut() -> bool) -> Result<Round> {
        self.run_into(&mut Stream(out), stop)
    }

    /// Like [`run`](Collector::run), to a file; see [`poll_to_file`](Collector::poll_to_file).
    ///
    /// # Errors
    /// As for [`poll`](Collector::poll).
    pub fn run_to_file(
        &mut self,
        file: &mut RotatedFile,
        stop: impl FnMut() -> bool,
    ) -> Result<Round> {
        self.run_into(file, stop)
    }

    fn poll_into(&mut self, out: &mut impl Target) -> Result<Round> {
        let now_ns = clock::realtime_ns();
        let hold_back = u64::try_from(self.hold_back.as_nanos()).unwrap_or(u64::MAX);
        self.round(now_ns, now_ns.saturating_sub(hold_back), out)
    }

    fn finish_into(&mut self, out: &mut impl Target) -> Result<Round> {
        let mut sum = Round::default();
        let mut ends = None;
        loop {
            let round = self.round(clock::realtime_ns(), u64::MAX, out)?;
            sum = sum.and(round);
            // Writers may be faster than the output: without these ends, this would not end.
            let ends = ends.get_or_insert_with(|| self.merge.ends());
            if !round.more || self.merge.has_reached(ends) {
                return Ok(sum);
            }
        }
    }

    fn run_into(&mut self, out: &mut impl Target, mut stop: impl FnMut() -> bool) -> Result<Round> {
        let mut sum = Round::default();
        while !stop() {
            let round = self.poll_into(out)?;
            sum = sum.and(round);
            self.pause(&round);
        }
        Ok(sum.and(self.finish_into(out)?))
    }

    /// Sleeps for a time that fits the last round's result, up to 20 ms; not at all while many
    /// lines wait.
    pub fn pause(&mut self, round: &Round) {
        if round.lines > 0 && round.more || round.lines >= LINES as u64 {
            self.pause = Duration::from_millis(1);
            return;
        }
        let busy = round.lines > 0 || round.more;
        self.pause =
            if busy { Duration::from_millis(1) } else { LONGEST_PAUSE.min(self.pause * 2) };
        std::thread::sleep(self.pause);
    }

    fn round(&mut self, now_ns: u64, until_ns: u64, out: &mut impl Target) -> Result<Round> {
        self.recover_round()?;
        self.left_at = LeftAt::Gathering;
        let mut round = self.gather(now_ns, until_ns)?;
        // A round without text, too, removes what the last one left before it marks anything.
        if (!self.text.is_empty() || self.left.is_some())
            && let Err(error) = self.write_out(out)?
        {
            return Err(Error::os(format!("collecting log '{}'", self.log.name()), &error));
        }
        self.left_at = LeftAt::Marking;
        step!("collect.written");
        self.mark()?;
        self.left_at = LeftAt::End;
        out.is_marked();
        round.more |= self.text.len() >= ROUND_BYTES;
        Ok(round)
    }

    /// Recovers a round that an error or a panic has ended: a round that was not written out begins
    /// again, a written one is marked.
    fn recover_round(&mut self) -> Result<()> {
        match self.left_at {
            LeftAt::End => {}
            LeftAt::Gathering => self.merge.go_back(&self.marked),
            LeftAt::Marking => self.mark()?,
        }
        self.left_at = LeftAt::End;
        Ok(())
    }

    /// Writes the round's text out; the inner error is the output's.
    fn write_out(&mut self, out: &mut impl Target) -> Result<io::Result<()>> {
        {
            let lane = self.log.inner.attachment()?.enter()?;
            self.ensure_own(&lane)?;
        }
        let place = match out.place(self.left) {
            Ok(place) => place,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(place) = place {
            let _lane = self.log.inner.attachment()?.enter()?;
            let header = self.log.inner.header();
            if !self.text.is_empty() {
                rounds::begin(header, place);
                // If the text does not get out, the next round in the file begins where this does.
                self.left = Some(place);
            } else if self.left.take_if(|left| left.is_in_file_of(place)).is_some() {
                rounds::forget(header);
            }
        }
        Ok(out.put(&self.text))
    }

    /// Makes text of the lines that are old enough, until the round is full.
    fn gather(&mut self, now_ns: u64, until_ns: u64) -> Result<Round> {
        let mut round = Round::default();
        self.text.clear();
        let mut count = self.copy(until_ns, Some(now_ns), ROUND_BYTES)?;
        while count > 0 {
            // Outside of any operation: the conversion to text is the user's code.
            for line in &self.lines[..count] {
                round.lost += u64::from(line.lost);
                if is_wanted(line, self.level) {
                    (self.format)(line, &mut self.text);
                    round.lines += 1;
                }
            }
            let room = ROUND_BYTES.saturating_sub(self.text.len());
            count = self.copy(until_ns, None, room)?;
        }
        round.more = self.merge.is_waiting() && until_ns != u64::MAX;
        Ok(round)
    }

    /// Copies the next lines that are old enough, until their text fills the room. If it gets the
    /// time, it first looks for new lines.
    fn copy(&mut self, until_ns: u64, now_ns: Option<u64>, room: usize) -> Result<usize> {
        if room == 0 {
            return Ok(0);
        }
        let lane = self.log.inner.attachment()?.enter()?;
        self.ensure_own(&lane)?;
        let (space, layout) = (lane.space(), &self.log.inner.layout);
        if let Some(now_ns) = now_ns {
            self.merge.refresh(space, layout, now_ns);
        }
        let mut lines = self.lines.iter_mut();
        let (mut count, mut bytes) = (0, 0);
        while bytes < room
            && let Some(line) = lines.next()
            && self.merge.next(space, layout, until_ns, line)
        {
            count += 1;
            bytes += line.text.len();
        }
        Ok(count)
    }

    /// # Errors
    /// `Busy` in a forked child: the parent collects.
    fn ensure_own(&self, lane: &LaneGuard<'_>) -> Result<()> {
        let me = self.endpoint.owner;
        if lane.me() == me { Ok(()) } else { Err(busy(&self.log, lane, me)) }
    }

    /// Marks the written lines as collected.
    fn mark(&mut self) -> Result<()> {
        self.merge.keep();
        let place = |cursor: &Cursor| (cursor.position, cursor.expected);
        if self.merge.cursors.iter().map(place).eq(self.marked.iter().map(place)) {
            return Ok(());
        }
        let lane = self.log.inner.attachment()?.enter()?;
        self.ensure_own(&lane)?;
        rounds::commit(lane.space(), &self.log.inner.layout, &self.merge.cursors);
        // Whichever output the round went to: text after the place may be marked now.
        self.left = None;
        self.marked.clone_from(&self.merge.cursors);
        Ok(())
    }
}

/// Where a round's text goes.
trait Target {
    /// Where the next text will be, if the output can take it back; removes the text behind the
    /// place that was left.
    fn place(&mut self, left: Option<Place>) -> io::Result<Option<Place>>;
    /// Writes all of it.
    fn put(&mut self, text: &[u8]) -> io::Result<()>;
    /// Called when no written text can be taken back any more.
    fn is_marked(&mut self);
}

/// Any writer: it cannot take text back.
struct Stream<'a, W>(&'a mut W);

impl<W: Write> Target for Stream<'_, W> {
    fn place(&mut self, _left: Option<Place>) -> io::Result<Option<Place>> {
        Ok(None)
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        self.0.write_all(text)?;
        self.0.flush()
    }

    fn is_marked(&mut self) {}
}

impl Target for RotatedFile {
    fn place(&mut self, left: Option<Place>) -> io::Result<Option<Place>> {
        if let Some(left) = left {
            self.take_back(left)?;
        }
        self.begin_round().map(Some)
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        if !text.is_empty() {
            self.end_torn_line()?;
        }
        self.write_all(text)?;
        self.flush()
    }

    fn is_marked(&mut self) {
        // After an error, the next round tries again.
        let _ = self.end_round();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let Ok(attachment) = self.log.inner.attachment() else { return };
        let Some(lane) = attachment.enter_to_leave() else {
            if attachment.arena.current_owner() == Some(self.endpoint.owner) {
                // The word stays. Its recovery begins with the participants that are attached.
                attachment.stay();
            }
            return;
        };
        // In a forked child the parent is the collector.
        if lane.me() != self.endpoint.owner {
            return;
        }
        release(&self.log.inner.header().collector, lane.me());
        step!("collect.released");
    }
}

/// Lets the next collector begin.
fn release(collector: &AtomicU32, me: Owner) {
    // Release: the marks come before.
    let _ = collector.compare_exchange(me.bits(), 0, Ordering::Release, Ordering::Relaxed);
}

fn busy(log: &Log, lane: &LaneGuard<'_>, owner: Owner) -> Error {
    let text = format!(
        "log '{}' already has a collector: slot {} (process {}); wait until it ends",
        log.name(),
        owner.slot(),
        participant::pid(lane.space(), owner.slot())
    );
    Error::new(ErrorKind::Busy, text)
}
