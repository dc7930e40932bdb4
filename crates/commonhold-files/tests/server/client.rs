//! A client of HTTP and of the simple protocol, well-behaved or not.

use commonhold_testing::support::process::PATIENCE;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    address: SocketAddr,
    /// Received bytes that were not processed.
    received: Vec<u8>,
    /// The other side has reported that not all of it is there.
    is_reset: bool,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field that is there at most once.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (field, value) = line.split_once(": ").expect("a field");
            field.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{}", self.head);
        value
    }

    #[track_caller]
    pub fn len(&self) -> usize {
        self.field("Content-Length").expect("a length").parse().unwrap()
    }
}

/// A request for a target, with more fields, each with the end of its line.
pub fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
}

/// The target of a file.
pub fn target(name: &[u8]) -> String {
    let mut target = String::from("/");
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'/' | b'-' => {
                target.push(byte.into());
            }
            _ => write!(target, "%{byte:02x}").unwrap(),
        }
    }
    target
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect(address).unwrap(), address)
    }

    /// One whose system takes few bytes that were not read.
    pub fn narrow(address: SocketAddr) -> Client {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        set_socket_recv_buffer_size(&socket, 16 << 10).unwrap();
        connect(&socket, &address).unwrap();
        Client::of(socket.into(), address)
    }

    /// One with an address of its own.
    pub fn from(own: IpAddr, address: SocketAddr) -> Client {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(own, 0)).unwrap();
        connect(&socket, &address).unwrap();
        Client::of(socket.into(), address)
    }

    fn of(stream: TcpStream, address: SocketAddr) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, address, received: Vec::new(), is_reset: false }
    }

    #[track_caller]
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("it listens");
    }

    /// Sends as much of it as the other side takes.
    pub fn try_say(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write_all(bytes) {
            Ok(()) => true,
            Err(error) if is_end(&error) => false,
            Err(error) => panic!("nobody listens: {error}"),
        }
    }

    pub fn say_no_more(&self) {
        // It fails if the other side has left already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Leaves at once, with a reset.
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// More bytes; none at the end of the stream.
    #[track_caller]
    fn receive(&mut self, at_most: usize) -> usize {
        let before = self.received.len();
        self.received.resize(before + at_most, 0);
        let read = self.stream.read(&mut self.received[before..]);
        let len = match read {
            Ok(len) => len,
            Err(error) if is_end(&error) => {
                self.is_reset = true;
                0
            }
            Err(error) => panic!("it says nothing: {error}"),
        };
        self.received.truncate(before + len);
        len
    }

    /// Takes this many bytes; fewer if the stream ends before.
    #[track_caller]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() < len {
            let missing = len - self.received.len();
            if self.receive(missing.clamp(4096, 1 << 20)) == 0 {
                break;
            }
        }
        let rest = self.received.split_off(len.min(self.received.len()));
        std::mem::replace(&mut self.received, rest)
    }

    /// Puts back what was taken.
    pub fn put_back(&mut self, mut taken: Vec<u8>) {
        taken.append(&mut self.received);
        self.received = taken;
    }

    /// Everything up to the end of the stream, which has to come.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive(64 << 10) > 0 {}
        std::mem::take(&mut self.received)
    }

    /// Everything up to the end of the stream, which has to come as a reset.
    #[track_caller]
    pub fn rest_of_reset(&mut self) -> Vec<u8> {
        let rest = self.rest();
        assert!(self.is_reset, "the end, as if it were all");
        rest
    }

    /// The head of the next answer; `None` if the stream has ended.
    #[track_caller]
    pub fn head(&mut self) -> Option<Answer> {
        loop {
            let end = self.received.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let rest = self.received.split_off(end + 4);
                let mut head = std::mem::replace(&mut self.received, rest);
                head.truncate(end);
                let head = String::from_utf8(head).expect("text");
                let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
                let status = status.and_then(|code| code.parse().ok());
                let status = status.unwrap_or_else(|| panic!("no status: {head:?}"));
                return Some(Answer { status, head, body: Vec::new() });
            }
            if self.receive(4096) == 0 {
                assert!(self.received.is_empty(), "half a head: {:?}", self.received);
                return None;
            }
        }
    }

    /// The next answer, whole. `bodiless`: it is to a HEAD.
    #[track_caller]
    pub fn answer(&mut self, bodiless: bool) -> Answer {
        let mut answer = self.head().expect("an answer, not the end");
        if !bodiless && !matches!(answer.status, 204 | 304) {
            let len = answer.len();
            answer.body = self.take(len);
            assert_eq!(answer.body.len(), len, "the end, in the middle of {}", answer.head);
        }
        answer
    }

    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str, fields: &str) -> Answer {
        self.say(request(method, target, fields));
        self.answer(method == "HEAD")
    }

    #[track_caller]
    pub fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, "")
    }

    /// As [`get`](Self::get), on a new connection if this one was reset. A server resets the
    /// connection if a file changes before the server has seen that all of it was sent, also when
    /// the client has received it all.
    #[track_caller]
    pub fn get_after_change(&mut self, target: &str) -> Answer {
        let is_said = self.try_say(request("GET", target, "").as_bytes());
        if !is_said || (self.receive(4096) == 0 && self.is_reset) {
            *self = Client::to(self.address);
            self.say(request("GET", target, ""));
        }
        self.answer(false)
    }

    /// The connection has ended, and nothing more came.
    #[track_caller]
    pub fn is_over(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

/// One connection, one request.
#[track_caller]
pub fn get(address: SocketAddr, target: &str) -> Answer {
    Client::to(address).get(target)
}

/// The answer of the simple protocol.
#[track_caller]
pub fn simple(address: SocketAddr, id: &[u8]) -> Vec<u8> {
    let mut client = Client::to(address);
    client.say(id);
    client.rest()
}

/// The other side has closed.
pub fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
