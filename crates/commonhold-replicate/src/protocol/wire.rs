//! The messages between an origin and a replica; `docs/reference/wire.md` has them byte for byte.
//!
//! Both begin with a preface that names protocol and version. Everything else is frames as a stream
//! has them ([`RawFrame`]): changes are the stream's own bytes, and other messages have codes from
//! 256 on.
//!
//! Invariant: the decoded bytes are hostile. Every length is checked before it is used, nothing is
//! allocated for bytes that have not come, nothing panics.

use crate::protocol::introduction::{proof_bytes, read_proof};
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::wish::Wish;
use commonhold::map::MapMode;
use commonhold::raw::{Proof, RawFrame, check_replica_name};
use commonhold::stream::StreamPosition;
use std::time::Duration;

pub(crate) use commonhold::raw::realtime_ms as now_ms;

/// The preface: this, and the version as 4 bytes.
const MAGIC: &[u8; 12] = b"COMMONHOLD-R";
/// A peer that has not introduced itself by then is disconnected.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// The oldest version that this program can use: both sides begin with it.
pub(crate) const VERSION: u32 = 2;
/// The newest version that it can use: both sides state theirs, and the lower one holds.
pub(crate) const NEWEST: u32 = 2;
/// Bytes of the preface.
pub(crate) const PREFACE: usize = 16;
/// The most bytes of a frame before both sides have proved who they are.
pub(crate) const HANDSHAKE_FRAME: usize = 1024;
/// Bytes of a random number that is never used again.
pub(crate) const NONCE: usize = 32;

/// Codes of the messages other than changes.
pub(crate) mod code {
    /// Replica: its position and its challenge.
    pub(crate) const HELLO: u32 = 0x100;
    /// Origin: a challenge to prove the secret.
    pub(crate) const CHALLENGE: u32 = 0x101;
    /// Replica: the proof.
    pub(crate) const PROOF: u32 = 0x102;
    /// Origin: which map it serves, and whether it serves this replica.
    pub(crate) const ORIGIN: u32 = 0x104;
    /// Origin: what follows, a whole map or changes only.
    pub(crate) const WELCOME: u32 = 0x103;
    /// Origin: a pair of the map.
    pub(crate) const PAIR: u32 = 0x110;
    /// Origin: all pairs were sent; the position from which on the replica's map equals the
    /// origin's.
    pub(crate) const COMPLETE: u32 = 0x111;
    /// Origin: the end of its stream, and the time.
    pub(crate) const TIME: u32 = 0x112;
    /// Origin: pairs of the map in a compressed block.
    pub(crate) const PACKED: u32 = 0x113;
    /// Origin: the position behind changes that the replica does not want.
    pub(crate) const SKIP: u32 = 0x114;
    /// Replica: the offset up to which it has applied, and whether its readers see that.
    pub(crate) const APPLIED: u32 = 0x120;
    /// Origin of a hold: a map's name, and whether it serves the map.
    pub(crate) const MAP: u32 = 0x140;
    /// Origin of a hold: every map that it serves was named.
    pub(crate) const LISTED: u32 = 0x141;
}

/// Abilities beyond those of version 2: bits in both greetings, in use if both sides have them.
pub(crate) mod capability {
    /// Maps whose pairs expire: they are announced as such, and pairs contain their expiry.
    pub(crate) const EXPIRY: u64 = 1;
    /// Compressed blocks of pairs. Each side decides for each connection whether it has it.
    pub(crate) const PACKED: u64 = 2;
    /// A replica names the map that it wants, or requests the names of all maps of a hold.
    pub(crate) const HOLDS: u64 = 4;
    /// A replica requests only the keys that begin with a prefix.
    pub(crate) const PREFIX: u64 = 8;
    /// Those that this program has on every connection.
    pub(crate) const ALWAYS: u64 = EXPIRY | HOLDS | PREFIX;
}

/// Why a connection can no longer be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

pub(crate) fn broken<T>(text: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(text.into()))
}

