//! The short ways of fixed-length pairs in the index: one look, and one change.
//!
//! The same loads and stores as the patient ways ([`inline`]), in straight-line code. A change
//! waits for nothing, as that of a record does ([`short_change`]): anything unusual ends it before
//! the map has changed, and the patient way begins again.

use crate::map::bound::Bound;
use crate::map::change::{Act, Outcome};
use crate::map::directory;
use crate::map::hash::Hash;
use crate::map::inline::{self, Inline, Packing, packed, parts, uid};
use crate::map::locked;
use crate::map::options::Uid;
use crate::map::read;
use crate::map::segment::Segment;
use crate::map::short_change::{self, ShortAct, When};
use crate::map::take::Take;
use crate::memory::arena::Arena;
use crate::memory::lane::{ANYTHING, LaneGuard};
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
        let segment = directory::lookup(space, bound, hash.directory())?;
        let Some((position, pair)) = packing.find(segment, hash, key) else {
            let absent = read::is_absent(space, bound, hash, segment) && bound.is_current(space);
            return absent.then_some(None);
        };
        let taken = taker.take_packed(Uid(uid(hash, position)), parts(packing, &pair).1);
        bound.is_current(space).then_some(Some(taken))
    })
}

/// Applies a change without waiting for anything. `None` if nothing was done, and the patient way
/// has to do it.
pub(crate) fn try_apply<'v, A: ShortAct + Into<Act<'v>>>(
    arena: &Arena,
    bound: &Bound,
    key: &[u8],
    when: When,
    act: A,
) -> Option<Outcome> {
    let inline = bound.inline.as_ref()?;
    packed!(inline, packing => apply_packed(arena, bound, packing, key, when, act.into()))
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
    let segment = directory::lookup_own(space, bound, hash.directory())?;
    // The memory arrives while the lane is entered.
    segment.prefetch_header();
    packing.prefetch_to_change(segment, hash);
    let lane = arena.try_enter_preferred(ANYTHING)?.stepping_aside(arena);
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
    lane: &LaneGuard<'_>,
    bound: &Bound,
    packing: &P,
    segment: Segment<'_>,
    (hash, key): (Hash, &[u8]),
    when: When,
    act: Act<'_>,
) -> Option<Outcome> {
    short_change::ensure_undisturbed(lane, bound, hash, segment)?;
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
    let (pair, number) = inline::result_of(packing, key, act, before);
    let new = pair.as_ref().map(|pair| (hash, pair));
    inline::commit(lane, bound, packing, segment, (position, found.is_some()), new, None);
    Some(Outcome { done: true, uid: uid(hash, position), number })
}
