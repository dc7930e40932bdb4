//! Keys of four bytes in an order without a pattern, the same in every run.

/// The key with this number. Different numbers have different keys.
pub fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b1).to_le_bytes()
}

/// Numbers below a bound, in an order without a pattern.
pub struct Numbers {
    state: u64,
    bound: u32,
}

impl Numbers {
    pub fn below(bound: u32) -> Numbers {
        Numbers { state: 7, bound }
    }

    #[inline(always)]
    pub fn next(&mut self) -> u32 {
        self.state =
            self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (((self.state >> 33) * u64::from(self.bound)) >> 31) as u32
    }
}
