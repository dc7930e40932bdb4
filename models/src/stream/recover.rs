//! What a recoverer does with the stream and the segment of a dead process.

use super::{Break, Recovering, State, Streaming};

impl Streaming {
    /// Where recovering begins.
    pub(super) fn first_settling(&self) -> Recovering {
        match self.broken {
            Some(Break::SegmentFirst) => Recovering::Segment,
            Some(Break::DisarmedFirst) => Recovering::Disarm,
            _ => Recovering::Tail,
        }
    }

    /// One step of recovering `dead`, with its segment if `whole`; what comes next.
    pub(super) fn recover(
        &self,
        state: &mut State,
        dead: usize,
        recovering: Recovering,
        whole: bool,
    ) -> Option<Recovering> {
        let owner = u8::try_from(dead).ok();
        let mine = state.stream == owner;
        let disarmed_first = self.broken == Some(Break::DisarmedFirst);
        let segment_first = self.broken == Some(Break::SegmentFirst);
        match recovering {
            Recovering::Tail => {
                if mine && self.broken != Some(Break::NotRecovered) && is_changed(state) {
                    state.tail = state.end;
                }
                Some(if disarmed_first { Recovering::Stream } else { Recovering::Disarm })
            }
            Recovering::Disarm => {
                if mine {
                    state.armed = None;
                }
                Some(if disarmed_first { Recovering::Tail } else { Recovering::Stream })
            }
            Recovering::Stream => {
                if mine {
                    state.stream = None;
                }
                let then =
                    if segment_first || !whole { Recovering::Byte } else { Recovering::Segment };
                Some(then)
            }
            Recovering::Segment => {
                for segment in &mut state.segments {
                    if whole && *segment == owner {
                        *segment = None;
                    }
                }
                Some(if segment_first { Recovering::Tail } else { Recovering::Byte })
            }
            Recovering::Byte => {
                state.bytes[dead] = None;
                None
            }
        }
    }

    /// Recovers all dead, one after the other.
    pub(super) fn sweep(&self, state: &mut State) {
        for dead in 0..state.dead.len() {
            let mut next = state.dead[dead].then(|| self.first_settling());
            while let Some(recovering) = next {
                next = self.recover(state, dead, recovering, true);
            }
        }
    }
}

/// Whether the slot of the armed change is another than before it.
fn is_changed(state: &State) -> bool {
    state.armed.is_some_and(|slot| state.slots[usize::from(slot)] != state.old)
}
