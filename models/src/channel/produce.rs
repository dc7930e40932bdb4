//! The producer's steps, and its successor's.

use super::state::{At, Cell, LINES, RING, State, Use};
use super::{Break, Channel, Role};

/// What is written next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Filler,
    Message,
    Cancelled,
}

impl Channel {
    /// The frame at the producer's position, and its cells.
    fn frame(&self, state: &State, process: usize) -> (Frame, u8) {
        let proc = &state.procs[process];
        let cancels = !state.cancelled && self.cancel == Some(proc.message);
        let cells = 1 + if cancels { 1 } else { self.sizes[usize::from(proc.message)] };
        let rest = RING - proc.position % RING;
        match cells > rest {
            true => (Frame::Filler, rest),
            false if cancels => (Frame::Cancelled, cells),
            false => (Frame::Message, cells),
        }
    }

    pub(super) fn may_take_over(&self, state: &State, process: usize) -> bool {
        let before = self.roles[..process].iter().zip(&state.dead);
        before.filter(|(role, _)| !matches!(role, Role::Consumer { .. })).all(|(_, dead)| *dead)
    }

    pub(super) fn step_producer(&self, state: &mut State, process: usize) -> Option<At> {
        let proc = state.procs[process];
        match proc.at {
            At::TakeOver if self.may_take_over(state, process) => {
                (state.procs[process].position, state.procs[process].message) = state.mark;
                if self.breaks(Break::SuccessorTrusts) {
                    state.procs[process].allowance = state.write_limit;
                }
                Some(if self.breaks(Break::NoWalk) { At::Next } else { At::Walk })
            }
            At::TakeOver => None,
            At::Walk => Some(self.walk(state, process)),
            At::WalkEnd => {
                state.mark = (proc.position, proc.message);
                Some(At::Next)
            }
            At::Next if proc.message == self.messages() => Some(At::Done),
            At::Next => Some(self.begin(state, process)),
            At::Mark => {
                if !self.breaks(Break::NoMark) {
                    state.mark = (proc.position, proc.message);
                }
                state.procs[process].least = proc.position;
                Some(At::Word(0, false))
            }
            At::Word(line, second) => Some(self.look_at_word(state, line, second)),
            At::Cursor(line, second) => {
                let cursor = state.lines[usize::from(line)].cursor;
                state.procs[process].least = proc.least.min(cursor);
                Some(self.next_line(state, line, second))
            }
            At::WriteLimit => {
                // Never lowered.
                state.write_limit = state.write_limit.max(proc.least + RING);
                if self.breaks(Break::NoSecondScan) {
                    return Some(At::Verdict);
                }
                state.procs[process].least = proc.position;
                Some(At::Word(0, true))
            }
            At::Verdict => {
                let allowance = proc.least + RING;
                let late = self.breaks(Break::WriteLimitAfterBytes);
                state.procs[process].allowance =
                    if late { allowance } else { allowance.min(state.write_limit) };
                let enough = self.needed(state, process) <= state.procs[process].allowance;
                Some(if enough { At::Body(0) } else { At::Wait })
            }
            At::Wait => self.wait(state, process),
            _ => Some(self.write(state, process)),
        }
    }

    /// The end of the next frame, and the header behind it.
    fn needed(&self, state: &State, process: usize) -> u8 {
        let (_, cells) = self.frame(state, process);
        let header = if self.breaks(Break::RoomWithoutHeader) { 0 } else { 1 };
        state.procs[process].position + cells + header
    }

    fn begin(&self, state: &State, process: usize) -> At {
        if self.needed(state, process) <= state.procs[process].allowance {
            return At::Body(0);
        }
        At::Mark
    }

    /// One header of the walk.
    fn walk(&self, state: &mut State, process: usize) -> At {
        let proc = state.procs[process];
        let cells = match state.cell(proc.position) {
            Cell::Zero => return At::WalkEnd,
            Cell::Filler => RING - proc.position % RING,
            Cell::Head(message) if message == proc.message => {
                state.procs[process].message += 1;
                1 + self.sizes[usize::from(message)]
            }
            _ => {
                state.blame("a successor took something else for a header");
                return At::Done;
            }
        };
        state.procs[process].position += cells;
        At::Walk
    }

