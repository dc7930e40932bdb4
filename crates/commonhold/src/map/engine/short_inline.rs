//! The short ways of fixed-length pairs in the index: one look, and one change.
//!
//! The same loads and stores as the patient ways ([`inline`]), in straight-line code. A change
//! waits for nothing, as that of a record does ([`short_change`]): anything unusual ends it before
//! the map has changed, and the patient way begins again.

use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Outcome};
use crate::map::engine::directory;
use crate::map::engine::inline_pairs;
use crate::map::engine::locked;
use crate::map::engine::read;
use crate::map::engine::short_act::{ShortAct, When};
use crate::map::engine::short_change::{self, Answer};
use crate::map::engine::take::Take;
use crate::map::layout::hash::Hash;
use crate::map::layout::inline::{Inline, packed};
use crate::map::layout::packing::{Packing, uid};
use crate::map::layout::segment::Segment;
use crate::map::options::Uid;
use crate::memory::arena::Arena;
use crate::memory::lane::{ANYTHING, Entered, LaneGuard};
use crate::steps::step;
use crate::sync::space::Space;

/// Looks a key up. `None` if the key has another length than the map's, or if the lookup met a
/// change, damage or the end of the map. The patient way finds out which.
#[inline(always)]
pub(crate) fn try_find<T: Take>(
    space: &Space,
    bound: &Bound,
    key: &[u8],
    mut taker: T,
) -> Option<Option<T::Taken>> {
    packed!(bound.inline.as_ref()?, packing => {
        if key.len() != packing.lengths().0 {
            return None;
        }
        let hash = bound.hasher.hash(key);
        let segment = directory::lookup(space, bound, hash.low())?;
        let Some((position, pair)) = packing.find(segment, hash, key) else {
            let absent = read::is_absent(space, bound, hash, segment) && bound.is_current(space);
            return absent.then_some(None);
        };
        let taken = taker.take_packed(Uid(uid(hash, position)), packing.value(key, &pair));
        bound.is_current(space).then_some(Some(taken))
    })
}

/// Applies a change without waiting for anything. `None` if nothing was done, and the patient way
/// has to do it.
#[inline(always)]
pub(crate) fn try_apply<'v, A: ShortAct + Into<Act<'v>>>(
    arena: &Arena,
    bound: &Bound,
    (key, when): (&[u8], When),
    act: A,
) -> Option<Outcome> {
    let answer = match key.len() {
        4 => apply(arena, bound, key.first_chunk::<4>()?, when, act),
        8 => apply(arena, bound, key.first_chunk::<8>()?, when, act),
        _ => apply(arena, bound, key, when, act),
    };
    answer.outcome()
}

/// The arguments fit into registers, and a key of 4 or 8 bytes has a constant length.
#[inline(never)]
fn apply<'v, A: ShortAct + Into<Act<'v>>, K: AsRef<[u8]> + ?Sized>(
    arena: &Arena,
    bound: &Bound,
    key: &K,
    when: When,
    act: A,
) -> Answer {
    let (key, act): (_, Act<'v>) = (key.as_ref(), act.into());
    let done = match &bound.inline {
        _ if !bound.has_short_changes => None,
        Some(Inline::Words(words)) => apply_packed(arena, bound, words, key, when, act),
        Some(Inline::Cells(cells)) => apply_packed(arena, bound, cells, key, when, act),
        None => None,
    };
    Answer::new(done)
}

/// The same in a lane that the caller has entered, for one of many pairs.
#[inline(never)]
pub(crate) fn try_apply_in(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    inline: &Inline,
    (key, when): (&[u8], When),
    act: Act<'_>,
) -> Option<Outcome> {
    packed!(inline, packing => {
        if !bound.has_short_changes || !has_lengths(packing, key, act) {
            return None;
        }
        let hash = bound.hasher.hash(key);
        let segment = directory::lookup_own(lane.space(), bound, hash.low())?;
        let locked = locked::try_lock_this(lane, segment)?;
        under_lock(lane, bound, packing, *locked, (hash, key), when, act)
    })
}

#[inline(always)]
fn apply_packed<P: Packing>(
    arena: &Arena,
    bound: &Bound,
    packing: &P,
    key: &[u8],
    when: When,
    act: Act<'_>,
) -> Option<Outcome> {
    if !has_lengths(packing, key, act) {
        return None;
    }
    let (space, hash) = (&arena.space, bound.hasher.hash(key));
    let segment = directory::lookup_own(space, bound, hash.low())?;
    // The memory arrives while the lane is entered.
    segment.prefetch_header();
    packing.prefetch_to_change(segment, hash);
    let lane = arena.try_enter_preferred(ANYTHING)?;
    let locked = locked::try_lock_this(&lane, segment)?;
    under_lock(&lane, bound, packing, *locked, (hash, key), when, act)
}

#[inline(always)]
fn has_lengths<P: Packing>(packing: &P, key: &[u8], act: Act<'_>) -> bool {
    let (key_bytes, value_bytes) = packing.lengths();
    let value = match act {
        Act::Put(value) => value.len(),
        Act::Add(_) => 8,
        Act::Delete => value_bytes,
    };
    key.len() == key_bytes && value == value_bytes
}

#[inline(always)]
fn under_lock<P: Packing>(
    lane: &Entered<'_>,
    bound: &Bound,
    packing: &P,
    segment: Segment<'_>,
    (hash, key): (Hash, &[u8]),
    when: When,
    act: Act<'_>,
) -> Option<Outcome> {
    short_change::ensure_undisturbed(bound, hash, segment)?;
    step!("inline.locked");
    let found = packing.find(segment, hash, key);
    let refused = match found {
        Some(_) => when == When::Absent,
        None => when == When::Present || matches!(act, Act::Delete),
    };
    if refused {
        return Some(Outcome::default());
    }
    let position = match &found {
        Some((position, _)) => *position,
        None => packing.free_position(segment, hash)?,
    };
    let before = found.as_ref().map(|(_, pair)| pair);
    let (pair, number) = inline_pairs::result_of(packing, key, act, before);
    let new = pair.as_ref().map(|pair| (hash, pair));
    inline_pairs::commit(lane, bound, packing, segment, (position, found.is_some()), new, None);
    Some(Outcome { done: true, uid: uid(hash, position), number })
}

/// Changes the pair with this key at a position of a segment, without waiting for anything. `None`
/// if nothing was done, also if the pair is no longer there.
#[inline(always)]
pub(crate) fn try_apply_at<P: Packing>(
    arena: &Arena,
    bound: &Bound,
    packing: &P,
    (segment, position): (Segment<'_>, u32),
    (hash, key): (Hash, &[u8]),
    act: Act<'_>,
) -> Option<Outcome> {
    if !has_lengths(packing, key, act) {
        return None;
    }
    let lane = arena.try_enter_preferred(ANYTHING)?;
    let segment = locked::try_lock_this(&lane, segment)?;
    short_change::ensure_undisturbed(bound, hash, *segment)?;
    step!("inline.locked");
    let before = packing.at(*segment, position).filter(|pair| packing.has_key(pair, key))?;
    let (pair, number) = inline_pairs::result_of(packing, key, act, Some(&before));
    let new = pair.as_ref().map(|pair| (hash, pair));
    inline_pairs::commit(&lane, bound, packing, *segment, (position, true), new, None);
    Some(Outcome { done: true, uid: uid(hash, position), number })
}
