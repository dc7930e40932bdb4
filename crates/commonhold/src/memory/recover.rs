//! Recovering the extents of a dead participant. Its recoverer runs this and acts as it.
//!
//! This is the last step of a recovery. Everything that the dead participant published or unlinked
//! under a segment's lock is recovered by then. A record whose state word still names it is
//! therefore private and is freed. State words come before ownership: an extent is released only
//! when no state word in it names the dead one.

use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, committed, header};
use crate::memory::{runs, slab, supply};
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Recovers every extent that the dead `owner` owned. `linked` returns whether a structure uses the
/// directory chunk or block that begins at an offset. With `passed_over`, there may be segments of
/// the dead one in extents that it had released.
pub(crate) fn recover_extents(
    space: &Space,
    owner: Owner,
    passed_over: bool,
    linked: &dyn Fn(u64) -> bool,
) {
    for extent in 0..committed(space) {
        let state = header(space, extent).state();
        if state.owner() == Some(owner) {
            recover_extent(space, extent, state, owner, linked);
        } else if passed_over && state.is(Kind::Segments) {
            recover_records(space, extent, state, owner);
        }
    }
    extents::rebuild_hints(space);
}

fn recover_extent(
    space: &Space,
    extent: u64,
    state: State,
    owner: Owner,
    linked: &dyn Fn(u64) -> bool,
) {
    match state.kind() {
        Kind::Records | Kind::Segments => {
            recover_records(space, extent, state, owner);
            supply::release(space, extent, state.class());
        }
        Kind::Run => {
            let state_word = space.word(extent * EXTENT).load(Ordering::Acquire);
            if state_word == slab::writing(owner) || state_word == slab::retired(owner) {
                runs::free_claimed(space, extent);
            } else {
                // Published: another participant may be replacing it at this moment, and then it is
                // no longer ours.
                header(space, extent).change(state, State::unowned(Kind::Run, 0));
            }
        }
        Kind::Directory => {
            let kind = if linked(extent * EXTENT) { Kind::Directory } else { Kind::SpareDirectory };
            header(space, extent).change(state, State::unowned(kind, 0));
        }
        Kind::Block if linked(extent * EXTENT) => {
            header(space, extent).change(state, State::unowned(Kind::Block, state.class()));
        }
        Kind::Block => runs::free_claimed(space, extent),
        Kind::Claimed => runs::free_claimed(space, extent),
        _ => {}
    }
}

fn recover_records(space: &Space, extent: u64, state: State, owner: Owner) {
    for offset in slab::offsets(extent, state.class()) {
        recover_record(space, offset, owner);
    }
}

/// Frees the record at `offset` if the dead `owner` was writing or retiring it.
pub(crate) fn recover_record(space: &Space, offset: u64, owner: Owner) {
    // The state first: if a run is in use and its state word then still names the dead participant,
    // it belongs to that participant. In the other order it might have been freed and claimed again
    // in between.
    let extent = offset / EXTENT;
    let in_use = |kind| matches!(kind, Kind::Records | Kind::Segments | Kind::Run);
    if extent < committed(space) && in_use(header(space, extent).state().kind()) {
        let state_word = space.word(offset).load(Ordering::Acquire);
        if state_word == slab::writing(owner) || state_word == slab::retired(owner) {
            slab::retire(space, offset, owner);
        }
    }
}
