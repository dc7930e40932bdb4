//! The messages about the maps of a hold: a name and whether the origin serves it, and the end of
//! the first list.
//!
//! Invariant: as in [`wire`](crate::protocol::wire), the decoded bytes are hostile.

use crate::protocol::wire::{Note, code, put, short};
use commonhold::raw::RawFrame;

/// A message of the catalogue of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The origin serves the map of this name, from now on or no longer.
    Map { name: String, is_served: bool },
    /// Every map that it serves was named.
    Listed,
    /// Nothing has changed: the origin is alive.
    Alive,
}

/// Appends the message about a map.
pub(crate) fn put_map(out: &mut Vec<u8>, name: &str, is_served: bool) {
    put(out, code::MAP, 0, name.as_bytes(), &u32::from(is_served).to_le_bytes());
}

/// Appends the end of the first list.
pub(crate) fn put_listed(out: &mut Vec<u8>) {
    put(out, code::LISTED, 0, &[], &[]);
}

impl Entry {
    /// `None` if the frame is no such message.
    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Entry> {
        match (frame.code, Note::read(frame)) {
            (code::MAP, _) => Some(Entry::Map {
                name: std::str::from_utf8(frame.key).ok()?.to_owned(),
                is_served: short(frame.value, 0).filter(|served| *served <= 1)? == 1,
            }),
            (code::LISTED, _) => Some(Entry::Listed),
            (_, Some(Note::Time { .. })) => Some(Entry::Alive),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::put_time;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        put_map(&mut bytes, "prices", true);
        put_map(&mut bytes, "prices", false);
        put_listed(&mut bytes);
        put_time(&mut bytes, 0, 0, 5);
        put(&mut bytes, code::MAP, 0, &[0xff], &[1, 0, 0, 0]);
        put(&mut bytes, code::MAP, 0, b"a", &[2, 0, 0, 0]);
        put(&mut bytes, code::PAIR, 0, b"a", b"1");
        let (mut rest, mut entries) = (&bytes[..], Vec::new());
        while let Some(len) = RawFrame::stated_length(rest) {
            entries.push(Entry::read(&RawFrame::decode(&rest[..len]).unwrap()));
            rest = &rest[len..];
            if rest.is_empty() {
                break;
            }
        }
        let map = |is_served| Some(Entry::Map { name: "prices".into(), is_served });
        let known = [map(true), map(false), Some(Entry::Listed), Some(Entry::Alive)];
        assert_eq!(entries, [&known[..], &[None, None, None]].concat());
    }
}
