//! A request's head.

use crate::coding::Coding;
use httparse::{EMPTY_HEADER, Header, Request, Status};
use std::borrow::Cow;

/// The most bytes of a head.
pub const MOST_BYTES: usize = 16 << 10;
/// The most fields of a head.
const MOST_FIELDS: usize = 100;

/// A fault of a head; the connection ends after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Not HTTP/1, or a violation of it.
    Malformed,
    /// Too many bytes, or fields.
    TooLarge,
    /// A target of too many bytes.
    Target,
    /// A version other than 1.0 and 1.1.
    Version,
    /// A body in a transfer coding other than `chunked`.
    Coding,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The contents are requested.
    Get,
    /// The head of the response without the contents is requested.
    Head,
    /// The methods that the server has are requested.
    Options,
    /// Any other method.
    Other,
}

/// A request; it borrows the received bytes.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    pub(crate) method_name: &'a str,
    /// The path, percent-decoded, with the slash in front, and without a question mark and what
    /// follows it.
    pub path: Cow<'a, [u8]>,
    /// The target as it was received, for the log and for redirections.
    pub(crate) target: &'a str,
    /// Whether the connection is to be kept.
    pub keep: bool,
    /// Whether a `Connection` field contains `close`, which overrides `keep-alive`.
    closes: bool,
    /// True for HTTP/1.0.
    pub(crate) is_old: bool,
    /// Bytes that follow the head and belong to the request; `None` if only the peer knows the
    /// number.
    pub body: Option<u64>,
    /// The name under which the client found the server.
    pub host: Option<&'a [u8]>,
    pub(crate) range: Option<&'a [u8]>,
    pub(crate) if_range: Option<&'a [u8]>,
    pub(crate) if_match: Option<Cow<'a, [u8]>>,
    pub(crate) if_none_match: Option<Cow<'a, [u8]>>,
    pub(crate) if_modified_since: Option<&'a [u8]>,
    pub(crate) if_unmodified_since: Option<&'a [u8]>,
    accept_encoding: Option<Cow<'a, [u8]>>,
    pub(crate) user_agent: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
}

/// Whether the third word is a version, and not the rest of a path with a space.
fn names_a_version(input: &[u8]) -> bool {
    input.split(|&byte| byte == b' ').nth(2).is_some_and(|word| word.starts_with(b"HTTP/"))
}

/// The fault of a head that is too large: the target, if not even the first line is short enough
/// (RFC 9112, 3).
fn too_large(input: &[u8]) -> Wrong {
    let empty = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    match input[empty..].iter().take(MOST_BYTES).any(|&byte| byte == b'\n') {
        true => Wrong::TooLarge,
        false => Wrong::Target,
    }
}

/// Reads the head at the beginning of `input`, and returns it with its length in bytes. `None` if
/// it is not complete yet.
///
/// # Errors
/// The fault of the head.
pub fn read(input: &[u8]) -> Result<Option<(Head<'_>, usize)>, Wrong> {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut request = Request::new(&mut fields);
    let len = match request.parse(input) {
        Ok(Status::Complete(len)) if len > MOST_BYTES => return Err(too_large(input)),
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) if input.len() >= MOST_BYTES => return Err(too_large(input)),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Wrong::TooLarge),
        Err(httparse::Error::Version) if names_a_version(input) => return Err(Wrong::Version),
        Err(_) => return Err(Wrong::Malformed),
    };
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Wrong::Malformed);
    };
    // RFC 9112, 3.2.4: this target of OPTIONS means the server as a whole.
    let of_server = || (method == "OPTIONS" && target == "*").then_some(Cow::Borrowed(&b"*"[..]));
    let mut head = Head {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        },
        method_name: method,
        path: path_of(target).or_else(of_server).ok_or(Wrong::Malformed)?,
        target,
        keep: version == 1,
        closes: false,
        is_old: version == 0,
        body: Some(0),
        host: None,
        range: None,
        if_range: None,
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        accept_encoding: None,
        user_agent: None,
        referer: None,
    };
    let mut hosts = 0;
    for field in request.headers.iter() {
        note(&mut head, field, &mut hosts)?;
    }
    // RFC 9112, 3.2: a request of version 1.1 without this field, or one with two, is wrong.
    if hosts > 1 || (version == 1 && hosts == 0) {
        return Err(Wrong::Malformed);
    }
    Ok(Some((head, len)))
}

