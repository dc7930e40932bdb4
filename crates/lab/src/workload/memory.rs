//! The speed of the machine's memory at the moment of a run: the ceiling of every result.
//!
//! A virtual machine's memory can be ten times slower than another's, and than itself an hour ago:
//! the host may back it only at the first touch, and each page that misses the TLB may cost two
//! walks of page tables.

use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

const BYTES: usize = 256 << 20;
const PAGE: usize = 4096;
const LOADS: u32 = 400_000;

/// Two measures of private memory in pages of 4 KiB, 256 MiB of it.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Memory {
    /// One load that depends on the load before, at a random place, in nanoseconds.
    pub random_load_ns: f64,
    /// Bytes that a first touch of every page makes usable in a second.
    pub first_touch_bytes_per_s: f64,
}

/// Takes both measures; half a second, on a slow machine a few.
pub fn measure() -> Memory {
    let begin = Instant::now();
    let mut words = vec![0u64; BYTES / 8];
    for page in words.chunks_exact_mut(PAGE / 8) {
        page[0] = 1;
    }
    let touch = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let mut at = 0u64;
    for _ in 0..LOADS {
        // Knuth's MMIX generator; the load makes the next place depend on memory.
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at ^= black_box(words[(at >> 33) as usize % words.len()]);
    }
    black_box(at);
    Memory {
        random_load_ns: begin.elapsed().as_secs_f64() * 1e9 / f64::from(LOADS),
        first_touch_bytes_per_s: BYTES as f64 / touch,
    }
}

impl Memory {
    /// One line for people.
    pub fn line(self) -> String {
        format!(
            "memory at this moment: {:.0} ns per dependent random load, {:.2} GB/s at first touch",
            self.random_load_ns,
            self.first_touch_bytes_per_s / 1e9
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_measures_are_positive() {
        let memory = super::measure();
        assert!(memory.random_load_ns > 0.0 && memory.first_touch_bytes_per_s > 0.0);
    }
}
