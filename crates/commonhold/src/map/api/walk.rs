//! Operations on a whole map: iterating, random pairs, counting, clearing, removing expired pairs,
//! statistics.

use crate::error::Result;
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::engine::cache;
use crate::map::engine::charge;
use crate::map::engine::directory;
use crate::map::engine::iterate::{self, Cursor, Noted, Pair, Part};
use crate::map::engine::{expire, lifecycle, locked};
use crate::map::options::MapMode;
use crate::memory::classes::SEGMENT_BYTES;
use crate::os::clock;
use crate::stream::frame::ChangeKind;
use crate::stream::words::StreamStat;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Iterator over the pairs of a map; see [`Map::iter`].
pub struct Iter {
    map: Map,
    /// The cursors before and after the current segment.
    begin: Cursor,
    next: Cursor,
    noted: Vec<Noted>,
    /// The incarnation of the map in which `noted` was noted: a replica's handle may continue with
    /// the shadow map.
    noted_of: u64,
    with_values: bool,
    /// Only keys that begin with this are returned.
    prefix: Vec<u8>,
    /// Whether expired pairs are returned, too.
    with_expired: bool,
    /// The expiry of the last pair, by the hold's clock; 0 for never.
    expiry: u64,
    failed: bool,
}

/// Iterator over the keys of a map; see [`Map::keys`].
pub struct Keys(Iter);

impl Map {
    /// Iterates over all pairs, without a lock. The iterator returns each key that is present
    /// throughout exactly once, even if other processes change the map. It may miss keys that are
    /// added or deleted meanwhile.
    pub fn iter(&self) -> Iter {
        self.iter_from(Cursor::START)
    }

    /// Iterates over the pairs from a cursor on; see [`Iter::cursor`].
    pub fn iter_from(&self, cursor: Cursor) -> Iter {
        Iter::new(self.clone(), cursor)
    }

    /// Iterates over all keys, like [`iter`](Self::iter), without copying the values.
    pub fn keys(&self) -> Keys {
        Keys::new(self.clone())
    }
}

