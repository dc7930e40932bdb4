//! Self-verifying values: each is a function of its key and a number, with a checksum over both, so
//! that a torn value, another key's value and an older state can be distinguished.
//!
//! | kind | value |
//! |---|---|
//! | [`Kind::General`], [`Kind::Cache`] | number (8), writer (4), length (4), CRC-32 of key and all else (4), filling |
//! | [`Kind::Cells`] (16 + 16) | number (8), writer (4), CRC-32 (4) |
//! | [`Kind::Word`] (4 + 4) | number (3), lowest byte of the CRC-32 (1) |

/// The kind of map of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any keys and values.
    General,
    /// Fixed length, a pair is one machine word.
    Word,
    /// Fixed length, larger than a word.
    Cells,
    /// With limits and eviction.
    Cache,
}

/// The stamp of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Grows with each change of the key.
    pub number: u64,
    /// The lane that wrote it; 0 where the value has no room for it.
    pub writer: u32,
}

const HEADER: usize = 20;

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::General, Kind::Word, Kind::Cells, Kind::Cache];

    /// Replaces `out` by the value of `key` that `stamp` names.
    pub fn write(self, key: &[u8], stamp: Stamp, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&stamp.number.to_le_bytes());
        match self {
            Kind::Word => {
                out.truncate(3);
                let proof = proof(key, out, &[]);
                out.push(proof as u8);
            }
            Kind::Cells => {
                out.extend_from_slice(&stamp.writer.to_le_bytes());
                let proof = proof(key, out, &[]);
                out.extend_from_slice(&proof.to_le_bytes());
            }
            Kind::General | Kind::Cache => self.write_long(key, stamp, out),
        }
    }

    fn write_long(self, key: &[u8], stamp: Stamp, out: &mut Vec<u8>) {
        let length = HEADER + self.filling(key, stamp.number);
        out.extend_from_slice(&stamp.writer.to_le_bytes());
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.resize(HEADER, 0);
        // Every number fills with other bytes: a mix of two values is no value.
        let pattern = stamp.number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        out.extend(pattern.iter().cycle().take(length - HEADER));
        let proof = proof(key, &out[..16], &out[HEADER..]);
        out[16..HEADER].copy_from_slice(&proof.to_le_bytes());
    }

    /// How long the filling of a value is: mostly short, at times a page, rarely a large run.
    fn filling(self, key: &[u8], number: u64) -> usize {
        let draw = crc32fast::hash(&number.to_le_bytes()) ^ crc32fast::hash(key);
        let size = (draw >> 12) as usize;
        match draw % 1024 {
            0 if self == Kind::General => 65_536 + size % 200_000,
            0..8 => size % 9_000,
            _ => size % 180,
        }
    }

    /// The stamp of `value` as a value of `key`, or the error in it.
    pub fn read(self, key: &[u8], value: &[u8]) -> Result<Stamp, String> {
        let stamp =
            self.parse(value).ok_or_else(|| format!("{} bytes are not a value", value.len()))?;
        let mut wanted = Vec::with_capacity(value.len());
        self.write(key, stamp, &mut wanted);
        if wanted == value {
            return Ok(stamp);
        }
        let differs = wanted.iter().zip(value).position(|(a, b)| a != b);
        Err(format!(
            "the value has the stamp {stamp:?}, but is incomplete or belongs to another key ({} \
             bytes, {} expected, first difference at {differs:?})",
            value.len(),
            wanted.len()
        ))
    }

    fn parse(self, value: &[u8]) -> Option<Stamp> {
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        Some(match self {
            Kind::Word => Stamp { number: number(value.get(..3)?), writer: 0 },
            _ => {
                Stamp { number: number(value.get(..8)?), writer: number(value.get(8..12)?) as u32 }
            }
        })
    }
}

fn proof(key: &[u8], head: &[u8], tail: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(head);
    hasher.update(tail);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_what_it_wrote_and_nothing_else() {
        for kind in Kind::ALL {
            let (mut value, mut other) = (Vec::new(), Vec::new());
            for number in (0..3000).chain([0xff_fffe]) {
                let writer = if kind == Kind::Word { 0 } else { 7 };
                let stamp = Stamp { number, writer };
                kind.write(b"key one", stamp, &mut value);
                assert_eq!(kind.read(b"key one", &value), Ok(stamp));
                kind.write(b"key one", Stamp { number: number + 1, writer }, &mut other);
                assert_ne!(value, other);
                if kind != Kind::Word {
                    // A word's proof is one byte: it may match once in 256 times.
                    assert!(kind.read(b"key two", &value).is_err());
                }
            }
        }
    }

    #[test]
    fn a_mix_of_two_values_is_found_out() {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for number in 1..500 {
            Kind::General.write(b"k", Stamp { number, writer: 1 }, &mut old);
            Kind::General.write(b"k", Stamp { number: number + 1, writer: 1 }, &mut new);
            let middle = old.len().min(new.len()) / 16 * 8;
            new[..middle].copy_from_slice(&old[..middle]);
            assert!(Kind::General.read(b"k", &new).is_err());
        }
    }
}
