//! A consumer's steps: joining, receiving, leaving.

use super::state::{At, Cell, RING, State, Use};
use super::{Break, Channel, Policy};

const UNKNOWN: u8 = u8::MAX;

impl Channel {
    pub(super) fn step_consumer(
        &self,
        state: &mut State,
        process: usize,
        policy: Policy,
        oldest: bool,
        takes: u8,
    ) -> Option<At> {
        let proc = state.procs[process];
        let line = usize::from(proc.least);
        Some(match proc.at {
            At::Claim => return self.claim(state, process),
            At::Begin => {
                self.begin_reading(state, process, oldest);
                if policy == Policy::Lossy { At::Poll } else { At::Store }
            }
            At::Store => {
                state.lines[line].cursor = proc.position;
                if state.lines[line].word.0 == Use::Claiming { At::Count } else { At::Again }
            }
            At::Count => {
                state.lines[line].word.0 = Use::Counts;
                if self.breaks(Break::NoReread) { At::Poll } else { At::Again }
            }
            At::Again => {
                let against = match self.breaks(Break::ComparesMark) {
                    true => state.mark.0,
                    false => state.write_limit,
                };
                if against > proc.position + RING { At::Begin } else { At::Poll }
            }
            At::Poll => return self.poll(state, process, policy),
            At::Copy(part, right) => self.copy(state, process, part, right),
            At::Take(right) => self.take(state, process, policy, takes, right),
            At::Publish => {
                state.lines[line].cursor = proc.position;
                if self.has_enough(state, process, takes) { At::Leave } else { At::Poll }
            }
            _ => {
                let own = u8::try_from(process).expect("few processes");
                if state.lines[line].word.1 == own {
                    state.lines[line].word = (Use::Free, 0);
                }
                At::Done
            }
        })
    }

    fn has_enough(&self, state: &State, process: usize, takes: u8) -> bool {
        let proc = &state.procs[process];
        proc.allowance >= takes || (!proc.walks && proc.message == self.messages())
    }

    fn claim(&self, state: &mut State, process: usize) -> Option<At> {
        let free = state.lines.iter().position(|line| {
            let (kind, owner) = line.word;
            kind == Use::Free || state.dead[usize::from(owner)]
        })?;
        let own = u8::try_from(process).expect("few processes");
        state.lines[free].word = (Use::Claiming, own);
        state.procs[process].least = u8::try_from(free).expect("few lines");
        Some(At::Begin)
    }

    /// From the mark it walks to the end; the oldest message kept begins where the write limit was one ring ago.
    fn begin_reading(&self, state: &mut State, process: usize, oldest: bool) {
        let proc = &mut state.procs[process];
        match oldest {
            true => {
                proc.position = state.write_limit.saturating_sub(RING);
                proc.message = UNKNOWN;
            }
            false => {
                (proc.position, proc.message) = state.mark;
                proc.walks = true;
            }
        }
    }

    fn poll(&self, state: &mut State, process: usize, policy: Policy) -> Option<At> {
        let proc = state.procs[process];
        if self.is_lapped(state, process, policy) {
            return Some(self.lapped(state, process, policy));
        }
        match state.cell(proc.position) {
            Cell::Zero if proc.walks => {
                state.procs[process].walks = false;
                Some(At::Poll)
            }
            Cell::Zero => {
                let end = state.released.len() == self.sizes.len();
                let all = proc.message == self.messages() || proc.message == UNKNOWN;
                (end && all).then_some(if policy == Policy::Lossy { At::Done } else { At::Leave })
            }
            Cell::Filler => {
                state.procs[process].position += RING - proc.position % RING;
                Some(if policy == Policy::Lossy { At::Poll } else { At::Publish })
            }
            Cell::Head(message) => {
                let expected = proc.message == UNKNOWN || proc.message == message;
                let there = state.released.get(usize::from(message)) == Some(&proc.position);
                if !expected || !there {
                    state.blame("a message came twice, too early, or not at its place");
                }
                state.procs[process].message = message;
                Some(At::Copy(0, true))
            }
            Cell::Body(_) => {
                state.blame("a part of a message was taken for a header");
                None
            }
        }
    }

    fn copy(&self, state: &State, process: usize, part: u8, right: bool) -> At {
        let proc = &state.procs[process];
        if part == self.sizes[usize::from(proc.message)] {
            return At::Take(right);
        }
        let same = state.cell(proc.position + 1 + part) == Cell::Body(proc.message);
        At::Copy(part + 1, right && same)
    }

    fn take(
        &self,
        state: &mut State,
        process: usize,
        policy: Policy,
        takes: u8,
        right: bool,
    ) -> At {
        if self.is_lapped(state, process, policy) {
            return self.lapped(state, process, policy);
        }
        if !right {
            state.blame("a message was not intact");
        }
        let proc = &mut state.procs[process];
        proc.position += 1 + self.sizes[usize::from(proc.message)];
        proc.message += 1;
        proc.allowance += u8::from(!proc.walks);
        match policy {
            Policy::Lossy if self.has_enough(state, process, takes) => At::Done,
            Policy::Lossy => At::Poll,
            _ => At::Publish,
        }
    }

    fn is_lapped(&self, state: &State, process: usize, policy: Policy) -> bool {
        let proc = &state.procs[process];
        match policy {
            Policy::Lossless => false,
            Policy::Lossy => {
                !self.breaks(Break::LossyTrusts) && state.write_limit > proc.position + RING
            }
            Policy::Patient => {
                let dropped = state.lines[usize::from(proc.least)].word.0 == Use::Dropped;
                !self.breaks(Break::PatientTrusts) && dropped
            }
        }
    }

    /// A lossy consumer goes on at the mark; a patient one was dropped.
    fn lapped(&self, state: &mut State, process: usize, policy: Policy) -> At {
        if policy == Policy::Patient {
            return At::Leave;
        }
        let proc = &mut state.procs[process];
        (proc.position, proc.message) = state.mark;
        At::Poll
    }
}