    fn look_at_word(&self, state: &mut State, line: u8, second: bool) -> At {
        let (kind, owner) = state.lines[usize::from(line)].word;
        let dead = state.dead[usize::from(owner)] && !self.breaks(Break::DeadCount);
        if kind != Use::Counts || dead {
            return self.next_line(state, line, second);
        }
        At::Cursor(line, second)
    }

    fn next_line(&self, state: &mut State, line: u8, second: bool) -> At {
        if usize::from(line) + 1 < LINES {
            return At::Word(line + 1, second);
        }
        match second {
            true => At::Verdict,
            false if self.breaks(Break::WriteLimitAfterBytes) => At::Verdict,
            false if self.breaks(Break::ProducerClears) => {
                // As if the word had been found dead a while ago.
                if state.dead.iter().any(|dead| *dead) {
                    state.lines[0].word = (Use::Free, 0);
                }
                At::WriteLimit
            }
            false => At::WriteLimit,
        }
    }

    /// Room may have come; a patient consumer that is in the way is dropped.
    fn wait(&self, state: &mut State, process: usize) -> Option<At> {
        let needed = self.needed(state, process);
        let mut blocked = false;
        for line in &mut state.lines {
            let (kind, owner) = line.word;
            let dead = state.dead[usize::from(owner)] && !self.breaks(Break::DeadCount);
            if kind == Use::Counts && !dead && line.cursor + RING < needed {
                let patient =
                    Role::Consumer { policy: super::Policy::Patient, oldest: true, takes: 9 };
                if self.roles[usize::from(owner)] == patient {
                    line.word.0 = Use::Dropped;
                    return Some(At::Mark);
                }
                blocked = true;
            }
        }
        (!blocked).then_some(At::Mark)
    }

    fn write(&self, state: &mut State, process: usize) -> At {
        let proc = state.procs[process];
        let (frame, cells) = self.frame(state, process);
        let end = proc.position + cells;
        match proc.at {
            At::Body(part) if frame != Frame::Filler && part + 1 < cells => {
                state.set(proc.position + 1 + part, Cell::Body(proc.message));
                At::Body(part + 1)
            }
            At::Body(_) if frame == Frame::Cancelled => {
                state.cancelled = true;
                if self.breaks(Break::CancelLowers) { At::TakeBack } else { At::Next }
            }
            At::TakeBack => {
                state.write_limit = proc.position;
                state.procs[process].allowance = proc.position;
                At::Next
            }
            At::Body(_) => match self.broken {
                Some(Break::NoZeroing | Break::ZeroAfterRelease) => At::Head,
                _ => At::Zero,
            },
            At::Zero => {
                state.set(end, Cell::Zero);
                At::Head
            }
            At::Head => {
                let cell =
                    if frame == Frame::Filler { Cell::Filler } else { Cell::Head(proc.message) };
                state.set(proc.position, cell);
                if frame == Frame::Message {
                    state.released.push(proc.position);
                }
                match self.broken {
                    Some(Break::ZeroAfterRelease) => At::LateZero,
                    Some(Break::WriteLimitAfterBytes) => At::LateWriteLimit,
                    _ => self.advance(state, process),
                }
            }
            At::LateZero => {
                state.set(end, Cell::Zero);
                self.advance(state, process)
            }
            _ => {
                state.write_limit = state.write_limit.max(proc.allowance);
                self.advance(state, process)
            }
        }
    }

    fn advance(&self, state: &mut State, process: usize) -> At {
        let (frame, cells) = self.frame(state, process);
        let proc = &mut state.procs[process];
        proc.position += cells;
        proc.message += u8::from(frame == Frame::Message);
        At::Next
    }
}