impl IntoIterator for &Map {
    type Item = Result<Pair>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl Iter {
    fn new(map: Map, cursor: Cursor) -> Iter {
        Iter {
            map,
            begin: cursor,
            next: cursor,
            noted: Vec::new(),
            noted_of: 0,
            with_values: true,
            prefix: Vec::new(),
            with_expired: false,
            expiry: 0,
            failed: false,
        }
    }

    /// A cursor from which an iteration can resume later, in any process, without missing a pair.
    /// The pairs of the current segment come again, unless the segment is finished
    /// ([`at_cursor`](Self::at_cursor)).
    pub fn cursor(&self) -> Cursor {
        if self.noted.is_empty() { self.next } else { self.begin }
    }

    /// True if an iteration from [`cursor`](Self::cursor) repeats nothing: a segment has just been
    /// finished.
    pub fn at_cursor(&self) -> bool {
        self.noted.is_empty()
    }

    fn advance(&mut self) -> Result<Option<Pair>> {
        loop {
            if let Some(pair) = self.next_noted()? {
                return Ok(Some(pair));
            }
            if !self.note_next()? {
                return Ok(None);
            }
        }
    }

    /// The next pair of the current segment.
    fn next_noted(&mut self) -> Result<Option<Pair>> {
        while let Some(noted) = self.noted.pop() {
            let part = match self.with_values {
                false => Part::Key,
                true if self.prefix.is_empty() => Part::Whole,
                true => Part::WholeIf(&self.prefix),
            };
            let found = self.map.bound.read(self.map.space(), |bound| {
                if bound.incarnation != self.noted_of {
                    return Ok(None);
                }
                iterate::resolve_expiring(self.map.space(), bound, &noted, part).map(Some)
            })?;
            match found {
                Some(Some((pair, expiry))) if self.returns(expiry) => {
                    self.expiry = expiry;
                    return Ok(Some(pair));
                }
                Some(_) => {}
                None => {
                    self.noted.push(noted);
                    self.note_again()?;
                }
            }
        }
        Ok(None)
    }

    /// Notes the keys of the next segment; false at the end of the map.
    fn note_next(&mut self) -> Result<bool> {
        self.map.arena.ensure_open()?;
        if self.next.is_end() {
            return Ok(false);
        }
        self.begin = self.next;
        let noted = &mut self.noted;
        (self.next, self.noted_of) = self.map.bound.read(self.map.space(), |bound| {
            let next = iterate::note(self.map.space(), bound, self.begin, noted)?;
            Ok((next, bound.incarnation))
        })?;
        iterate::skip_before(self.begin, &mut self.noted);
        Ok(true)
    }

    /// Whether it returns a pair with this expiry.
    fn returns(&self, expiry: u64) -> bool {
        self.with_expired || !cache::has_passed(self.map.space(), expiry)
    }

    /// Continues in a shadow map, where keys have other positions: notes the keys that were still
    /// due, and those after them in the last segment.
    #[cold]
    fn note_again(&mut self) -> Result<()> {
        let left: HashSet<u32> = self.noted.iter().map(|noted| noted.directory).collect();
        let (begin, end) = (self.begin, self.next);
        (self.noted, self.next, self.noted_of) =
            self.map.bound.read(self.map.space(), |bound| {
                let (mut all, mut part, mut at) = (Vec::new(), Vec::new(), begin);
                while at.0 < end.0 {
                    let next = iterate::note(self.map.space(), bound, at, &mut part)?;
                    iterate::skip_before(at, &mut part);
                    let is_due =
                        |noted: &Noted| left.contains(&noted.directory) || !noted.is_before(end);
                    all.extend(part.drain(..).filter(is_due));
                    at = next;
                }
                Ok((all, at, bound.incarnation))
            })?;
        Ok(())
    }
}

/// Iterates over the pairs of a map in steps, each of which takes a bounded time.
pub struct StepIter(Iter);

/// A step of an iteration.
#[derive(Debug, PartialEq, Eq)]
pub enum IterStep {
    /// A pair, and its expiry by the hold's clock (0 for never).
    Pair(Pair, u64),
    /// All pairs of a segment were returned, or passed over.
    Segment,
    /// All pairs of the map were.
    End,
}

/// Iterates over the pairs whose keys begin with `prefix`; it copies no value of another key. With
/// `with_expired`, it also returns pairs that have expired and were not removed yet.
pub fn iter_steps(map: &Map, prefix: &[u8], with_expired: bool) -> StepIter {
    StepIter(Iter { with_expired, prefix: prefix.to_vec(), ..map.iter() })
}

impl StepIter {
    /// The next step.
    ///
    /// # Errors
    /// Those of reading the map.
    pub fn step(&mut self) -> Result<IterStep> {
        if let Some(pair) = self.0.next_noted()? {
            return Ok(IterStep::Pair(pair, self.0.expiry));
        }
        Ok(if self.0.note_next()? { IterStep::Segment } else { IterStep::End })
    }
}

impl Iterator for Iter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}

impl Keys {
    pub(crate) fn new(map: Map) -> Keys {
        Keys(Iter { with_values: false, ..Iter::new(map, Cursor::START) })
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

/// Description of a map of a hold.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MapInfo {
    /// The map's name.
    pub name: String,
    /// The map's number in the hold.
    pub id: u32,
    /// The map's mode.
    pub mode: MapMode,
    /// The number of pairs.
    pub len: u64,
}

/// Statistics of the pairs of a map whose records are of about the same size. A record is key,
/// value and the header before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SizeStat {
    /// A power of two: the records have at most this many bytes, and more than half of it.
    pub up_to_bytes: u64,
    /// The number of pairs.
    pub pairs: u64,
    /// Bytes of the records, rounded up as in [`MapStat::record_bytes`].
    pub bytes: u64,
}

/// The running totals of a map in cache mode; see [`Map::charged`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// As [`MapStat::len`].
    pub entries: u64,
    /// As [`MapStat::record_bytes`].
    pub bytes: u64,
    /// As [`MapStat::evicted`].
    pub evicted: u64,
}

/// Statistics of a map.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MapStat {
    /// The map's name.
    pub name: String,
    /// The map's mode.
    pub mode: MapMode,
    /// The number of pairs.
    pub len: u64,
    /// The number of segments.
    pub segments: u64,
    /// Directory bits in use.
    pub depth: u32,
    /// Bytes of segments and directory.
    pub index_bytes: u64,
    /// Bytes of records, rounded up to their size classes.
    pub record_bytes: u64,
    /// Pairs by the size of their records, smallest first. Empty for pairs in the index itself.
    pub sizes: Vec<SizeStat>,
    /// Share of slots in use, 0 to 1.
    pub load: f64,
    /// Cache mode: lookups that found a pair. Includes all lookups of this handle, and those of
    /// other handles up to their last report.
    pub hits: u64,
    /// Cache mode: lookups that found no pair.
    pub misses: u64,
    /// Cache mode: pairs that expired and were removed.
    pub expired: u64,
    /// Cache mode: pairs removed to make room.
    pub evicted: u64,
    /// Statistics of the map's stream, if it has one.
    pub stream: Option<StreamStat>,
    /// Whether only a replica may write the map.
    pub replica: bool,
}