/// The preface of this version.
pub(crate) fn preface() -> [u8; PREFACE] {
    let mut bytes = [0; PREFACE];
    bytes[..12].copy_from_slice(MAGIC);
    bytes[12..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Checks as much of a preface as there is; true if it is complete.
///
/// # Errors
/// Another protocol, or another version.
pub(crate) fn check_preface(bytes: &[u8]) -> Result<bool, Broken> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return broken("does not speak the protocol of replicas");
    }
    let Some(version) = bytes.get(12..PREFACE) else { return Ok(false) };
    let version = u32::from_le_bytes(version.try_into().unwrap_or_default());
    if version != VERSION {
        return broken(format!(
            "speaks version {version} of the protocol, and this program version {VERSION}; update \
             the older of the two"
        ));
    }
    Ok(true)
}

/// Appends a frame that is not a change. The frames of this module are far from the limit of
/// lengths.
pub(crate) fn put(out: &mut Vec<u8>, code: u32, offset: u64, key: &[u8], value: &[u8]) {
    let frame = RawFrame { code, key, value, expires_ms: 0, offset };
    let encoded = frame.encode_into(out);
    debug_assert!(encoded.is_ok(), "a short frame");
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(crate) fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first message of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) nonce: [u8; NONCE],
    /// The position that it has reached; `None` if it has nothing.
    pub(crate) position: Option<StreamPosition>,
    /// The last change before that position, if it knows it.
    pub(crate) proof: Option<Proof>,
    /// The identifier and the epoch of the lineage that it keeps; zeros if it keeps none.
    pub(crate) lineage: ([u8; 16], u64),
    /// The newest version that it can use.
    pub(crate) newest: u32,
    /// The capabilities that both sides may use if both have them.
    pub(crate) capabilities: u64,
    /// The replica's number and name (see [`with_identity`](Self::with_identity)), which a replica
    /// need not send, and fields of later versions.
    pub(crate) more: Vec<u8>,
}

impl Hello {
    /// Bytes of the fields that every replica sends.
    const FIXED: usize = 64;

    /// That of a replica of this program that has nothing.
    pub(crate) fn new(nonce: [u8; NONCE]) -> Hello {
        let (newest, lineage) = (NEWEST, ([0; 16], 0));
        let (position, proof, more) = (None, None, Vec::new());
        let capabilities = capability::ALWAYS;
        Hello { nonce, position, proof, lineage, newest, capabilities, more }
    }

    /// The same with the number and the name by which an origin knows the replica again.
    pub(crate) fn with_identity(mut self, node: u64, name: &str) -> Hello {
        self.more = node.to_le_bytes().to_vec();
        self.more.extend((name.len() as u16).to_le_bytes());
        self.more.extend(name.as_bytes());
        self
    }

    /// The same for a replica that no process waits for: it has no valid name.
    pub(crate) fn without_identity(self) -> Hello {
        self.with_identity(0, "\0")
    }

    /// The same with the wish of the replica, behind its identity.
    pub(crate) fn with_wish(mut self, wish: &Wish) -> Hello {
        wish.put(&mut self.more);
        self
    }

    /// The same with the prefix of the keys that the replica wants, behind its wish.
    pub(crate) fn with_prefix(mut self, prefix: &KeyPrefix) -> Hello {
        if !prefix.is_of_all() {
            prefix.put(&mut self.more);
        }
        self
    }

    /// The fields behind the replica's name.
    fn behind_identity(&self) -> Option<&[u8]> {
        let name_len = usize::from(u16::from_le_bytes(*self.more.get(8..)?.first_chunk()?));
        self.more.get(10 + name_len..)
    }

    /// The wish of the replica; `None` if it has none, as replicas of earlier programs.
    pub(crate) fn wish(&self) -> Option<Wish> {
        let has_wishes = self.capabilities & capability::HOLDS != 0;
        Wish::read(self.behind_identity()?).filter(|_| has_wishes)
    }

