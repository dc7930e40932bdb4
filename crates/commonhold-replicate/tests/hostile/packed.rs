//! Origins that lie in compressed blocks of pairs.

use super::deceived::{Deceived, key};
use super::words::{COMPLETE, ORIGIN, PACKED, PAIR, SET, TIME, WELCOME, frame};
use crate::party::LONG;
use commonhold::map::MapOptions;
use commonhold::stream::StreamPosition;
use std::collections::BTreeMap;

/// The capability of compressed blocks.
const CAPABILITY: u64 = 2;
const AT: u64 = 4096;
const BLOCK: usize = 256 << 10;

/// LZ4's own form for bytes that it did not compress: a token with their number, and the bytes.
fn literals(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    match bytes.len() {
        len @ 0..15 => block.push((len as u8) << 4),
        len => {
            block.push(0xf0);
            block.extend(std::iter::repeat_n(255, (len - 15) / 255));
            block.push(((len - 15) % 255) as u8);
        }
    }
    block.extend(bytes);
    block
}

/// Bytes that LZ4 makes of these, followed by this many zeros.
fn then_zeros(bytes: &[u8], zeros: usize) -> Vec<u8> {
    // One literal zero, then a match at distance 1, then the last five bytes as literals.
    let mut block = literals(&[bytes, &[0]].concat());
    let long = zeros - 1 - 5 - 4;
    assert!(long >= 15);
    block[0] |= 0x0f;
    block.extend([1, 0]);
    block.extend(std::iter::repeat_n(255, (long - 15) / 255));
    block.push(((long - 15) % 255) as u8);
    block.extend(literals(&[0; 5]));
    block
}

/// A block that states this length.
fn packed(length: usize, compressed: &[u8]) -> Vec<u8> {
    let value = [&(length as u32).to_le_bytes()[..], compressed].concat();
    frame(PACKED, AT, &[], &value)
}

/// A pair whose value ends with this many zeros; with its length.
fn pair_with_zeros(code: u32, at: u64, zeros: usize) -> (usize, Vec<u8>) {
    let pair = frame(code, at, &key(1), &vec![0; zeros]);
    let head = &pair[..44];
    (pair.len(), then_zeros(head, pair.len() - 44))
}

/// A block of one frame.
fn block_of(code: u32, at: u64) -> Vec<u8> {
    let (length, compressed) = pair_with_zeros(code, at, 1004);
    packed(length, &compressed)
}

#[test]
fn blocks_that_are_none_are_not_believed() {
    let mut replica = Deceived::new(MapOptions::general());
    let (length, compressed) = pair_with_zeros(PAIR, AT, 1004);
    let mut flipped = compressed.clone();
    flipped[44] ^= 1;
    let far = [&literals(&[7; 20])[..], &[0x0f, 0xff, 0xff, 0xff, 10, 0]].concat();
    let nested = packed(length, &compressed);
    let nested_in = then_zeros(&nested, 1000);
    for (words, why) in [
        (frame(PACKED, AT, &[], &[]), "sent a compressed block of 0 bytes"),
        (frame(PACKED, AT, &[], &[1; 3]), "sent a compressed block of 3 bytes"),
        (packed(0, &[]), "0 bytes of pairs; expected 40 to 262144"),
        (packed(39, &[0]), "39 bytes of pairs; expected 40 to 262144"),
        (packed(BLOCK + 1, &compressed), "262145 bytes of pairs; expected 40 to 262144"),
        (packed(u32::MAX as usize, &compressed), "4294967295 bytes of pairs; expected 40"),
        (packed(48, &[0; 48]), "48 bytes for 48 bytes of pairs; expected fewer"),
        (packed(length + 8, &compressed), "bytes of pairs, but announced 1056"),
        (packed(length - 8, &compressed), "block that is damaged"),
        (packed(length, &[]), "damaged"),
        (packed(length, &[0xff; 20]), "damaged"),
        (packed(4000, &far), "damaged"),
        (packed(length, &flipped), "block with an invalid frame"),
        (packed(1044, &then_zeros(&[7; 44], 1000)), "block with an invalid frame"),
        (packed(nested.len() + 1000, &nested_in), "unexpected frame (code 0x113)"),
        (block_of(PACKED, AT), "unexpected frame (code 0x113)"),
        (block_of(SET, AT), "block with an unexpected frame (code 0x1)"),
        (block_of(COMPLETE, AT), "block with an unexpected frame (code 0x111)"),
        (block_of(TIME, AT), "block with an unexpected frame (code 0x112)"),
        (block_of(ORIGIN, AT), "block with an unexpected frame (code 0x104)"),
        (block_of(WELCOME, AT), "block with an unexpected frame (code 0x103)"),
        (block_of(PAIR, AT + 8), "block with offset 4104 after 4096"),
        (block_of(PAIR, 0), "block with offset 0 after 4096"),
    ] {
        let words = [replica.welcome().words_with(CAPABILITY), words].concat();
        replica.is_not_believed(&words, why);
    }
    replica.finds_back();
}

#[test]
fn blocks_come_only_when_it_is_their_turn() {
    let mut replica = Deceived::new(MapOptions::general());
    let block = block_of(PAIR, AT);
    let unexpected = "sent an unexpected frame (code 0x113)";
    // Not agreed on.
    for capabilities in [0, 1, !CAPABILITY] {
        let words = [replica.welcome().words_with(capabilities), block.clone()].concat();
        replica.is_not_believed(&words, unexpected);
    }
    let complete = frame(COMPLETE, AT, &[], &(AT + 1000).to_le_bytes());
    let words = [replica.welcome().words_with(CAPABILITY), complete, block.clone()].concat();
    replica.is_not_believed(&words, unexpected);
    let other = frame(PACKED, AT + 8, &[], &[0; 100]);
    let words = [replica.welcome().words_with(CAPABILITY), other].concat();
    replica.is_not_believed(&words, "sent offset 4104 after 4096");
    // Nor if no full sync is in progress.
    let mut welcome = replica.nowhere_else().words_with(CAPABILITY);
    let (length, compressed) = pair_with_zeros(PAIR, replica.position.offset, 1004);
    let value = [&(length as u32).to_le_bytes()[..], &compressed].concat();
    welcome.extend(frame(PACKED, replica.position.offset, &[], &value));
    replica.is_not_believed(&welcome, unexpected);
    replica.finds_back();
}

/// The blocks of these tests are what they claim to be: right ones are taken.
#[test]
fn right_blocks_are_believed() {
    let mut replica = Deceived::new(MapOptions::general());
    let (length, compressed) = pair_with_zeros(PAIR, AT, BLOCK - 44);
    assert_eq!(length, BLOCK);
    let block = packed(length, &compressed);
    let complete = frame(COMPLETE, AT, &[], &0u64.to_le_bytes());
    let words = [replica.welcome().words_with(CAPABILITY), block_of(PAIR, AT), block, complete];
    replica.say(&words.concat());
    let there = StreamPosition { stream: 77, offset: AT };
    assert!(replica.replica.wait_for(there, LONG), "{:?}", replica.replica.status());
    assert_eq!(replica.has(), BTreeMap::from([(key(1).to_vec(), vec![0; BLOCK - 44])]));
    replica.finds_back();
}
