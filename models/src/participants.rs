//! Participants as every model sees them: slots, generations, and the byte that the kernel drops.
//!
//! Invariant: only the process that holds a slot's byte changes that slot's generation or state. The
//! byte is the one thing that a kill changes by itself: the kernel gives up all that the process held.
//!
//! The byte stands for two things here: the life of a participant, and, of a dead one, the right to act as it, which one
//! process has at a time and loses when it dies. In the product the second is a word in the slot. How that comes to the
//! same is the lock model's part; it has the word itself.
//!
//! The models of this crate call it; each brings its own recovery.

/// The owner in a lock word, a state word or an extent: a slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Index into the participant table.
    pub slot: u8,
    /// Which of the slot's holders.
    pub generation: u8,
}

/// One entry of the participant table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The process that holds the byte, if any.
    pub byte: Option<u8>,
    /// Bumped when everything of the previous holder is recovered.
    pub generation: u8,
    /// Whether the slot's holder may have left something behind.
    pub used: bool,
}

/// The participant table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<const N: usize>(pub [Slot; N]);

impl<const N: usize> Slots<N> {
    /// `live` slots in use by the processes of the same number, the rest free.
    #[must_use]
    pub fn new(live: usize) -> Self {
        Slots(std::array::from_fn(|i| Slot {
            byte: (i < live).then(|| u8::try_from(i).expect("few slots")),
            generation: 1,
            used: i < live,
        }))
    }

    /// Takes the byte for `process` unless another one holds it.
    pub fn try_byte(&mut self, slot: u8, process: usize) -> bool {
        let byte = &mut self.0[slot as usize].byte;
        let free = byte.is_none();
        if free {
            *byte = Some(u8::try_from(process).expect("few processes"));
        }
        free
    }

    /// Gives the byte up, if `process` holds it.
    pub fn release_byte(&mut self, slot: u8, process: usize) {
        let byte = &mut self.0[slot as usize].byte;
        if byte.is_some_and(|holder| usize::from(holder) == process) {
            *byte = None;
        }
    }

    /// What the kernel does when `process` dies.
    pub fn release_bytes_of(&mut self, process: usize) {
        (0..N).for_each(|slot| self.release_byte(u8::try_from(slot).expect("few slots"), process));
    }

    /// Whether `who` lives: its generation is current and somebody holds its byte.
    #[must_use]
    pub fn alive(&self, who: Who) -> bool {
        let slot = &self.0[who.slot as usize];
        slot.generation == who.generation && slot.byte.is_some()
    }

    /// Whether `who` has not been recovered yet. Only the holder of the byte may rely on the answer.
    #[must_use]
    pub fn needs_recovery(&self, who: Who) -> bool {
        let slot = &self.0[who.slot as usize];
        slot.generation == who.generation && slot.used
    }

    /// Whether `who` has ended: no lock word, state word or extent may name it any more.
    #[must_use]
    pub fn ended(&self, who: Who) -> bool {
        self.0[who.slot as usize].generation != who.generation
    }

    /// Who held `slot` and died, if nobody has recovered it.
    #[must_use]
    pub fn dead(&self, slot: u8) -> Option<Who> {
        let entry = &self.0[slot as usize];
        (entry.used && entry.byte.is_none()).then(|| self.who(slot.into()))
    }

    /// Who holds `slot` now, or held it last.
    #[must_use]
    pub fn who(&self, slot: usize) -> Who {
        Who { slot: u8::try_from(slot).expect("few slots"), generation: self.0[slot].generation }
    }
}