    /// The prefix of the keys that the replica wants; that of all keys if it states none, as
    /// replicas of earlier programs.
    ///
    /// # Errors
    /// It is too long, or not all of it is there.
    pub(crate) fn prefix(&self) -> Result<KeyPrefix, Broken> {
        let fields = self.behind_identity().and_then(Wish::behind).unwrap_or_default();
        match self.capabilities & capability::PREFIX != 0 && !fields.is_empty() {
            true => KeyPrefix::read(fields),
            false => Ok(KeyPrefix::default()),
        }
    }

    /// The replica's number and name; `None` if it sends none, or a name that no replica can have.
    pub(crate) fn identity(&self) -> Option<(u64, &str)> {
        let len = usize::from(u16::from_le_bytes(*self.more.get(8..)?.first_chunk()?));
        let name = std::str::from_utf8(self.more.get(10..10 + len)?).ok()?;
        check_replica_name(name).ok()?;
        Some((long(&self.more, 0)?, name))
    }

    /// The message's value.
    pub(crate) fn value(&self) -> Vec<u8> {
        let StreamPosition { stream, offset } =
            self.position.unwrap_or(StreamPosition { stream: 0, offset: 0 });
        let mut value = [stream, offset].map(u64::to_le_bytes).concat();
        value.extend(u32::from(self.position.is_some()).to_le_bytes());
        value.extend(self.newest.to_le_bytes());
        value.extend(proof_bytes(self.proof));
        value.extend(self.capabilities.to_le_bytes());
        value.extend(self.lineage.0);
        value.extend(self.lineage.1.to_le_bytes());
        value.extend(&self.more);
        value
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, code::HELLO, 0, &self.nonce, &self.value());
    }

    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Hello> {
        let value = frame.value;
        let known = short(value, 16)?;
        let position = StreamPosition { stream: long(value, 0)?, offset: long(value, 8)? };
        let sound = frame.code == code::HELLO && known <= 1;
        let hello = Hello {
            nonce: frame.key.try_into().ok()?,
            position: (known == 1).then_some(position),
            proof: read_proof(value, 24)?,
            lineage: (*value.get(40..)?.first_chunk()?, long(value, 56)?),
            newest: short(value, 20)?,
            capabilities: long(value, 32)?,
            more: value.get(Self::FIXED..)?.to_vec(),
        };
        sound.then_some(hello)
    }
}

/// Appends the challenge.
pub(crate) fn put_challenge(out: &mut Vec<u8>, nonce: &[u8; NONCE]) {
    put(out, code::CHALLENGE, 0, nonce, &[]);
}

/// Appends a proof.
pub(crate) fn put_proof(out: &mut Vec<u8>, proof: &[u8]) {
    put(out, code::PROOF, 0, proof, &[]);
}

/// The announcement of the origin: a whole map or changes only follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The origin's proof that it knows the secret; empty if it has none.
    pub(crate) proof: Vec<u8>,
    /// The position where the changes begin.
    pub(crate) position: StreamPosition,
    /// True if the map's pairs come first; otherwise only changes come.
    pub(crate) whole: bool,
    /// The mode of the replica's map.
    pub(crate) mode: MapMode,
    /// The map's name at the origin.
    pub(crate) name: String,
}

