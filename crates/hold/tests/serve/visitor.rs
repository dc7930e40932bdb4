//! Clients that request files.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer: its status, its head and its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

pub fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// One connection, one request.
///
/// # Errors
/// Also if the answer is incomplete.
pub fn try_get(port: u16, path: &str) -> io::Result<Answer> {
    let mut stream = connect(port)?;
    ask(&mut stream, path, "Connection: close\r\n")?;
    answer(&mut stream)
}

#[track_caller]
pub fn get(port: u16, path: &str) -> Answer {
    try_get(port, path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn ask(stream: &mut TcpStream, path: &str, fields: &str) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    stream.write_all(request.as_bytes())
}

/// The next answer of a connection.
///
/// # Errors
/// `UnexpectedEof` if it is not whole.
pub fn answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; len.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body)?;
    let status = head.get(9..12).and_then(|code| code.parse().ok()).expect("a status");
    Ok(Answer { status, head, body })
}

/// The answer of the simple protocol.
pub fn simple(stream: &mut (impl Read + Write), id: &str) -> Vec<u8> {
    stream.write_all(format!("{id}\n").as_bytes()).expect("it listens");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("bytes");
    all
}
