//! Fixed-length pairs kept in the index itself: the common part of both ways of packing them.
//!
//! [`words`](crate::map::words) packs pairs of at most 8 bytes into slots,
//! [`cells`](crate::map::cells) packs longer ones into cells of a bucket. Either way a pair is
//! found, read whole, and changed by one store under the segment's lock. It has no record, no
//! sequence and no checksum of its own.

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::cells::Cells;
use crate::map::change::{Act, Change, Outcome, Rule, add};
use crate::map::directory;
use crate::map::hash::{Hash, Hasher};
use crate::map::locked;
use crate::map::options::Uid;
use crate::map::read;
use crate::map::recover::recount;
use crate::map::segment::Segment;
use crate::map::split;
use crate::map::take::Take;
use crate::map::words::Words;
use crate::map::write::not_a_number;
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::stream::append::{self, StreamLock};
use crate::stream::frame::ChangeKind;
use crate::sync::space::Space;
use crate::sync::unwind::Mend;
use std::sync::atomic::{Ordering, fence};

const TRIES: u32 = 1 << 20;

/// The packing of a map's pairs in its segments. The result of a function that only reads existed
/// at one moment.
pub(crate) trait Packing {
    /// Key and value, one after the other, then zeros.
    type Pair: AsRef<[u8]> + Copy;

    /// Bytes of a key and of a value.
    fn lengths(&self) -> (usize, usize);

    /// The pair of this key and value, which have the map's lengths.
    fn pack(&self, key: &[u8], value: &[u8]) -> Self::Pair;

