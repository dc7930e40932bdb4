//! Both implementations of copies, at every alignment and length.

use super::*;

/// The file of a test: whole aligned words, as a mapping has.
struct Shared(Vec<u64>);

impl Shared {
    fn new(bytes: usize) -> Shared {
        Shared(vec![u64::from_ne_bytes([0xEE; 8]); bytes / 8 + 4])
    }

    fn at(&mut self, offset: usize) -> *mut u8 {
        self.0.as_mut_ptr().cast::<u8>().wrapping_add(offset)
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

#[repr(align(64))]
struct Line([u64; 8]);

macro_rules! suite {
    ($name:ident, $raw:ident) => {
        mod $name {
            use super::super::$raw;
            use super::{Line, Shared};

            #[test]
            fn a_replacement_changes_its_own_bytes_alone() {
                for len in [1usize, 2, 4, 8] {
                    for at in (0..16).step_by(len) {
                        let mut shared = Shared::new(16);
                        // SAFETY: the bytes lie in one word of the file.
                        unsafe { $raw::replace(shared.at(at), 0x8877_6655_4433_2211, len as u32) };
                        let bytes = shared.bytes();
                        let new = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
                        assert_eq!(bytes[at..at + len], new[..len]);
                        assert!(bytes[..at].iter().chain(&bytes[at + len..]).all(|b| *b == 0xEE));
                    }
                }
            }

            #[test]
            fn upper_bits_are_found_wherever_they_are() {
                let tag = 0x00ab_cdef_u64;
                for bits in 0..1u32 << 16 {
                    let word = |at: u32| match (bits >> at & 1, at % 3) {
                        (1, _) => (tag << 40) + 0x1234_5678 + u64::from(at),
                        (_, 0) => 0,
                        (_, 1) => (tag ^ 1) << 40 | 7,
                        _ => tag,
                    };
                    let first = Line(std::array::from_fn(|at| word(at as u32)));
                    let second = Line(std::array::from_fn(|at| word(at as u32 + 8)));
                    let lines = [&first, &second].map(|line| line.0.as_ptr().cast());
                    // SAFETY: eight words each.
                    let found = unsafe { $raw::upper_24_are(lines, tag as u32) };
                    assert_eq!(found, bits);
                    let is = |at: u32, mask: u64| {
                        let wanted = if at < 8 { 0 } else { tag };
                        u32::from((word(at) ^ wanted) & mask == 0) << at
                    };
                    for mask in [u64::MAX, 0xffff_ffff, 0xff] {
                        // SAFETY: as above.
                        let found = unsafe { $raw::words_are(lines, [0, tag], mask) };
                        assert_eq!(found, (0..16).map(|at| is(at, mask)).sum::<u32>());
                        let (wanted, mask) = ([0, tag as u32], mask as u32);
                        // SAFETY: as above.
                        let found = unsafe { $raw::lower_halves_are(lines, wanted, mask) };
                        let is = |at| is(at, mask.into());
                        assert_eq!(found, (0..16).map(is).sum::<u32>());
                    }
                }
            }

            #[test]
            fn copies_compares_and_zeroes_every_length_at_every_alignment() {
                let longest = if cfg!(miri) { 40 } else { 900 };
                let source: Vec<u8> = (0..longest).map(|i| (i * 7 + 1) as u8).collect();
                for len in 0..=longest as usize {
                    for start in 0..9 {
                        check(&source[..len], start);
                    }
                }
            }

            fn check(source: &[u8], start: usize) {
                let len = source.len();
                let mut shared = Shared::new(start + len);
                let mut back = vec![9; len];
                // SAFETY: the buffers are long enough.
                unsafe {
                    $raw::write(shared.at(start), source.as_ptr(), len);
                    assert!($raw::equal(shared.at(start), source.as_ptr(), len));
                    $raw::read(shared.at(start), back.as_mut_ptr(), len);
                }
                assert_eq!(back, source);
                let bytes = shared.bytes();
                assert_eq!(&bytes[start..start + len], source);
                let around = bytes[..start].iter().chain(&bytes[start + len..]);
                assert!(around.copied().all(|byte| byte == 0xEE));
                for wrong in [0, len / 2, len.saturating_sub(1)] {
                    if len > 0 {
                        back[wrong] ^= 1;
                        // SAFETY: as above.
                        assert!(!unsafe { $raw::equal(shared.at(start), back.as_ptr(), len) });
                        back[wrong] ^= 1;
                    }
                }
                // SAFETY: as above.
                unsafe { $raw::zero(shared.at(start), len) };
                let bytes = shared.bytes();
                assert!(bytes[start..start + len].iter().all(|byte| *byte == 0));
                let around = bytes[..start].iter().chain(&bytes[start + len..]);
                assert!(around.copied().all(|byte| byte == 0xEE));
            }
        }
    };
}

suite!(by_words, words);
#[cfg(not(miri))]
suite!(by_the_machine, raw);

#[test]
fn bytes_read_are_appended() {
    let mut shared = Shared::new(16);
    let mut out = vec![9];
    // SAFETY: the buffer is long enough.
    unsafe {
        write(shared.at(3), b"hello");
        append(shared.at(3), 5, &mut out);
    }
    assert_eq!(out, b"\x09hello");
}

/// Two writers of neighbouring bytes of one word do not lose each other's stores.
#[test]
fn a_store_of_a_part_keeps_the_rest_of_the_word() {
    let mut shared = Shared::new(8);
    let halves = [shared.at(0).addr(), shared.at(3).addr()];
    let start = shared.at(0);
    let rounds = if cfg!(miri) { 20 } else { 100_000 };
    struct Start(*mut u8);
    // SAFETY: the threads below access the word by atomics only.
    unsafe impl Sync for Start {}
    let start = Start(start);
    std::thread::scope(|scope| {
        for half in halves.map(|address| address - halves[0]) {
            let start = &start;
            scope.spawn(move || {
                for round in 0..rounds {
                    let bytes = [round as u8; 3];
                    let at = start.0.wrapping_add(half);
                    // SAFETY: within the word.
                    unsafe {
                        words::write(at, bytes.as_ptr(), 3);
                        assert!(words::equal(at, bytes.as_ptr(), 3));
                    }
                }
            });
        }
    });
}
