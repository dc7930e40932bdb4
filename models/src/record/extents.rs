//! What a living process does with extents besides allocating: give them up, recycle them, leave.
//!
//! Invariant: ownership is taken from "unowned" only and given back by its owner, with no state word of the
//! owner left in the extent. Called by the record model.

use super::state::{EXTENTS, PER_EXTENT, State, StateWord};
use super::{At, Break, ExitAt, Records, RecycleAt};

impl Records {
    pub(super) fn step_give(&self, state: &mut State, process: usize, extent: u8) -> bool {
        if usize::from(extent) == EXTENTS {
            return self.finish(state, process);
        }
        give(state, process, extent);
        state.procs.go(process, At::Give(extent + 1))
    }

    pub(super) fn step_recycle(
        &self,
        state: &mut State,
        process: usize,
        extent: u8,
        at: RecycleAt,
    ) -> bool {
        let record = |i: u8| usize::from(extent) * PER_EXTENT + usize::from(i);
        let end = |i: u8| usize::from(i) == PER_EXTENT;
        let next = match at {
            RecycleAt::Adopt if state.owners[extent as usize].is_some() => {
                return self.finish(state, process);
            }
            RecycleAt::Adopt => {
                state.owners[extent as usize] = Some(state.procs[process].who);
                RecycleAt::Look(0)
            }
            RecycleAt::Look(i) if end(i) => RecycleAt::Fill(0),
            RecycleAt::Look(i) => {
                let found = &state.records[record(i)];
                // FREE implies a clear bit, but a clear bit does not imply FREE: whoever retires
                // the record may still have to store it.
                let free =
                    found.state_word == StateWord::Free || self.breaks(Break::RecycleByBitmap);
                if found.bit || !free {
                    give(state, process, extent);
                    return self.finish(state, process);
                }
                RecycleAt::Look(i + 1)
            }
            RecycleAt::Fill(i) if end(i) => {
                give(state, process, extent);
                return self.finish(state, process);
            }
            RecycleAt::Fill(i) => {
                state.records[record(i)].state_word = StateWord::Alien;
                RecycleAt::Fill(i + 1)
            }
        };
        state.procs.go(process, At::Recycle(extent, next))
    }

    pub(super) fn step_exit(&self, state: &mut State, process: usize, at: ExitAt) -> bool {
        let slot = state.procs[process].who.slot;
        let next = match at {
            ExitAt::Give => {
                let me = Some(state.procs[process].who);
                match (0..EXTENTS).find(|&e| state.owners[e] == me) {
                    Some(extent) => {
                        state.owners[extent] = None;
                        ExitAt::Give
                    }
                    None => ExitAt::Used,
                }
            }
            ExitAt::Used => {
                state.slots.0[slot as usize].used = false;
                ExitAt::Byte
            }
            ExitAt::Byte => {
                state.slots.release_bytes_of(process);
                state.procs[process].leave();
                return true;
            }
        };
        state.procs.go(process, At::Exit(next))
    }
}

fn give(state: &mut State, process: usize, extent: u8) {
    let owner = &mut state.owners[extent as usize];
    if *owner == Some(state.procs[process].who) {
        *owner = None;
    }
}
