//! An origin's introduction: which map it serves, from where it has the map, and whether it serves
//! this replica.
//!
//! Invariant: as in [`wire`](crate::protocol::wire), the decoded bytes are hostile. Bytes behind
//! the known fields belong to later versions and are ignored.

use crate::protocol::wire::{self, NEWEST, capability, code, long, short};
use commonhold::raw::{Proof, RawFrame};

/// The most relays in a row.
pub(crate) const MOST_RELAYS: usize = 16;
/// The highest epoch that is accepted: it can always grow.
const MOST_EPOCHS: u64 = 1 << 62;
/// The most bytes of a text for people.
const MOST_TEXT: usize = 256;
/// The most bytes of a name.
const MOST_NAME: usize = 200;
/// Bytes before the path.
const FIXED: usize = 64;

/// Where a map comes from: the same for an origin and all replicas of its map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// Drawn at random when the map was first served; zeros if a relay does not know it yet.
    pub(crate) id: [u8; 16],
    /// Counts the promotions of replicas of this map.
    pub(crate) epoch: u64,
    /// The numbers of the sender and of those before it, the first origin first.
    pub(crate) path: Vec<u64>,
    /// The file name of the first origin's hold.
    pub(crate) hold: String,
    /// The map's name at the first origin.
    pub(crate) map: String,
}

impl Lineage {
    /// Whether it is known at all.
    pub(crate) fn is_known(&self) -> bool {
        self.id != [0; 16]
    }

    /// In a journal: whether the map was a replica's.
    pub(crate) fn is_of_replica(&self) -> bool {
        !self.path.is_empty()
    }

    /// The map's origin, for people.
    pub(crate) fn shown(&self) -> String {
        let id = u64::from_be_bytes(self.id[..8].try_into().unwrap_or_default());
        format!("map '{}' of hold '{}' (lineage {id:016x})", self.map, self.hold)
    }
}

/// Why an origin does not serve a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Refusal {
    /// It has not received the map itself.
    Unready = 1,
    /// The replica has seen an origin of a later epoch.
    Old = 2,
    /// It is a relay, and the replica is ahead of it.
    Behind = 3,
    /// It does not serve the map that the replica wants.
    NotServed = 4,
    /// A reason of a later version; the text gives it.
    Other = 0xffff,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The newest version that it can use.
    pub(crate) newest: u32,
    /// The capabilities that both sides may use if both have them.
    pub(crate) capabilities: u64,
    /// Why it does not serve the replica, and the same for people.
    pub(crate) refusal: Option<(Refusal, String)>,
    /// The change before the position where the changes begin.
    pub(crate) proof: Option<Proof>,
    /// The time of the first origin's clock, as far as the sender knows, in milliseconds since
    /// 1970; 0 if it does not send it.
    pub(crate) clock_ms: u64,
    pub(crate) lineage: Lineage,
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

impl Introduction {
    /// That of an origin of this program.
    pub(crate) fn new(lineage: Lineage) -> Introduction {
        let (newest, capabilities, clock_ms) = (NEWEST, capability::ALWAYS, 0);
        Introduction { newest, capabilities, refusal: None, proof: None, clock_ms, lineage }
    }

    /// The message's value.
    pub(crate) fn value(&self) -> Vec<u8> {
        let Lineage { id, epoch, path, hold, map } = &self.lineage;
        let (refusal, text) = match &self.refusal {
            Some((refusal, text)) => (*refusal as u32, cut(text, MOST_TEXT)),
            None => (0, ""),
        };
        let (hold, map) = (cut(hold, MOST_NAME), cut(map, MOST_NAME));
        let path = &path[..path.len().min(MOST_RELAYS)];
        let mut value = self.newest.to_le_bytes().to_vec();
        value.extend(refusal.to_le_bytes());
        value.extend(self.capabilities.to_le_bytes());
        value.extend(proof_bytes(self.proof));
        value.extend(self.clock_ms.to_le_bytes());
        value.extend(id);
        value.extend(epoch.to_le_bytes());
        for len in [path.len(), hold.len(), map.len(), text.len()] {
            value.extend((len as u16).to_le_bytes());
        }
        value.extend(path.iter().flat_map(|node| node.to_le_bytes()));
        for part in [hold, map, text] {
            value.extend(part.as_bytes());
        }
        value
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        wire::put(out, code::ORIGIN, 0, &[], &self.value());
    }

    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Introduction> {
        Introduction::of_value(frame.value).filter(|_| frame.code == code::ORIGIN)
    }

