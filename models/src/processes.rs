//! Processes as the models with recovery have them: a script each, and a stack of what it is doing,
//! because a process recovers somebody in the middle of something else.
//!
//! Invariant: everything here is private to its process; a kill destroys it. The record, split, lock
//! and queue models call it.

use crate::participants::Who;
use arrayvec::ArrayVec;
use std::ops::{Index, IndexMut};

/// A process: `At` is a step of the model, `Own` what its processes have besides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process<At, Own, const DEPTH: usize> {
    /// Its participant.
    pub who: Who,
    /// Next entry of its script.
    pub op: u8,
    /// Killed, or done with everything.
    pub gone: bool,
    /// What it is doing, innermost last.
    pub stack: ArrayVec<At, DEPTH>,
    /// What only this model's processes have.
    pub own: Own,
}

impl<At, Own: Default, const DEPTH: usize> Process<At, Own, DEPTH> {
    /// Ends it, because it is done with everything.
    pub fn leave(&mut self) {
        self.gone = true;
        self.stack.clear();
    }

    /// Kills it. The dead remember nothing: states that differ only in that are the same.
    pub fn kill(&mut self) {
        self.leave();
        (self.op, self.own) = (0, Own::default());
    }
}

/// All processes of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Processes<At, Own, const N: usize, const DEPTH: usize>(pub [Process<At, Own, DEPTH>; N]);

impl<At: Copy, Own: Default, const N: usize, const DEPTH: usize> Processes<At, Own, N, DEPTH> {
    /// The first `count` begin with `first`; the others are gone until somebody starts them.
    pub fn new(count: usize, first: At, who: impl Fn(usize) -> Who) -> Self {
        Processes(std::array::from_fn(|p| Process {
            who: who(p),
            op: 0,
            gone: p >= count,
            stack: std::iter::once(first).collect(),
            own: Own::default(),
        }))
    }

    /// What `process` is doing.
    #[must_use]
    pub fn now(&self, process: usize) -> At {
        *self.0[process].stack.last().expect("a process does something")
    }

    /// Replaces what `process` is doing.
    pub fn go(&mut self, process: usize, at: impl Into<At>) -> bool {
        *self.0[process].stack.last_mut().expect("a process does something") = at.into();
        true
    }

    /// Does `at` first, then continues with what `process` is doing.
    pub fn call(&mut self, process: usize, at: impl Into<At>) -> bool {
        self.0[process].stack.push(at.into());
        true
    }

    /// Ends what `process` is doing and continues with what is below.
    pub fn done(&mut self, process: usize) -> bool {
        self.0[process].stack.pop();
        true
    }
}

impl<At, Own, const N: usize, const DEPTH: usize> Index<usize> for Processes<At, Own, N, DEPTH> {
    type Output = Process<At, Own, DEPTH>;

    fn index(&self, process: usize) -> &Self::Output {
        &self.0[process]
    }
}

impl<At, Own, const N: usize, const DEPTH: usize> IndexMut<usize> for Processes<At, Own, N, DEPTH> {
    fn index_mut(&mut self, process: usize) -> &mut Self::Output {
        &mut self.0[process]
    }
}