impl Welcome {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (mode, key_bytes, value_bytes) = match self.mode {
            MapMode::General => (0u32, 0, 0),
            MapMode::Fixed { key_bytes, value_bytes } => (1, key_bytes, value_bytes),
            MapMode::Cache { ttl_ms, .. } => {
                let ttl_ms = ttl_ms.unwrap_or(0);
                (2, ttl_ms as u32, (ttl_ms >> 32) as u32)
            }
        };
        let mut value = self.position.stream.to_le_bytes().to_vec();
        value.extend(self.position.offset.to_le_bytes());
        for word in [u32::from(self.whole), mode, key_bytes, value_bytes] {
            value.extend(word.to_le_bytes());
        }
        value.extend(self.name.as_bytes());
        put(out, code::WELCOME, self.position.offset, &self.proof, &value);
    }

    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Welcome> {
        let value = frame.value;
        let mode = match (short(value, 20)?, short(value, 24)?, short(value, 28)?) {
            (0, 0, 0) => MapMode::General,
            (1, key_bytes, value_bytes) => MapMode::Fixed { key_bytes, value_bytes },
            (2, ..) => cache(long(value, 24).filter(|ttl_ms| *ttl_ms != 0)),
            _ => return None,
        };
        let position = StreamPosition { stream: long(value, 0)?, offset: long(value, 8)? };
        let whole = short(value, 16)?;
        let name = String::from_utf8(value.get(32..)?.to_vec()).ok()?;
        let sound = frame.code == code::WELCOME && whole <= 1 && frame.offset == position.offset;
        sound.then(|| Welcome {
            proof: frame.key.to_vec(),
            position,
            whole: whole == 1,
            mode,
            name,
        })
    }

    /// Whether an origin with these capabilities may announce it.
    pub(crate) fn is_within(&self, capabilities: u64) -> bool {
        let is_cache = matches!(self.mode, MapMode::Cache { .. });
        !is_cache || capabilities & capability::EXPIRY != 0
    }
}

/// The mode of a cache's replica, which evicts nothing itself.
pub(crate) fn cache(ttl_ms: Option<u64>) -> MapMode {
    MapMode::Cache { max_bytes: None, max_entries: None, ttl_ms }
}

/// Appends the end of the pairs: from `end` on, the replica's map equals the origin's.
pub(crate) fn put_complete(out: &mut Vec<u8>, offset: u64, end: u64) {
    put(out, code::COMPLETE, offset, &[], &end.to_le_bytes());
}

/// Appends the end of the stream, and a time in milliseconds since 1970: everything that the first
/// origin had then lies before that end. 0 for a relay that does not know the time.
pub(crate) fn put_time(out: &mut Vec<u8>, offset: u64, tail: u64, as_of_ms: u64) {
    let mut value = tail.to_le_bytes().to_vec();
    value.extend(as_of_ms.to_le_bytes());
    put(out, code::TIME, offset, &[], &value);
}

/// How far a replica has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) offset: u64,
    /// Its readers see everything up to there. Otherwise it lies in a map that is being built.
    pub(crate) visible: bool,
}

impl Applied {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put(out, code::APPLIED, self.offset, &[], &u32::from(self.visible).to_le_bytes());
    }

    /// `None` if the frame is no such message.
    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Applied> {
        let visible = short(frame.value, 0) == Some(1);
        (frame.code == code::APPLIED).then_some(Applied { offset: frame.offset, visible })
    }
}

/// The other messages of an origin, without the values of the frame's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A pair of the map.
    Pair,
    /// Pairs of the map in a compressed block.
    Packed,
    /// See [`put_complete`].
    Complete { end: u64 },
    /// See [`put_time`].
    Time { tail: u64, as_of_ms: u64 },
}

