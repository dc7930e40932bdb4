//! The wish of a replica: a map of the origin's hold, or the names of all maps.
//!
//! Invariant: as in [`wire`](crate::protocol::wire), the decoded bytes are hostile.

/// The most bytes of a map's name.
const MOST_NAME: usize = 200;

/// A request of a replica to an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The origin's map, whatever its name; of an origin of a whole hold, the map of this name.
    AnyOrMap(String),
    /// The map of this name, and no other.
    Map(String),
    /// The names of all maps, as they come and go.
    Catalogue,
}

impl Wish {
    /// Appends its bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (kind, name) = match self {
            Wish::AnyOrMap(name) => (1u16, name.as_str()),
            Wish::Map(name) => (2, name.as_str()),
            Wish::Catalogue => (3, ""),
        };
        // A hold has no longer names.
        let name = &name[..name.floor_char_boundary(MOST_NAME)];
        out.extend(kind.to_le_bytes());
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
    }

    /// The bytes behind a wish.
    pub(crate) fn behind(bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(4 + usize::from(u16::from_le_bytes(*bytes.get(2..)?.first_chunk()?))..)
    }

    /// The same, read; `None` if the bytes are too short, or no wish.
    pub(crate) fn read(bytes: &[u8]) -> Option<Wish> {
        let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (kind, len) = (half(0)?, usize::from(half(2)?));
        let name = std::str::from_utf8(bytes.get(4..4 + len)?).ok()?.to_owned();
        match kind {
            1 => Some(Wish::AnyOrMap(name)),
            2 => Some(Wish::Map(name)),
            3 => Some(Wish::Catalogue),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::key_prefix::KeyPrefix;
    use crate::protocol::wire::{HANDSHAKE_FRAME, Hello, NONCE};

    #[test]
    fn wishes_are_read_as_they_were_written_and_may_be_followed_by_later_fields() {
        let name = "n".repeat(MOST_NAME);
        for wish in [Wish::AnyOrMap("it".into()), Wish::Map(name), Wish::Catalogue] {
            let mut bytes = Vec::new();
            wish.put(&mut bytes);
            for len in 0..bytes.len() {
                assert_eq!(Wish::read(&bytes[..len]), None, "{len}");
            }
            bytes.extend([9; 8]);
            assert_eq!(Wish::read(&bytes), Some(wish.clone()));
            let hello = Hello::new([1; NONCE]);
            assert_eq!(hello.wish(), None);
            let named = hello.clone().with_identity(7, &"x".repeat(64)).with_wish(&wish);
            assert_eq!(named.wish(), Some(wish.clone()));
            assert_eq!(named.identity().map(|(node, _)| node), Some(7));
            assert!(named.prefix().unwrap().is_of_all());
            let prefix = KeyPrefix::wanted(Some(&[7; 255])).unwrap();
            let of_prefix = named.clone().with_prefix(&prefix);
            assert_eq!(of_prefix.prefix(), Ok(prefix));
            let mut frame = Vec::new();
            of_prefix.put(&mut frame);
            assert!(frame.len() <= HANDSHAKE_FRAME, "{}", frame.len());
            assert!(Hello { capabilities: 4, ..of_prefix }.prefix().unwrap().is_of_all());
            let unnamed = hello.without_identity().with_wish(&wish);
            assert_eq!((unnamed.wish(), unnamed.identity()), (Some(wish), None));
            // A replica without the capability means something else by these bytes.
            assert_eq!(Hello { capabilities: 1, ..unnamed }.wish(), None);
        }
        assert_eq!(Wish::read(&[4, 0, 0, 0]), None);
        assert_eq!(Wish::read(&[1, 0, 1, 0, 0xff]), None);
    }
}