/// Notes a field. Most requests have fields that do not matter here, so this checks their length
/// first.
fn note<'a>(head: &mut Head<'a>, field: &Header<'a>, hosts: &mut u32) -> Result<(), Wrong> {
    let (name, value) = (field.name, field.value);
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
    let slot = match name.len() {
        4 if is("host") => {
            *hosts += 1;
            if !is_host(value) {
                return Err(Wrong::Malformed);
            }
            &mut head.host
        }
        5 if is("range") => &mut head.range,
        7 if is("referer") => &mut head.referer,
        8 if is("if-range") => &mut head.if_range,
        8 if is("if-match") => {
            join(&mut head.if_match, value);
            return Ok(());
        }
        10 if is("user-agent") => &mut head.user_agent,
        10 if is("connection") => {
            for word in words(value) {
                head.closes |= word.eq_ignore_ascii_case(b"close");
                head.keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
            head.keep &= !head.closes;
            return Ok(());
        }
        13 if is("if-none-match") => {
            join(&mut head.if_none_match, value);
            return Ok(());
        }
        14 if is("content-length") => {
            let len =
                std::str::from_utf8(value).ok().filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
            let len = len.and_then(|len| len.parse().ok()).ok_or(Wrong::Malformed)?;
            // Two different lengths are a means of request smuggling.
            if !matches!(head.body, Some(0)) && head.body != Some(len) {
                return Err(Wrong::Malformed);
            }
            head.body = Some(len);
            return Ok(());
        }
        15 if is("accept-encoding") => {
            join(&mut head.accept_encoding, value);
            return Ok(());
        }
        17 if is("if-modified-since") => &mut head.if_modified_since,
        17 if is("transfer-encoding") => {
            // RFC 9112, 6.1: status 501 for a coding that the server does not know.
            if head.body.is_none() || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Wrong::Coding);
            }
            head.body = None;
            return Ok(());
        }
        19 if is("if-unmodified-since") => &mut head.if_unmodified_since,
        _ => return Ok(()),
    };
    *slot = Some(value);
    Ok(())
}

/// Appends a field's value to the values of earlier fields with the same name, which together form
/// one list (RFC 9110, 5.3).
fn join<'a>(list: &mut Option<Cow<'a, [u8]>>, value: &'a [u8]) {
    *list = Some(match list.take() {
        None => Cow::Borrowed(value),
        Some(before) => Cow::Owned([&before[..], b",", value].concat()),
    });
}

/// The words of a list.
pub(crate) fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// The path and the query of a target such as `/path?query` or `http://host/path?query`. The path
/// is empty if the target has only a host.
pub(crate) fn without_host(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    let is_known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (is_known && host > 0).then_some(&rest[host..])
}

/// The path of a target, percent-decoded.
fn path_of(target: &str) -> Option<Cow<'_, [u8]>> {
    let path = without_host(target)?.split(['?', '#']).next().unwrap_or_default();
    let path = match path.is_empty() {
        false => path.as_bytes(),
        true => b"/",
    };
    match path.contains(&b'%') {
        false => Some(Cow::Borrowed(path)),
        true => {
            // An invalid escape would be taken literally: then two names would mean one file.
            let mut escapes = path.split(|&byte| byte == b'%').skip(1);
            let hex = |rest: &[u8]| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit);
            escapes.all(hex).then(|| Cow::from(percent_encoding::percent_decode(path)))
        }
    }
}

