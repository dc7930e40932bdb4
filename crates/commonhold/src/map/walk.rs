//! Walking a map: iterators, random pairs, counting, clearing, removing what has expired,
//! statistics.

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::cache;
use crate::map::charge;
use crate::map::directory;
use crate::map::handle::Map;
use crate::map::iterate::{self, Cursor, Noted, Pair};
use crate::map::options::MapMode;
use crate::map::{expire, lifecycle, locked};
use crate::memory::classes::SEGMENT_BYTES;
use crate::os::clock;
use crate::stream::frame::ChangeKind;
use crate::stream::words::StreamStat;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Iterator over the pairs of a map; see [`Map::iter`].
pub struct Iter {
    map: Map,
    /// Where the segment that is being given begins, and where the next one does.
    begin: Cursor,
    next: Cursor,
    noted: Vec<Noted>,
    /// Of which map that was noted: a replica's handle may continue with the shadow map.
    noted_of: u64,
    with_values: bool,
    failed: bool,
}

/// Iterator over the keys of a map; see [`Map::keys`].
pub struct Keys(Iter);

impl Iter {
    pub(crate) fn new(map: Map, cursor: Cursor) -> Iter {
        Iter {
            map,
            begin: cursor,
            next: cursor,
            noted: Vec::new(),
            noted_of: 0,
            with_values: true,
            failed: false,
        }
    }

    /// Where to go on later, here or in another process, so that nothing is missed: pairs of the
    /// segment that was being given come again, unless it was finished
    /// ([`at_cursor`](Self::at_cursor)).
    pub fn cursor(&self) -> Cursor {
        if self.noted.is_empty() { self.next } else { self.begin }
    }

    /// True if going on from [`cursor`](Self::cursor) repeats nothing: a segment has just been
    /// finished.
    pub fn at_cursor(&self) -> bool {
        self.noted.is_empty()
    }

    fn advance(&mut self) -> Result<Option<Pair>> {
        loop {
            while let Some(noted) = self.noted.pop() {
                let found = self.map.bound.read(self.map.space(), |bound| {
                    if bound.incarnation != self.noted_of {
                        return Ok(None);
                    }
                    iterate::resolve(self.map.space(), bound, &noted, self.with_values).map(Some)
                })?;
                match found {
                    Some(Some(pair)) => return Ok(Some(pair)),
                    Some(None) => {}
                    None => {
                        self.noted.push(noted);
                        self.note_again()?;
                    }
                }
            }
            self.map.arena.ensure_open()?;
            if self.next.is_end() {
                return Ok(None);
            }
            self.begin = self.next;
            let noted = &mut self.noted;
            (self.next, self.noted_of) = self.map.bound.read(self.map.space(), |bound| {
                let next = iterate::note(self.map.space(), bound, self.begin, noted)?;
                Ok((next, bound.incarnation))
            })?;
            iterate::skip_before(self.begin, &mut self.noted);
        }
    }

    /// In a shadow map, where keys have other positions: notes what was still to be given, and what
    /// lies behind it in the last segment.
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

/// A map of a hold.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MapInfo {
    /// Its name.
    pub name: String,
    /// Its number in the hold.
    pub id: u32,
    /// What kind of map it is.
    pub mode: MapMode,
    /// Pairs.
    pub len: u64,
}

/// Pairs of a map whose records are of about the same size: key and value with what stands before
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SizeStat {
    /// A power of two: their records have at most so many bytes, and more than half as many.
    pub up_to_bytes: u64,
    /// How many pairs.
    pub pairs: u64,
    /// Bytes of their records, rounded up as in [`MapStat::record_bytes`].
    pub bytes: u64,
}

/// What a map in cache mode counts as it goes; see [`Map::charged`].
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
    /// Its name.
    pub name: String,
    /// What kind of map it is.
    pub mode: MapMode,
    /// Pairs.
    pub len: u64,
    /// Segments.
    pub segments: u64,
    /// Directory bits in use.
    pub depth: u32,
    /// Bytes of segments and directory.
    pub index_bytes: u64,
    /// Bytes of records, rounded up to their size classes.
    pub record_bytes: u64,
    /// Pairs by the bytes of their records, smallest first; none of a fixed-length map.
    pub sizes: Vec<SizeStat>,
    /// Share of slots in use, 0 to 1.
    pub load: f64,
    /// Cache mode: lookups that found a pair (of this handle, and of others as of their last
    /// report).
    pub hits: u64,
    /// Cache mode: lookups that found none.
    pub misses: u64,
    /// Cache mode: pairs that expired and were removed.
    pub expired: u64,
    /// Cache mode: pairs removed to make room.
    pub evicted: u64,
    /// Its stream, if it has one.
    pub stream: Option<StreamStat>,
    /// Whether only a replica writes it.
    pub replica: bool,
}