impl Map {
    /// The number of pairs. In cache mode, expired pairs count until they are removed. Reads one
    /// cache line per segment, about a millisecond per million keys.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the map was dropped.
    pub fn len(&self) -> Result<u64> {
        self.arena.ensure_open()?;
        let space = self.space();
        self.bound.read(space, |bound| {
            let segments = directory::segments(space, bound.root(space));
            let pairs = segments.map(|s| u64::from(s.pairs())).sum();
            bound.ensure_current(space).map(|()| pairs)
        })
    }

    /// True if there are no pairs.
    ///
    /// # Errors
    /// Those of [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// A random pair, each about equally likely; `None` if the map is empty.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn random_pair(&self) -> Result<Option<Pair>> {
        self.arena.ensure_open()?;
        let mut random = clock::monotonic_ns() ^ u64::from(std::process::id()) << 32;
        let mut noted = Vec::new();
        for _ in 0..64 {
            random = next_random(random);
            let cursor = Cursor(random >> 40);
            let pair = self.bound.read(self.space(), |bound| {
                iterate::note(self.space(), bound, cursor, &mut noted)?;
                let number = (next_random(random) >> 33) as usize % noted.len().max(1);
                let Some(chosen) = noted.get(number) else { return Ok(None) };
                iterate::resolve(self.space(), bound, chosen, Part::Whole)
            })?;
            if pair.is_some() {
                return Ok(pair);
            }
        }
        // There are very few keys: take the first.
        self.iter().next().transpose()
    }

    /// Deletes the keys of the segment at a cursor, which is not at the end, and moves the cursor
    /// past them. Adds the number of keys deleted to `count`.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete). The cursor then stays.
    pub(crate) fn clear_segment(&self, cursor: &mut Cursor, count: &mut u64) -> Result<()> {
        self.ensure_may_write()?;
        let bound: &Bound = &self.bound;
        self.arena.operate(|lane| {
            let segment = locked::lock(lane, bound, cursor.directory())?;
            let pairs = segment.pairs();
            let emptied = lifecycle::empty(lane, bound, *segment, Some(ChangeKind::Clear));
            *count += u64::from(pairs.saturating_sub(segment.pairs()));
            let behind = cursor.behind(segment.phase().depth);
            drop(segment);
            lane.tidy();
            emptied?;
            *cursor = behind;
            Ok(())
        })
    }

    /// Removes expired pairs of a cache and reports them to the followers of its stream. Returns
    /// the number of pairs removed. Without this call, expired pairs are absent for every reader,
    /// but occupy memory until their space is needed or their key is set.
    ///
    /// Visits `places` places for pairs, rounded up to a segment (216 places, about two thirds of
    /// them in use), and moves the cursor past them. To visit the whole map a few places at a time,
    /// begin with [`Cursor::START`] and repeat until the cursor [is at the end](Cursor::is_end).
    /// Every round visits each key that is present throughout. In modes other than cache mode
    /// nothing expires.
    ///
    /// This call **does not wait** for locks. It skips a segment that a living process has locked,
    /// even a stopped one, until the next round. If the stream is locked or the hold is frozen, the
    /// cursor stays. It recovers the locks of a killed process, and it may be killed itself at any
    /// instruction. Several processes may make this call at once.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("commonhold-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir).unwrap();
    /// # let path = dir.join("expiry.hold");
    /// use commonhold::{Hold, map::{Cursor, MapOptions}};
    /// use std::time::Duration;
    ///
    /// let hold = Hold::open_or_create(&path)?;
    /// let options = MapOptions::cache().ttl(Duration::from_millis(1));
    /// let cache = hold.maps().open_or_create("cache", options)?;
    /// cache.set("a", "1")?;
    /// std::thread::sleep(Duration::from_millis(3));
    /// let (mut cursor, mut removed) = (Cursor::START, 0);
    /// while !cursor.is_end() {
    ///     removed += cache.try_expire(&mut cursor, 10_000)?;
    /// }
    /// assert_eq!((removed, cache.len()?), (1, 0));
    /// # drop((cache, hold));
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), commonhold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete), except `TimedOut`. The pairs removed before the error
    /// stay removed.
    pub fn try_expire(&self, cursor: &mut Cursor, places: u64) -> Result<u64> {
        self.ensure_may_write()?;
        let lane = self.arena.enter()?.impatient();
        expire::expire(&lane, &self.bound, cursor, places)
    }

    /// Returns statistics of the map. Reads every segment.
    ///
    /// # Errors
    /// Those of [`len`](Self::len).
    pub fn stat(&self) -> Result<MapStat> {
        self.arena.ensure_open()?;
        self.bound.read(self.space(), |bound| self.stat_of(bound))
    }

    /// Returns the charges of a map in cache mode: a few numbers, at the same cost whatever the
    /// map's size, for programs that report repeatedly. The charge of a change in progress may be
    /// missing. In other modes the numbers are 0.
    ///
    /// # Errors
    /// Those of [`len`](Self::len).
    #[doc(hidden)]
    pub fn charged(&self) -> Result<Charged> {
        self.arena.ensure_open()?;
        let space = self.space();
        self.bound.read(space, |bound| {
            self.report_lookups(bound);
            let root = bound.root(space);
            let (bytes, entries) = charge::charged(root);
            let evicted = root.evicted.load(Ordering::Relaxed);
            bound.ensure_current(space).map(|()| Charged { entries, bytes, evicted })
        })
    }

    /// Adds this handle's lookups to the map's counters, if it may write.
    fn report_lookups(&self, bound: &Bound) {
        if self.arena.participant().is_some() {
            cache::flush_counters(self.space(), bound);
        }
    }

    fn stat_of(&self, bound: &Bound) -> Result<MapStat> {
        let space = self.space();
        self.report_lookups(bound);
        let root = bound.root(space);
        let (mut len, mut segments, mut sizes) = (0, 0, [(0, 0); u64::BITS as usize]);
        for segment in directory::segments(space, root) {
            segments += 1;
            len += u64::from(segment.pairs());
            if bound.inline.is_none() {
                (0..bound.positions())
                    .map(|position| segment.slot(position).load(Ordering::Acquire))
                    .filter(|word| *word != 0)
                    .filter_map(|word| bound.shape.open(space, word))
                    .for_each(|record| {
                        note_size(&mut sizes, record.len(), charge::taken(space, record.offset))
                    });
            }
        }
        let (depth, (hits, misses)) = (directory::depth(root), bound.lookups.pending());
        let stream = bound.stream(space).stat();
        bound.ensure_current(space)?;
        let slots = (segments * u64::from(bound.positions())).max(1);
        Ok(MapStat {
            name: bound.name.clone(),
            mode: bound.mode,
            len,
            segments,
            depth,
            index_bytes: segments * SEGMENT_BYTES + (1u64 << depth.max(14)) * 4,
            record_bytes: sizes.iter().map(|(_, bytes)| bytes).sum(),
            sizes: size_stats(&sizes),
            load: len as f64 / slots as f64,
            hits: root.hits.load(Ordering::Relaxed) + hits,
            misses: root.misses.load(Ordering::Relaxed) + misses,
            expired: root.expired.load(Ordering::Relaxed),
            evicted: root.evicted.load(Ordering::Relaxed),
            stream,
            replica: bound.replica,
        })
    }
}

/// Pairs and their bytes, by the smallest power of two that is at least their records' size.
type Sizes = [(u64, u64); u64::BITS as usize];

fn note_size(sizes: &mut Sizes, len: u64, taken: u64) {
    let power = len.max(1).checked_next_power_of_two().unwrap_or(1 << (u64::BITS - 1));
    let (pairs, bytes) = &mut sizes[power.trailing_zeros() as usize];
    *pairs += 1;
    *bytes += taken;
}

fn size_stats(sizes: &Sizes) -> Vec<SizeStat> {
    let there = sizes.iter().enumerate().filter(|(_, (pairs, _))| *pairs > 0);
    there
        .map(|(place, &(pairs, bytes))| SizeStat { up_to_bytes: 1 << place, pairs, bytes })
        .collect()
}

/// SplitMix64 (Steele et al., 2014).
fn next_random(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