    /// The introduction with this value.
    pub(crate) fn of_value(value: &[u8]) -> Option<Introduction> {
        let count =
            |at: usize| Some(usize::from(u16::from_le_bytes(*value.get(at..)?.first_chunk()?)));
        let (path, hold, map, text) = (count(56)?, count(58)?, count(60)?, count(62)?);
        let mut at = FIXED;
        let mut part = |len: usize| {
            at += len;
            value.get(at - len..at)
        };
        let node = |bytes: &[u8]| long(bytes, 0);
        let path = part(path.checked_mul(8)?)?.chunks(8).map(node).collect::<Option<Vec<_>>>()?;
        let mut name = |len| String::from_utf8(part(len)?.to_vec()).ok();
        let (hold, map, text) = (name(hold)?, name(map)?, name(text)?);
        let refusal = match short(value, 4)? {
            0 => None,
            1 => Some(Refusal::Unready),
            2 => Some(Refusal::Old),
            3 => Some(Refusal::Behind),
            4 => Some(Refusal::NotServed),
            _ => Some(Refusal::Other),
        };
        let lineage = Lineage {
            id: *value.get(32..)?.first_chunk()?,
            epoch: long(value, 48).filter(|epoch| *epoch <= MOST_EPOCHS)?,
            path,
            hold,
            map,
        };
        Some(Introduction {
            newest: short(value, 0)?,
            capabilities: long(value, 8)?,
            refusal: refusal.map(|refusal| (refusal, text)),
            proof: read_proof(value, 16)?,
            clock_ms: long(value, 24)?,
            lineage,
        })
    }
}

/// The bytes of the change before a position: zeros if it is not known.
pub(crate) fn proof_bytes(proof: Option<Proof>) -> [u8; 8] {
    let mut bytes = [0; 8];
    if let Some(proof) = proof {
        bytes[..4].copy_from_slice(&proof.bytes.to_le_bytes());
        bytes[4..].copy_from_slice(&proof.sum.to_le_bytes());
    }
    bytes
}

/// The same, read; `None` if the bytes are too short.
pub(crate) fn read_proof(value: &[u8], at: usize) -> Option<Option<Proof>> {
    let (bytes, sum) = (short(value, at)?, short(value, at + 4)?);
    Some((bytes != 0).then_some(Proof { bytes, sum }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::HANDSHAKE_FRAME;

    #[test]
    fn introductions_are_read_as_they_were_written_and_may_grow() {
        let lineage = Lineage {
            id: [7; 16],
            epoch: 3,
            path: (0..MOST_RELAYS as u64).collect(),
            hold: "h".repeat(MOST_NAME),
            map: "m".repeat(MOST_NAME),
        };
        let mut introduction = Introduction::new(lineage);
        for refusal in [None, Some((Refusal::Old, "t".repeat(MOST_TEXT)))] {
            introduction.refusal = refusal;
            introduction.proof = Some(Proof { bytes: 48, sum: 9 });
            introduction.clock_ms = 1 << 50;
            let mut bytes = Vec::new();
            introduction.put(&mut bytes);
            assert!(bytes.len() <= HANDSHAKE_FRAME, "{}", bytes.len());
            let frame = RawFrame::decode(&bytes).unwrap();
            assert_eq!(Introduction::read(&frame).as_ref(), Some(&introduction));
            let mut value = introduction.value();
            for len in 0..value.len() {
                assert_eq!(Introduction::of_value(&value[..len]), None, "{len}");
            }
            value.extend([9; 40]);
            assert_eq!(Introduction::of_value(&value).as_ref(), Some(&introduction));
        }
    }
}
