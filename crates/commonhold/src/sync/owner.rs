//! [`Owner`]: a participant's slot and generation in 31 bits, the name written into locks and state
//! words.
//!
//! Invariant: an owner is never zero (generations start at 1), so a zero word means "nobody".

/// Bits of an owner that name the slot.
pub(crate) const SLOT_BITS: u32 = 10;
/// The most slots that an owner can name.
pub(crate) const MAX_SLOTS: u32 = 1 << SLOT_BITS;
const GENERATION_BITS: u32 = 21;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// (generation << 10) | slot; 31 bits, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn new(slot: u32, generation: u32) -> Owner {
        debug_assert!(slot < MAX_SLOTS && generation != 0);
        Owner((generation & GENERATION_MASK) << SLOT_BITS | slot)
    }

    /// Reads an owner from the low 31 bits of a word; `None` for nobody.
    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Option<Owner> {
        let bits = bits & 0x7fff_ffff;
        (bits != 0).then_some(Owner(bits))
    }

    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 & (MAX_SLOTS - 1)
    }

    pub(crate) fn generation(self) -> u32 {
        self.0 >> SLOT_BITS
    }

    /// The generation after `generation`; wraps from the largest to 1.
    pub(crate) fn next_generation(generation: u32) -> u32 {
        if generation >= GENERATION_MASK { 1 } else { generation + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_keep_slot_and_generation() {
        let owner = Owner::new(1019, GENERATION_MASK);
        assert_eq!((owner.slot(), owner.generation()), (1019, GENERATION_MASK));
        assert_eq!(Owner::from_bits(owner.bits() | 1 << 31), Some(owner));
        assert_eq!(Owner::from_bits(1 << 31), None);
        assert_eq!(Owner::next_generation(GENERATION_MASK), 1);
    }
}
