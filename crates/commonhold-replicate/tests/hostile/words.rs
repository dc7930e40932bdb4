//! The protocol's messages, right and wrong, made by hand from `docs/reference/wire.md`.

use crate::party::LONG;
use commonhold::map::MapMode;
use commonhold::raw::RawFrame;
use commonhold::stream::StreamPosition;
use commonhold_io::address::Address;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

pub const SET: u32 = 1;
pub const DELETE: u32 = 2;
pub const GAP: u32 = 6;
pub const HELLO: u32 = 0x100;
pub const CHALLENGE: u32 = 0x101;
pub const PROOF: u32 = 0x102;
pub const WELCOME: u32 = 0x103;
pub const ORIGIN: u32 = 0x104;
pub const PAIR: u32 = 0x110;
pub const COMPLETE: u32 = 0x111;
pub const TIME: u32 = 0x112;
pub const PACKED: u32 = 0x113;
pub const APPLIED: u32 = 0x120;

/// Bytes of a preface and a hello.
pub const GREETING: usize = 16 + 72 + 64;
/// Bytes of the number and the name of a replica without a name, and of its wish for the map `it`,
/// which follow.
pub const IDENTITY: usize = 16;
/// Where the lineage is in them.
pub const LINEAGE: std::ops::Range<usize> = 16 + 72 + 40..16 + 72 + 56;

pub fn preface() -> Vec<u8> {
    [&b"COMMONHOLD-R"[..], &[2, 0, 0, 0]].concat()
}

pub fn frame(code: u32, offset: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    RawFrame { code, key, value, expires_ms: 0, offset }.encode_into(&mut bytes).unwrap();
    bytes
}

/// Makes a frame's checksum right again.
pub fn seal(frame: &mut [u8]) {
    let sum = crc32(&frame[8..]);
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// The position that a replica states.
pub fn place(position: Option<StreamPosition>) -> Vec<u8> {
    let StreamPosition { stream, offset } =
        position.unwrap_or(StreamPosition { stream: 0, offset: 0 });
    let known = u32::from(position.is_some());
    [&[stream, offset].map(u64::to_le_bytes).concat()[..], &known.to_le_bytes()].concat()
}

/// The value of the first message of a replica, which proves nothing of its position.
pub fn hello(position: Option<StreamPosition>) -> Vec<u8> {
    [place(position), 2u32.to_le_bytes().to_vec(), vec![0; 40]].concat()
}

/// The first message of a replica.
pub fn greeting(position: Option<StreamPosition>) -> Vec<u8> {
    let bytes = [preface(), frame(HELLO, 0, &[0x5a; 32], &hello(position))].concat();
    assert_eq!(bytes.len(), GREETING);
    bytes
}

/// The first message of a replica that has nothing, with a number and a name.
pub fn greeting_of(node: u64, name: &str) -> Vec<u8> {
    let len = (name.len() as u16).to_le_bytes();
    let value = [&hello(None)[..], &node.to_le_bytes(), &len, name.as_bytes()].concat();
    [preface(), frame(HELLO, 0, &[0x5a; 32], &value)].concat()
}

/// The first message of an origin.
#[derive(Clone, Copy)]
pub struct Welcome {
    pub position: StreamPosition,
    pub whole: u32,
    /// The kind, and the lengths of keys and values.
    pub mode: [u32; 3],
    /// The identifier of the map's lineage.
    pub lineage: [u8; 16],
}

impl Welcome {
    pub fn to(mode: MapMode, position: StreamPosition) -> Welcome {
        let mode = match mode {
            MapMode::Fixed { key_bytes, value_bytes } => [1, key_bytes, value_bytes],
            _ => [0; 3],
        };
        Welcome { position, whole: 1, mode, lineage: [7; 16] }
    }

    pub fn value(&self) -> Vec<u8> {
        let position = [self.position.stream, self.position.offset].map(u64::to_le_bytes).concat();
        let [mode, key, value] = self.mode;
        [position, [self.whole, mode, key, value].map(u32::to_le_bytes).concat(), b"it".to_vec()]
            .concat()
    }

    /// The origin's introduction, of the first epoch.
    pub fn origin(&self) -> Vec<u8> {
        let value = [&[2u32, 0].map(u32::to_le_bytes).concat()[..], &[0; 24], &self.lineage];
        let value = [&value.concat()[..], &1u64.to_le_bytes(), &[0; 8]].concat();
        frame(ORIGIN, 0, &[], &value)
    }

    /// The same of an origin with these capabilities.
    pub fn words_with(&self, capabilities: u64) -> Vec<u8> {
        let mut origin = self.origin();
        origin[48..56].copy_from_slice(&capabilities.to_le_bytes());
        seal(&mut origin);
        let welcome = frame(WELCOME, self.position.offset, &[], &self.value());
        [preface(), origin, welcome].concat()
    }

    /// Preface and frames.
    pub fn words(&self) -> Vec<u8> {
        let welcome = frame(WELCOME, self.position.offset, &[], &self.value());
        [preface(), self.origin(), welcome].concat()
    }
}

/// A peer at the other end of an origin's socket.
pub struct Peer(pub UnixStream);

impl Peer {
    pub fn of(address: &Address) -> Peer {
        let Address::Unix(path) = address else { panic!("it listens at a path") };
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Peer(stream)
    }

    /// Sends as much of it as the other side takes.
    pub fn say(&mut self, words: &[u8]) {
        match self.0.write_all(words) {
            Ok(()) => {}
            Err(error) if is_end(&error) => {}
            Err(error) => panic!("nobody listens: {error}"),
        }
    }

    pub fn say_no_more(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads to the end, which has to come; returns the number of bytes.
    #[track_caller]
    pub fn is_sent_away(&mut self) -> usize {
        let (mut count, mut buffer) = (0, [0; 64 << 10]);
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => return count,
                Ok(len) => count += len,
                Err(error) if is_end(&error) => return count,
                Err(error) => panic!("it is not sent away: {error}"),
            }
        }
    }

    /// Whether it was disconnected, as far as is known now. Discards received bytes.
    pub fn has_been_sent_away(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let read = self.0.read(&mut [0; 4096]);
        self.0.set_nonblocking(false).unwrap();
        match read {
            Ok(len) => len == 0,
            Err(error) => is_end(&error),
        }
    }

    /// Reads a frame.
    #[track_caller]
    pub fn receive_frame(&mut self) -> Vec<u8> {
        let mut bytes = self.receive(4);
        let len = u32::from_le_bytes(bytes[..].try_into().unwrap()) as usize;
        bytes.extend(self.receive(len - 4));
        bytes
    }

    /// Reads this many bytes.
    #[track_caller]
    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// The other side has closed.
fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