    /// The pair with this key in a segment, and its position.
    fn find(&self, segment: Segment<'_>, hash: Hash, key: &[u8]) -> Option<(u32, Self::Pair)>;

    /// The pair at a position.
    fn at(&self, segment: Segment<'_>, position: u32) -> Option<Self::Pair>;

    /// A free position for the hash, under the lock: in the emptier of its two buckets.
    fn free_position(&self, segment: Segment<'_>, hash: Hash) -> Option<u32>;

    /// Stores a pair, under the lock; its last store is the commit point.
    fn put(&self, segment: Segment<'_>, position: u32, hash: Hash, pair: &Self::Pair);

    /// The slot whose store commits a change of a position.
    fn commits(&self, position: u32) -> u32;

    /// Empties a position by one store, under the lock.
    fn clear(&self, segment: Segment<'_>, position: u32);

    /// Fetches both buckets of a hash, for a lookup.
    fn prefetch(&self, segment: Segment<'_>, hash: Hash);

    /// Fetches the pairs that may have the key with this hash, if that is more than the buckets.
    #[inline(always)]
    fn prefetch_candidates(&self, _: Segment<'_>, _: Hash) {}

    /// Fetches both buckets of a hash, for a change.
    fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash);
}

/// The packing of a map. One per handle, and the words' fillers are read in every lookup: no box.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Inline {
    Words(Words),
    Cells(Cells),
}

/// Runs the body for either packing.
macro_rules! packed {
    ($inline:expr, $packing:ident => $go_on:expr) => {
        match $inline {
            Inline::Words($packing) => $go_on,
            Inline::Cells($packing) => $go_on,
        }
    };
}
pub(crate) use packed;

impl Inline {
    /// The packing of pairs with these lengths. `None` if they are kept in records: long pairs, and
    /// all but the shortest pairs of a file hold, because only a checksum reveals a torn pair after
    /// a crash of the system.
    pub(crate) fn new(
        hasher: &Hasher,
        checksums: bool,
        key_bytes: u32,
        value_bytes: u32,
    ) -> Option<Inline> {
        let words = || Words::new(hasher, key_bytes, value_bytes).map(Inline::Words);
        let cells = || Cells::new(key_bytes, value_bytes).map(Inline::Cells);
        words().or_else(|| if checksums { None } else { cells() })
    }

    /// Buckets of a segment.
    pub(crate) fn buckets(&self) -> u32 {
        match self {
            Inline::Words(_) => crate::map::segment::BUCKETS,
            Inline::Cells(cells) => cells.buckets(),
        }
    }

    /// A description of damage in a bucket, while nobody writes.
    pub(crate) fn problem(&self, segment: Segment<'_>, bucket: u32) -> Option<&'static str> {
        match self {
            Inline::Words(_) => None,
            Inline::Cells(cells) => cells.problem(segment, bucket),
        }
    }

    /// True if readers find the key with this hash at its position. While nobody writes.
    pub(crate) fn is_found(&self, segment: Segment<'_>, position: u32, hash: Hash) -> bool {
        match self {
            Inline::Words(_) => true,
            Inline::Cells(cells) => cells.has_tag(segment, position, hash),
        }
    }

    /// Fetches both buckets of a hash, for a change.
    #[inline]
    pub(crate) fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash) {
        packed!(self, packing => packing.prefetch_to_change(segment, hash));
    }

    /// Key and value at a position.
    pub(crate) fn pair(&self, segment: Segment<'_>, position: u32) -> Option<(Vec<u8>, Vec<u8>)> {
        packed!(self, packing => packing.at(segment, position).map(|pair| {
            let (key, value) = parts(packing, &pair);
            (key.to_vec(), value.to_vec())
        }))
    }

    /// The hash of the key at a position.
    pub(crate) fn hash(
        &self,
        hasher: &Hasher,
        segment: Segment<'_>,
        position: u32,
    ) -> Option<Hash> {
        packed!(self, packing => packing.at(segment, position)
            .map(|pair| hasher.hash(parts(packing, &pair).0)))
    }

    /// True if there is a pair at a position.
    pub(crate) fn is_used(&self, segment: Segment<'_>, position: u32) -> bool {
        packed!(self, packing => packing.at(segment, position).is_some())
    }

    /// Empties a position, under the lock, without counting the change.
    pub(crate) fn clear(&self, segment: Segment<'_>, position: u32) {
        packed!(self, packing => packing.clear(segment, position));
    }
}

/// Key and value of a pair.
#[inline(always)]
pub(crate) fn parts<'p, P: Packing>(packing: &P, pair: &'p P::Pair) -> (&'p [u8], &'p [u8]) {
    let (key, value) = packing.lengths();
    (&pair.as_ref()[..key], &pair.as_ref()[key..key + value])
}

/// Looks a key up. The key has the map's length.
#[inline]
pub(crate) fn find<T: Take>(
    space: &Space,
    bound: &Bound,
    inline: &Inline,
    (hash, key): (Hash, &[u8]),
    mut of: T,
) -> Result<Option<T::Taken>> {
    packed!(inline, packing => {
        let found = find_pair(space, bound, packing, (hash, key))?;
        Ok(found.map(|(position, pair)| {
            of.take_packed(Uid(uid(hash, position)), parts(packing, &pair).1)
        }))
    })
}

/// The uid of the key with this hash at this position.
#[inline(always)]
pub(crate) fn uid(hash: Hash, position: u32) -> u32 {
    hash.directory() << 8 | position
}

#[inline]
fn find_pair<P: Packing>(
    space: &Space,
    bound: &Bound,
    packing: &P,
    (hash, key): (Hash, &[u8]),
) -> Result<Option<(u32, P::Pair)>> {
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, bound, hash.directory()) else { break };
        let found = packing.find(segment, hash, key);
        if found.is_none() && !read::is_absent(space, bound, hash, segment) {
            continue;
        }
        bound.ensure_current(space)?;
        return Ok(found);
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup finds no consistent state"))
}

/// Key and value of the pair at a position, if its key has these directory bits.
pub(crate) fn at_position(
    space: &Space,
    bound: &Bound,
    inline: &Inline,
    directory: u32,
    position: u32,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, bound, directory) else { break };
        let pair = inline.pair(segment, position);
        let pair = pair.filter(|(key, _)| bound.hasher.hash(key).directory() == directory);
        fence(Ordering::Acquire);
        let again = directory::lookup(space, bound, directory);
        if pair.is_some() || again.is_some_and(|again| again.offset == segment.offset) {
            bound.ensure_current(space)?;
            return Ok(pair);
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup by uid finds no consistent state"))
}

/// Applies one change; `old` gets the value that it replaced or removed.
#[inline]
pub(crate) fn apply(
    arena: &Arena,
    bound: &Bound,
    inline: &Inline,
    change: &Change<'_>,
    mut old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    // Before the lane is entered: there is nothing else to do while the memory arrives.
    locked::fetch(&arena.space, bound, bound.hasher.hash(change.key));
    arena.operate(|lane| apply_in(lane, bound, inline, change, old.as_deref_mut()))
}

/// The same, in a lane that has been entered already.
#[inline]
pub(crate) fn apply_in(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    inline: &Inline,
    change: &Change<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    packed!(inline, packing => apply_packed(lane, bound, packing, change, old))
}

fn apply_packed<P: Packing>(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    packing: &P,
    change: &Change<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    check_lengths(bound, packing, change)?;
    let hash = bound.hasher.hash(change.key);
    loop {
        let segment = locked::lock(lane, bound, hash.directory())?;
        step!("inline.locked");
        let found = packing.find(*segment, hash, change.key);
        let deletes = matches!(change.act, Act::Delete);
        let right = change.is_there(found.as_ref().map(|(position, _)| *position))
            && holds(packing, change.rule, found.as_ref());
        if !right || (deletes && found.is_none()) {
            return Ok(Outcome::default());
        }
        let place = found.as_ref().map(|(position, _)| *position);
        let Some(position) = place.or_else(|| packing.free_position(*segment, hash)) else {
            split::split(lane, bound, segment)?;
            continue;
        };
        let before = found.as_ref().map(|(_, pair)| parts(packing, pair).1);
        if let (Some(old), Some(before)) = (old, before) {
            old.clear();
            old.extend_from_slice(before);
        }
        let pair = found.as_ref().map(|(_, pair)| pair);
        let (pair, number) = result_of(packing, change.key, change.act, pair);
        let stream_lock = match (&pair, &found) {
            (Some(pair), _) => begin_frame(lane, bound, packing, *segment, ChangeKind::Set, pair),
            (None, Some((_, pair))) => {
                begin_frame(lane, bound, packing, *segment, change.removal, pair)
            }
            (None, None) => Ok(None),
        };
        let stream_lock = stream_lock?;
        let place = (position, found.is_some());
        let new = pair.as_ref().map(|pair| (hash, pair));
        commit(lane, bound, packing, *segment, place, new, stream_lock);
        return Ok(Outcome { done: true, uid: uid(hash, position), number });
    }
}

/// Commits one change of a position, which `was_used`, of a locked segment: `new` is the pair to
/// store there, `None` to remove the old one.
#[inline(always)]
pub(crate) fn commit<P: Packing>(
    writer: &impl Writer,
    bound: &Bound,
    packing: &P,
    segment: Segment<'_>,
    (position, was_used): (u32, bool),
    new: Option<(Hash, &P::Pair)>,
    stream_lock: Option<StreamLock<'_>>,
) {
    let counted = Mend::new(|| recount(bound, segment));
    begin(writer, segment);
    if let Some(stream_lock) = &stream_lock {
        stream_lock.arm(segment.slot_offset(packing.commits(position)));
    }
    match new {
        Some((hash, pair)) => packing.put(segment, position, hash, pair),
        None => packing.clear(segment, position),
    }
    step!("inline.committed");
    if let Some(stream_lock) = stream_lock {
        stream_lock.finish();
    }
    locked::count(bound, segment, was_used, new.is_some());
    counted.done();
}

fn check_lengths<P: Packing>(bound: &Bound, packing: &P, change: &Change<'_>) -> Result<()> {
    let value_bytes = packing.lengths().1;
    let put = match change.act {
        Act::Put(value) => Some(value.len()),
        Act::Add(_) | Act::Delete => None,
    };
    bound.check_lengths(change.key, put)?;
    if matches!(change.act, Act::Add(_)) && value_bytes != 8 {
        return Err(not_a_number(bound, value_bytes as u64));
    }
    Ok(())
}

/// The pair after a change of a value, and the sum if it is an addition.
#[inline(always)]
pub(crate) fn result_of<P: Packing>(
    packing: &P,
    key: &[u8],
    act: Act<'_>,
    before: Option<&P::Pair>,
) -> (Option<P::Pair>, i64) {
    match act {
        Act::Put(value) => (Some(packing.pack(key, value)), 0),
        Act::Add(by) => {
            let number = before.and_then(|pair| add(parts(packing, pair).1, by)).unwrap_or(by);
            (Some(packing.pack(key, &number.to_le_bytes())), number)
        }
        Act::Delete => (None, 0),
    }
}

/// Counts a change of a locked segment before it is made.
#[inline(always)]
fn begin(writer: &impl Writer, segment: Segment<'_>) {
    let header = segment.header();
    let counter = writer.next_sequence(header.state_word.load(Ordering::Relaxed));
    // Release: a reader (a backup) that reads the counter and then finds the lock free sees the
    // slot as well.
    header.state_word.store(counter, Ordering::Release);
}

/// Writes the frame of a change of a pair that will be committed: `pair` is the new one, or the one
/// that is removed. `None` if the map has no stream.
fn begin_frame<'a, P: Packing>(
    writer: &impl Writer,
    bound: &Bound,
    packing: &P,
    segment: Segment<'a>,
    kind: ChangeKind,
    pair: &P::Pair,
) -> Result<Option<StreamLock<'a>>> {
    let (stream, position) = (bound.stream(segment.space), &segment.header().stream_position);
    let (key, value) = parts(packing, pair);
    let value = if kind == ChangeKind::Set { value } else { &[] };
    let len = (key.len() + value.len()) as u64;
    let parts = |out: &mut Vec<u8>| {
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        key.len()
    };
    append::begin(writer, stream, position, kind, 0, (len, parts))
}

/// Removes the pair at a position of a locked segment; false if there is none. `kind` is the kind
/// of change in the stream; `None` if nobody can follow any more.
///
/// # Errors
/// Those of waiting for the stream.
pub(crate) fn remove_at(
    writer: &impl Writer,
    bound: &Bound,
    inline: &Inline,
    segment: Segment<'_>,
    position: u32,
    kind: Option<ChangeKind>,
) -> Result<bool> {
    packed!(inline, packing => {
        let Some(pair) = packing.at(segment, position) else { return Ok(false) };
        let stream_lock = match kind {
            Some(kind) => begin_frame(writer, bound, packing, segment, kind, &pair)?,
            None => None,
        };
        commit(writer, bound, packing, segment, (position, true), None, stream_lock);
        Ok(true)
    })
}

fn holds<P: Packing>(packing: &P, rule: Rule<'_>, found: Option<&(u32, P::Pair)>) -> bool {
    match (rule, found) {
        (Rule::Always, _) | (Rule::Absent, None) | (Rule::Present, Some(_)) => true,
        (Rule::Equals(None) | Rule::Sequence(None), found) => found.is_none(),
        (Rule::Equals(Some(expected)), Some((_, pair))) => parts(packing, pair).1 == expected,
        // A pair has no sequence: an update compares its value.
        _ => false,
    }
}
