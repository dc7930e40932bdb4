//! Fixed-length pairs kept in the index itself: lookups and changes.
//!
//! The code is the same for both ways of [packing](crate::map::layout::packing) them.

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Change, Outcome, Rule, add};
use crate::map::engine::compact;
use crate::map::engine::directory;
use crate::map::engine::locked;
use crate::map::engine::read;
use crate::map::engine::split;
use crate::map::engine::take::Take;
use crate::map::engine::write::not_a_number;
use crate::map::layout::hash::Hash;
use crate::map::layout::inline::{Inline, packed};
use crate::map::layout::packing::{Packing, parts, uid};
use crate::map::layout::segment::Segment;
use crate::map::options::Uid;
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::writer::{Sequences, Writer};
use crate::steps::step;
use crate::stream::append::{self, StreamLock};
use crate::stream::frame::ChangeKind;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::{Ordering, fence};

const TRIES: u32 = 1 << 20;

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

/// The same, in a lane that has been entered already. If there is no room for a split, this makes
/// some.
#[inline]
pub(crate) fn apply_in(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    inline: &Inline,
    change: &Change<'_>,
    mut old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    packed!(inline, packing => compact::with_room(lane, || {
        apply_packed(lane, bound, packing, change, old.as_deref_mut())
    }))
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
    writer: &impl Sequences,
    bound: &Bound,
    packing: &P,
    segment: Segment<'_>,
    (position, was_used): (u32, bool),
    new: Option<(Hash, &P::Pair)>,
    stream_lock: Option<StreamLock<'_>>,
) {
    let counted = UnwindGuard::new(|| bound.recount(segment));
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
fn begin(writer: &impl Sequences, segment: Segment<'_>) {
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
        (Rule::Equals(None) | Rule::Unchanged(None), found) => found.is_none(),
        (Rule::Equals(Some(expected)), Some((_, pair))) => parts(packing, pair).1 == expected,
        // A pair has no sequence: an update compares its value.
        _ => false,
    }
}
