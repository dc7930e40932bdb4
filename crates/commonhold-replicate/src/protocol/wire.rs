//! The messages between an origin and a replica; `docs/reference/wire.md` has them byte for byte.
//!
//! Both begin with a preface that names protocol and version. Everything else is frames as a stream
//! has them ([`RawFrame`]): changes are the stream's own bytes, and other messages have codes from
//! 256 on.
//!
//! Invariant: the decoded bytes are hostile. Every length is checked before it is used, nothing is
//! allocated for bytes that have not come, nothing panics.

use commonhold::map::{MapMode, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::stream::StreamPosition;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The preface: this, and the version as 4 bytes.
const MAGIC: &[u8; 12] = b"COMMONHOLD-R";
/// A peer that has not introduced itself by then is disconnected.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// The version of this program's protocol.
pub(crate) const VERSION: u32 = 1;
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
    /// Origin: what follows, a whole map or changes only.
    pub(crate) const WELCOME: u32 = 0x103;
    /// Origin: a pair of the map.
    pub(crate) const PAIR: u32 = 0x110;
    /// Origin: all pairs were sent; the position from which on the replica's map equals the
    /// origin's.
    pub(crate) const COMPLETE: u32 = 0x111;
    /// Origin: the end of its stream, and the time.
    pub(crate) const TIME: u32 = 0x112;
    /// Replica: the offset up to which it has applied.
    pub(crate) const APPLIED: u32 = 0x120;
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
        return broken(format!("speaks version {version} of the protocol, not {VERSION}"));
    }
    Ok(true)
}

/// Appends a frame that is not a change. The frames of this module are far from the limit of
/// lengths.
fn put(out: &mut Vec<u8>, code: u32, offset: u64, key: &[u8], value: &[u8]) {
    let frame = RawFrame { code, key, value, expires_ms: 0, offset };
    let encoded = frame.encode_into(out);
    debug_assert!(encoded.is_ok(), "a short frame");
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first message of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) nonce: [u8; NONCE],
    /// The position that it has reached; `None` if it has nothing.
    pub(crate) position: Option<StreamPosition>,
}

impl Hello {
    /// The bytes of the position in the message.
    pub(crate) fn position_bytes(&self) -> [u8; 24] {
        let StreamPosition { stream, offset } =
            self.position.unwrap_or(StreamPosition { stream: 0, offset: 0 });
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&stream.to_le_bytes());
        bytes[8..16].copy_from_slice(&offset.to_le_bytes());
        bytes[16] = u8::from(self.position.is_some());
        bytes
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, code::HELLO, 0, &self.nonce, &self.position_bytes());
    }

    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Hello> {
        let nonce = frame.key.try_into().ok()?;
        let known = short(frame.value, 16)?;
        let position =
            StreamPosition { stream: long(frame.value, 0)?, offset: long(frame.value, 8)? };
        let sound = frame.code == code::HELLO && frame.value.len() == 24 && known <= 1;
        sound.then(|| Hello { nonce, position: (known == 1).then_some(position) })
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
            MapMode::Fixed { key_bytes, value_bytes } => (1u32, key_bytes, value_bytes),
            _ => (0, 0, 0),
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
        let options = match (short(value, 20)?, short(value, 24)?, short(value, 28)?) {
            (0, 0, 0) => MapOptions::general(),
            (1, key_bytes, value_bytes) => MapOptions::fixed(key_bytes, value_bytes),
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
            mode: options.mode(),
            name,
        })
    }
}

/// Appends the end of the pairs: from `end` on, the replica's map equals the origin's.
pub(crate) fn put_complete(out: &mut Vec<u8>, offset: u64, end: u64) {
    put(out, code::COMPLETE, offset, &[], &end.to_le_bytes());
}

/// Appends the end of the stream and the time, in milliseconds since 1970.
pub(crate) fn put_time(out: &mut Vec<u8>, offset: u64, tail: u64, now_ms: u64) {
    let mut value = tail.to_le_bytes().to_vec();
    value.extend(now_ms.to_le_bytes());
    put(out, code::TIME, offset, &[], &value);
}

/// Appends the offset up to which the replica has applied.
pub(crate) fn put_applied(out: &mut Vec<u8>, offset: u64) {
    put(out, code::APPLIED, offset, &[], &[]);
}

/// The other messages of an origin, without the values of the frame's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A pair of the map.
    Pair,
    /// See [`put_complete`].
    Complete { end: u64 },
    /// See [`put_time`].
    Time { tail: u64, now_ms: u64 },
}

impl Note {
    /// `None` if the frame is no such message.
    pub(crate) fn read(frame: &RawFrame<'_>) -> Option<Note> {
        let value = frame.value;
        match (frame.code, value.len()) {
            (code::PAIR, _) => Some(Note::Pair),
            (code::COMPLETE, 8) => Some(Note::Complete { end: long(value, 0)? }),
            (code::TIME, 16) => Some(Note::Time { tail: long(value, 0)?, now_ms: long(value, 8)? }),
            _ => None,
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
            let hello = Hello { nonce: [9; NONCE], position };
            let mut bytes = Vec::new();
            hello.put(&mut bytes);
            assert_eq!(Hello::read(&decode(&bytes)), Some(hello));
            assert!(bytes.len() <= HANDSHAKE_FRAME);
        }
        for options in [MapOptions::general(), MapOptions::fixed(4, 8)] {
            let welcome = Welcome {
                proof: vec![1; 32],
                position: StreamPosition { stream: 1 << 63, offset: 80 },
                whole: true,
                mode: options.mode(),
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
        assert_eq!(Note::read(&decode(&bytes)), Some(Note::Time { tail: 5, now_ms: 6 }));
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
        other[12] = 2;
        assert!(check_preface(&other).unwrap_err().0.contains("version 2"));
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