/// Whether the value is a host as in RFC 3986, 3.2.2, with or without a port. An empty host is
/// valid. The form reserved for future versions of IP counts as invalid, because no such address is
/// in use.
fn is_host(value: &[u8]) -> bool {
    let is_port = |rest: &[u8]| match rest {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if let Some(rest) = value.strip_prefix(b"[") {
        let is_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        let end = rest.iter().position(|byte| !is_address(byte)).unwrap_or(rest.len());
        return end > 0 && rest[end..].strip_prefix(b"]").is_some_and(is_port);
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    let end = value.iter().position(|byte| !is_name(byte)).unwrap_or(value.len());
    is_port(&value[end..])
}

impl Head<'_> {
    /// Whether the method is one of RFC 9110, or PATCH.
    pub(crate) fn has_known_method(&self) -> bool {
        let known = ["POST", "PUT", "DELETE", "CONNECT", "TRACE", "PATCH"];
        self.method != Method::Other || known.contains(&self.method_name)
    }

    /// Whether it requests the whole contents, unconditionally.
    pub(crate) fn is_plain(&self) -> bool {
        self.range.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_match.is_none()
            && self.if_unmodified_since.is_none()
    }

    /// Whether the client takes this coding (RFC 9110, 12.5.3).
    pub(crate) fn accepts(&self, coding: Coding) -> bool {
        let Some(list) = &self.accept_encoding else { return false };
        let mut any = false;
        for word in words(list) {
            let mut parts = word.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight =
                parts.find_map(|part| part.strip_prefix(b"q=").or(part.strip_prefix(b"Q=")));
            // A weight of 0 forbids the coding.
            let wanted = !weight.is_some_and(|w| w.iter().all(|b| matches!(b, b'0' | b'.')));
            if name.eq_ignore_ascii_case(coding.token().as_bytes()) {
                return wanted;
            }
            any |= name == b"*" && wanted;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<(Head<'_>, usize)>, Wrong> {
        read(text.as_bytes())
    }

    fn path(target: &str) -> Option<String> {
        path_of(target).map(|path| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn a_head_may_come_in_parts() {
        let text = "GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\n\r\nrest";
        for end in 0..text.len() - 4 {
            assert!(matches!(parsed(&text[..end]), Ok(None)), "{end}");
        }
        let (head, len) = parsed(text).unwrap().unwrap();
        assert_eq!((head.method, &head.path[..], head.keep), (Method::Get, &b"/a"[..], true));
        assert_eq!((head.range, len), (Some(&b"bytes=0-1"[..]), text.len() - 4));
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        let keeps = |text: &str| parsed(text).unwrap().unwrap().0.keep;
        assert!(keeps("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n"));
        let both = "Connection: close\r\nConnection: keep-alive\r\n";
        assert!(!keeps(&format!("GET / HTTP/1.1\r\nHost: x\r\n{both}\r\n")));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn wrong_heads_are_distinguished() {
        for malformed in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET /%zz HTTP/1.0\r\n\r\n",
            "GET /%4 HTTP/1.0\r\n\r\n",
            "GET a HTTP/1.0\r\n\r\n",
            "GET /one txt HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.0\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.0\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "\0\0\0\0",
        ] {
            assert_eq!(parsed(malformed).unwrap_err(), Wrong::Malformed, "{malformed:?}");
        }
        assert_eq!(parsed("GET / HTTP/2.0\r\n\r\n").unwrap_err(), Wrong::Version);
        let long = format!("GET /{} HTTP/1.0\r\n", "a".repeat(MOST_BYTES));
        assert_eq!(parsed(&long).unwrap_err(), Wrong::Target);
        let long = format!("\r\nGET / HTTP/1.0\r\nA: {}", "a".repeat(MOST_BYTES));
        assert_eq!(parsed(&long).unwrap_err(), Wrong::TooLarge);
        let many = format!("GET / HTTP/1.0\r\n{}\r\n", "a: b\r\n".repeat(MOST_FIELDS + 1));
        assert_eq!(parsed(&many).unwrap_err(), Wrong::TooLarge);
    }

    #[test]
    fn hosts_have_a_syntax() {
        for host in ["", "a", "a.b:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:80", "a_b%41"] {
            assert!(is_host(host.as_bytes()), "{host:?}");
        }
        for none in
            ["a b", "a/b", "a@b", "a:b", "a:1:2", "[::1", "[]", "[x]", "[::1]a", "\"", "\u{e9}"]
        {
            assert!(!is_host(none.as_bytes()), "{none:?}");
        }
    }

    #[test]
    fn paths_are_decoded_once() {
        assert_eq!(path("/a%20b?c").as_deref(), Some("/a b"));
        assert_eq!(path("/%252e").as_deref(), Some("/%2e"));
        assert_eq!(path("http://host:1/x/y#z").as_deref(), Some("/x/y"));
        assert_eq!(path("http://host").as_deref(), Some("/"));
        assert_eq!(path("HTTP://host?a=/b").as_deref(), Some("/"));
        assert_eq!(path("hTTps://host/a://b").as_deref(), Some("/a://b"));
        assert_eq!((path("http:///a"), path("http:/a"), path("ftp://host/a")), (None, None, None));
        assert_eq!(path("*"), None);
        assert!(parsed("OPTIONS * HTTP/1.0\r\n\r\n").is_ok());
        assert_eq!(parsed("GET * HTTP/1.0\r\n\r\n").unwrap_err(), Wrong::Malformed);
    }

    #[test]
    fn codings_have_weights() {
        let takes = |list: &str, coding| {
            let text = format!("GET / HTTP/1.0\r\nAccept-Encoding: {list}\r\n\r\n");
            parsed(&text).unwrap().unwrap().0.accepts(coding)
        };
        assert!(takes("gzip, deflate, br", Coding::Brotli));
        assert!(takes("GZIP;q=0.1", Coding::Gzip) && !takes("gzip;q=0.1", Coding::Brotli));
        assert!(!takes("*, br;q=0", Coding::Brotli) && takes("*", Coding::Gzip));
        assert!(!takes("br;q=0.000", Coding::Brotli) && !takes("", Coding::Gzip));
        let two = "gzip\r\nAccept-Encoding: br";
        assert!(takes(two, Coding::Gzip) && takes(two, Coding::Brotli));
    }
}
