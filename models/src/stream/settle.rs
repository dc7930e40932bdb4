//! What a recoverer does with the stream and the segment of a dead process.

use super::{Break, Settling, State, Streaming};

impl Streaming {
    /// Where settling begins.
    pub(super) fn first_settling(&self) -> Settling {
        match self.broken {
            Some(Break::SegmentFirst) => Settling::Segment,
            Some(Break::DisarmedFirst) => Settling::Disarm,
            _ => Settling::Tail,
        }
    }

    /// One step of settling `dead`, with its segment if `whole`; what comes next.
    pub(super) fn settle(
        &self,
        state: &mut State,
        dead: usize,
        settling: Settling,
        whole: bool,
    ) -> Option<Settling> {
        let owner = u8::try_from(dead).ok();
        let mine = state.stream == owner;
        let disarmed_first = self.broken == Some(Break::DisarmedFirst);
        let segment_first = self.broken == Some(Break::SegmentFirst);
        match settling {
            Settling::Tail => {
                if mine && self.broken != Some(Break::NotSettled) && is_changed(state) {
                    state.tail = state.end;
                }
                Some(if disarmed_first { Settling::Stream } else { Settling::Disarm })
            }
            Settling::Disarm => {
                if mine {
                    state.armed = None;
                }
                Some(if disarmed_first { Settling::Tail } else { Settling::Stream })
            }
            Settling::Stream => {
                if mine {
                    state.stream = None;
                }
                let then = if segment_first || !whole { Settling::Byte } else { Settling::Segment };
                Some(then)
            }
            Settling::Segment => {
                for segment in &mut state.segments {
                    if whole && *segment == owner {
                        *segment = None;
                    }
                }
                Some(if segment_first { Settling::Tail } else { Settling::Byte })
            }
            Settling::Byte => {
                state.bytes[dead] = None;
                None
            }
        }
    }

    /// Settles all dead, one after the other.
    pub(super) fn sweep(&self, state: &mut State) {
        for dead in 0..state.dead.len() {
            let mut next = state.dead[dead].then(|| self.first_settling());
            while let Some(settling) = next {
                next = self.settle(state, dead, settling, true);
            }
        }
    }
}

/// Whether the slot of the armed change is another than before it.
fn is_changed(state: &State) -> bool {
    state.armed.is_some_and(|slot| state.slots[usize::from(slot)] != state.old)
}
