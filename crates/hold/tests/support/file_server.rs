//! A small file server in a thread of the test, with faults that a client must find.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How the server goes wrong, or is at least odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Right.
    Plain,
    /// Right, byte by byte.
    Trickle,
    /// Right, but closes each connection after this number of requests, and announces that.
    ClosesAfter(u64),
    /// Right, but ends every connection after one answer without a word.
    ClosesSilently,
    /// One bit of the body is another.
    WrongBit,
    /// The last byte is missing, and then the connection ends.
    Truncated,
    /// One byte more than the file has.
    TooLong,
    /// Another file's bytes, of the same length.
    OtherFile,
    /// Closes without a word.
    ClosesAtOnce,
    /// Throws the connection away.
    Resets,
    /// Right, but its twentieth answer takes 400 ms.
    Pauses,
    /// Sends nothing.
    Stalls,
    /// Answers, and does not close where it must.
    StaysOpen,
    /// Answers unknown ids with some file.
    KnowsAll,
    /// Refuses everything.
    KnowsNothing,
    /// Speaks another protocol.
    OtherWords,
    /// Has an error inside.
    Fails,
    /// Does not say how long the body is.
    NoLength,
}

/// A server; its threads end with the test's process.
pub struct FileServer {
    pub address: String,
    pub port: u16,
    /// Requests that it has read.
    pub requests: Arc<AtomicU64>,
    /// Connections that it has accepted.
    pub connections: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Serving {
    root: PathBuf,
    is_http: bool,
    is_zotero: bool,
    manner: Manner,
    requests: Arc<AtomicU64>,
}

impl FileServer {
    pub fn start(root: &Path, protocol: &str, layout: &str, manner: Manner) -> FileServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let [requests, connections] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (is_http, is_zotero) = (protocol == "http", layout == "zotero");
        let root = root.to_owned();
        let serving = Serving { root, is_http, is_zotero, manner, requests: requests.clone() };
        let accepted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                accepted.fetch_add(1, Ordering::Relaxed);
                let serving = serving.clone();
                // A client that finds a fault goes away in the middle.
                std::thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        FileServer { address: format!("tcp:127.0.0.1:{port}"), port, requests, connections }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Serving {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut served = 0;
        while let Some((id, closes)) = self.read(&mut reader)? {
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            served += 1;
            match self.manner {
                Manner::ClosesAtOnce => return stream.shutdown(Shutdown::Both),
                Manner::Pauses if number == 20 => std::thread::sleep(Duration::from_millis(400)),
                Manner::Stalls => std::thread::sleep(Duration::from_secs(600)),
                Manner::Resets => {
                    // Unread bytes at the close of a socket turn the end into a reset.
                    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
                    return Ok(());
                }
                _ => {}
            }
            let said = matches!(self.manner, Manner::ClosesAfter(most) if served >= most);
            let ends = closes || said || !self.is_http;
            self.answer(&stream, &id, ends)?;
            if self.manner == Manner::StaysOpen {
                std::thread::sleep(Duration::from_secs(600));
            }
            if ends || self.manner == Manner::ClosesSilently || self.manner == Manner::Truncated {
                stream.shutdown(Shutdown::Write)?;
                // Discarding unread bytes would turn the end into a reset, which may overtake the
                // answer.
                return std::io::copy(&mut reader, &mut std::io::sink()).map(drop);
            }
        }
        Ok(())
    }

    /// The id, and whether the connection is to end.
    fn read(&self, reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, bool)>> {
        let mut line = String::new();
        if !self.is_http {
            if self.is_zotero {
                let mut id = [0; 8];
                return Ok(reader.read_exact(&mut id).ok().map(|()| (text(&id), true)));
            }
            let count = reader.read_line(&mut line)?;
            return Ok((count > 0).then(|| (line.trim_end_matches('\n').to_owned(), true)));
        }
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let path = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        let mut closes = false;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            closes |= header.trim_end().eq_ignore_ascii_case("connection: close");
            if header.trim_end().is_empty() {
                return Ok(Some((unquoted(&path), closes)));
            }
        }
    }

    fn answer(&self, stream: &TcpStream, id: &str, ends: bool) -> std::io::Result<()> {
        let mut body = self.body(id);
        let length = body.as_ref().map_or(0, Vec::len);
        if let Some(body) = &mut body {
            match self.manner {
                Manner::WrongBit => body[length / 2] ^= 4,
                Manner::Truncated => drop(body.pop()),
                Manner::TooLong => body.push(b'x'),
                Manner::OtherFile => body.iter_mut().for_each(|byte| *byte = b'o'),
                _ => {}
            }
        }
        let answer = match (self.is_http, body) {
            (false, body) => body.unwrap_or_else(|| vec![0]),
            (true, body) => self.http(body, length, ends),
        };
        let mut stream = stream;
        match self.manner {
            Manner::Trickle => answer.iter().try_for_each(|byte| stream.write_all(&[*byte])),
            _ => stream.write_all(&answer),
        }
    }

    fn body(&self, id: &str) -> Option<Vec<u8>> {
        let path = if self.is_zotero { format!("{id}/document.pdf") } else { id.to_owned() };
        let found = std::fs::read(self.root.join(path)).ok();
        match self.manner {
            Manner::KnowsNothing => None,
            Manner::KnowsAll => found.or(Some(b"some file".to_vec())),
            _ => found,
        }
    }

    fn http(&self, body: Option<Vec<u8>>, length: usize, ends: bool) -> Vec<u8> {
        if self.manner == Manner::OtherWords {
            return b"220 mail.example.org ready\r\n".to_vec();
        }
        let status = match (&body, self.manner) {
            (_, Manner::Fails) => "503 Service Unavailable",
            (None, _) => "404 Not Found",
            (Some(_), _) => "200 OK",
        };
        let body = body.unwrap_or_else(|| b"no such file".to_vec());
        let length = if status.starts_with("200") { length } else { body.len() };
        let mut head = format!("HTTP/1.1 {status}\r\nServer: test\r\n");
        if self.manner != Manner::NoLength {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        if ends {
            head.push_str("Connection: close\r\n");
        }
        [head.as_bytes(), b"\r\n", &body].concat()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn unquoted(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => (bytes.push(byte), rest = &more[2..]),
            None => (bytes.push(*first), rest = more),
        };
    }
    text(&bytes)
}