impl Note {
    /// `None` if the frame is no such message.
    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Note> {
        let value = frame.value;
        match (frame.code, value.len()) {
            (code::PAIR, _) => Some(Note::Pair),
            (code::PACKED, _) => Some(Note::Packed),
            (code::COMPLETE, 8) => Some(Note::Complete { end: long(value, 0)? }),
            (code::TIME, 16) => {
                Some(Note::Time { tail: long(value, 0)?, as_of_ms: long(value, 8)? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> RawFrame<'_> {
        RawFrame::decode(bytes).expect("a frame")
    }

    #[test]
    fn each_message_is_read_as_it_was_written() {
        for position in [None, Some(StreamPosition { stream: 7, offset: 4096 })] {
            let proof = position.map(|_| Proof { bytes: 48, sum: 5 });
            let lineage = ([4; 16], 2);
            let mut hello = Hello { position, proof, lineage, ..Hello::new([9; NONCE]) };
            // A replica of a later version.
            (hello.newest, hello.capabilities) = (3, u64::MAX);
            let name = "n".repeat(64);
            for mut hello in [hello.clone(), hello.with_identity(9, &name)] {
                hello.more.extend([1; 4]);
                let mut bytes = Vec::new();
                hello.put(&mut bytes);
                assert_eq!(Hello::read(&decode(&bytes)), Some(hello));
                assert!(bytes.len() <= HANDSHAKE_FRAME);
            }
        }
        for visible in [false, true] {
            let (applied, mut bytes) = (Applied { offset: 5, visible }, Vec::new());
            applied.put(&mut bytes);
            assert_eq!(Applied::read(&decode(&bytes)), Some(applied));
        }
        let fixed = MapMode::Fixed { key_bytes: 4, value_bytes: 8 };
        for mode in [MapMode::General, fixed, cache(None), cache(Some(1 << 40 | 7))] {
            let welcome = Welcome {
                proof: vec![1; 32],
                position: StreamPosition { stream: 1 << 63, offset: 80 },
                whole: true,
                mode,
                name: "n".repeat(200),
            };
            let mut bytes = Vec::new();
            welcome.put(&mut bytes);
            assert_eq!(Welcome::read(&decode(&bytes)), Some(welcome));
            assert!(bytes.len() <= HANDSHAKE_FRAME);
        }
        let mut bytes = Vec::new();
        put_complete(&mut bytes, 1, 99);
        assert_eq!(Note::read(&decode(&bytes)), Some(Note::Complete { end: 99 }));
        bytes.clear();
        put_time(&mut bytes, 1, 5, 6);
        assert_eq!(Note::read(&decode(&bytes)), Some(Note::Time { tail: 5, as_of_ms: 6 }));
    }

    /// A replica without an identity, or with a bad one, is served, and cannot be waited for.
    #[test]
    fn an_identity_is_read_if_it_is_whole_and_printable() {
        let hello = Hello::new([9; NONCE]);
        assert_eq!(hello.identity(), None);
        let named = hello.clone().with_identity(7, "near");
        assert_eq!(named.identity(), Some((7, "near")));
        assert_eq!(hello.clone().with_identity(0, "").identity(), Some((0, "")));
        for len in 0..named.more.len() {
            let cut = Hello { more: named.more[..len].to_vec(), ..hello.clone() };
            assert_eq!(cut.identity(), None, "{len}");
        }
        for bad in ["a\nb", &"n".repeat(65)] {
            assert_eq!(hello.clone().with_identity(7, bad).identity(), None, "{bad:?}");
        }
        let mut not_text = named.clone();
        not_text.more[10] = 0xff;
        assert_eq!(not_text.identity(), None);
    }

    #[test]
    fn prefaces_of_others_are_refused_as_soon_as_they_can_be() {
        let ours = preface();
        for len in 0..PREFACE {
            assert_eq!(check_preface(&ours[..len]), Ok(false));
        }
        assert_eq!(check_preface(&ours), Ok(true));
        assert!(check_preface(b"G").is_err() && check_preface(b"GET / HTTP/1.1\r\n").is_err());
        let mut other = ours;
        other[12] = 1;
        assert!(check_preface(&other).unwrap_err().0.contains("version 1"));
    }

    #[test]
    fn frames_that_are_too_short_or_of_another_kind_are_not_understood() {
        let mut bytes = Vec::new();
        let value = [0xff; 40];
        for code in [code::HELLO, code::WELCOME, code::COMPLETE, code::TIME, 7, 0x999] {
            for len in 0..value.len() {
                bytes.clear();
                put(&mut bytes, code, 0, &[1; NONCE], &value[..len]);
                let frame = decode(&bytes);
                assert_eq!(Hello::read(&frame), None);
                assert_eq!(Welcome::read(&frame), None);
                if let Some(note) = Note::read(&frame) {
                    assert!((note, len) == (Note::Complete { end: u64::MAX }, 8) || len == 16);
                }
            }
        }
    }
}