impl Map {
    /// The number of pairs; in cache mode expired pairs count until they are removed. Reads one
    /// line per segment: about a millisecond per million keys.
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
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Some pair, every one about equally likely; `None` if the map is empty.
    ///
    /// # Errors
    /// As [`get`](Self::get).
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
                iterate::resolve(self.space(), bound, chosen, true)
            })?;
            if pair.is_some() {
                return Ok(pair);
            }
        }
        // Very few keys: take the first.
        self.iter().next().transpose()
    }

    /// Deletes every key that is present when it begins, unless it is set again meanwhile. Not one
    /// atomic step: readers may see some keys gone and others not yet. Returns how many were
    /// deleted.
    ///
    /// The index keeps the memory that it has grown to; dropping the map gives it back. In a hold
    /// that cannot grow any more, other fixed-length pairs, which lie in the index itself, may find
    /// room for somewhat more than half as many: the first part of the index that is full and
    /// cannot be split ends it.
    ///
    /// # Errors
    /// As [`delete`](Self::delete); what was deleted before stays so.
    pub fn clear(&self) -> Result<u64> {
        self.ensure_may_write()?;
        let bound: &Bound = &self.bound;
        let mut count = 0;
        let mut cursor = Cursor::START;
        // Begun again, it goes on where it was.
        self.arena.operate(|lane| {
            while !cursor.is_end() {
                let segment = locked::lock(lane, bound, cursor.directory())?;
                let pairs = segment.pairs();
                let emptied = lifecycle::empty(lane, bound, *segment, Some(ChangeKind::Clear));
                count += u64::from(pairs.saturating_sub(segment.pairs()));
                let behind = cursor.behind(segment.phase().depth);
                drop(segment);
                lane.tidy();
                emptied?;
                cursor = behind;
            }
            Ok(count)
        })
    }

    /// Removes pairs of a cache that have expired, and tells those who follow; returns how many.
    /// Without it they are absent to everybody who reads, and stay where they are until their room
    /// is needed or their key is set.
    ///
    /// Looks at `places` places for pairs, rounded up to a segment (216 places, about two thirds of
    /// them in use), and moves the cursor behind them: from [`Cursor::START`] until it [is at the
    /// end](Cursor::is_end), a few at a time. Keys present throughout are met in each round. **Does
    /// not wait** for locks: what a living process has locked, perhaps a stopped one, is passed
    /// over until the next round; and where it is the stream that is locked, or the hold that is
    /// frozen, the cursor stays. What a killed one has locked is settled, and it may be killed
    /// itself, as everywhere. Several may do so at once. In other modes nothing expires.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("commonhold-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir).unwrap();
    /// # let path = dir.join("expiry.hold");
    /// use commonhold::{Hold, map::{Cursor, MapOptions}};
    /// use std::time::Duration;
    ///
    /// let hold = Hold::open_or_create(&path)?;
    /// let cache = hold.maps().open_or_create("cache", MapOptions::cache().ttl(Duration::from_millis(1)))?;
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
    /// As [`delete`](Self::delete), but for `TimedOut`; what was removed before stays so.
    pub fn try_expire(&self, cursor: &mut Cursor, places: u64) -> Result<u64> {
        self.ensure_may_write()?;
        let lane = self.arena.enter()?.impatient();
        expire::expire(&lane, &self.bound, cursor, places)
    }

    /// Statistics. Reads every segment.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn stat(&self) -> Result<MapStat> {
        self.arena.ensure_open()?;
        self.bound.read(self.space(), |bound| self.stat_of(bound))
    }

    /// What a map in cache mode is charged with: a few numbers, however much is in it, for programs
    /// that report again and again. The charge of a change under way may be missing. In other modes
    /// nothing is counted.
    ///
    /// # Errors
    /// As [`len`](Self::len).
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

    /// Tells the others of this handle's lookups, if it may write.
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

/// Pairs and their bytes, by the power of two that their records do not exceed.
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
