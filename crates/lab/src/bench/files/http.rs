//! A client's requests in HTTP/1.1, and the head of an answer; bodies by Content-Length only.

use httparse::{EMPTY_HEADER, Response, Status};

/// The most bytes of a head.
pub const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Such as 200.
    pub status: u16,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Whether the connection ends with the body.
    pub closes: bool,
    /// Bytes of the head itself.
    pub bytes: usize,
}

/// A GET of `id`, which may be any bytes.
pub fn request(id: &[u8], host: &str, keep_alive: bool) -> Box<[u8]> {
    let mut text = b"GET /".to_vec();
    for byte in id {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(*byte),
            byte if byte.is_ascii_alphanumeric() => text.push(*byte),
            byte => text.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    text.extend_from_slice(format!(" HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
    if !keep_alive {
        text.extend_from_slice(b"Connection: close\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text.into()
}

/// The head that `bytes` begin with; `None` if it is not whole yet.
///
/// # Errors
/// A text that describes the error.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut response = Response::new(&mut headers);
    let bytes = match response.parse(bytes) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
        Ok(Status::Partial) => return Err(format!("the head has more than {MOST_HEAD} bytes")),
        Err(error) => return Err(format!("the response is not HTTP: {error}")),
    };
    let find = |name: &str| {
        let header = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        header.map(|header| header.value.trim_ascii())
    };
    if find("transfer-encoding").is_some() {
        return Err("the body has a transfer encoding; expected Content-Length".to_owned());
    }
    let length = find("content-length").ok_or("the response has no Content-Length")?;
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
    let connection = find("connection").unwrap_or_default();
    let says = |word: &str| connection.eq_ignore_ascii_case(word.as_bytes());
    let is_old = response.version == Some(0);
    Ok(Some(Head {
        status: response.code.unwrap_or_default(),
        body_bytes: length.ok_or("the Content-Length is not a number")?,
        closes: says("close") || (is_old && !says("keep-alive")),
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_bytes_can_be_requested() {
        let text = request(b"a b/\xc3\xa9?%\n", "localhost", false);
        let wanted =
            "GET /a%20b/%C3%A9%3F%25%0A HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        assert_eq!(std::str::from_utf8(&text).unwrap(), wanted);
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length:  12 \r\nETag: \"x\"\r\n\r\nbody";
        let whole = text.len() - 4;
        assert!((0..whole).all(|end| head(&text[..end]) == Ok(None)));
        let wanted = Head { status: 200, body_bytes: 12, closes: false, bytes: whole };
        assert_eq!(head(text), Ok(Some(wanted)));
        let closing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n";
        let read = head(closing).unwrap().unwrap();
        assert_eq!((read.status, read.closes), (404, true));
        assert!(head(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap().unwrap().closes);
    }

    #[test]
    fn heads_that_cannot_be_used_say_why() {
        let long = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; MOST_HEAD]].concat();
        for (text, wanted) in [
            (&b"220 mail ready\r\n\r\n"[..], "not HTTP"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", "not a number"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer encoding"),
            (&long, "more than 16384 bytes"),
        ] {
            assert!(head(text).unwrap_err().contains(wanted));
        }
    }
}
