//! The protocol of a client, and the end of its next request.
//!
//! The simple protocol (after the forerunner's): the client connects and sends an id. It gets the
//! file's bytes, or one zero byte if the id names nothing, and the connection closes. An id ends
//! with a newline, with the client's end of sending, or at the fixed length of the layout's ids, if
//! they have one.
//!
//! If both protocols are enabled, the first line of a connection decides. The connection is HTTP if
//! this line begins with a method's name and a space or tab, if its last word begins with `HTTP/`,
//! or if its first bytes are those of TLS. HTTP refuses TLS at once, whereas an id would often have
//! no end. All other input is an id.

use super::http::head::MOST_BYTES;
use super::layout::Layout;
use std::ops::Range;

/// The methods of RFC 9110, and PATCH.
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
/// The first bytes of a TLS handshake.
const TLS: [u8; 2] = [0x16, 3];

/// The protocols that a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolKind {
    /// HTTP/1.1.
    Http,
    /// Ids and bytes.
    Simple,
    /// Either; the beginning of a connection decides.
    #[default]
    Both,
}

commonhold_io::named_choice!(ProtocolKind { Http => "http", Simple => "simple", Both => "both" });

/// The beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// More has to come first.
    Unknown,
    /// HTTP, from here on.
    Http,
    /// The id, as its range in the input.
    Simple(Range<usize>),
}

/// The kind of request that `input` begins with; `ended`: nothing more will come.
pub(crate) fn begin(
    spoken: ProtocolKind,
    layout: &dyn Layout,
    input: &[u8],
    ended: bool,
) -> Beginning {
    if spoken == ProtocolKind::Http {
        return Beginning::Http;
    }
    if let Some(len) = layout.id_len()
        && input.len() >= len
        && layout.id(&input[..len]).is_some()
    {
        return Beginning::Simple(0..len);
    }
    if spoken == ProtocolKind::Both {
        // Empty lines may precede an HTTP request (RFC 9112, 2.2).
        let empty = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = &input[empty..];
        let is_whole = ended || rest.contains(&b'\n') || input.len() > MOST_BYTES;
        if begins_http(rest) || (is_whole && is_request_line(rest)) {
            return Beginning::Http;
        }
        // The next line decides whether the empty line precedes a request or is an empty id.
        if input.starts_with(b"\r\n") && !is_whole {
            return Beginning::Unknown;
        }
    }
    let line = input.iter().position(|&byte| byte == b'\n');
    let end = match line {
        Some(end) => end,
        None if ended || input.len() > MOST_BYTES => input.len(),
        None => return Beginning::Unknown,
    };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    Beginning::Simple(0..line.len())
}

/// Whether the first bytes alone identify HTTP or TLS. An id that begins with such bytes needs a
/// slash in front of it.
fn begins_http(input: &[u8]) -> bool {
    let follows = |method: &&[u8]| matches!(input.strip_prefix(*method), Some([b' ' | b'\t', ..]));
    input.starts_with(&TLS) || METHODS.iter().any(follows)
}

fn is_request_line(input: &[u8]) -> bool {
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let last = line.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    last.len() < line.len() && last.starts_with(b"HTTP/")
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Tree, Zotero};
    use super::*;

    fn both(layout: &dyn Layout, input: &str, ended: bool) -> Beginning {
        begin(ProtocolKind::Both, layout, input.as_bytes(), ended)
    }

    #[test]
    fn ids_end_in_three_ways() {
        let tree = Tree::new(None, false);
        assert_eq!(both(&tree, "a/b", false), Beginning::Unknown);
        assert_eq!(both(&tree, "a/b", true), Beginning::Simple(0..3));
        assert_eq!(both(&tree, "a/b\r\nmore", false), Beginning::Simple(0..3));
        assert_eq!(both(&Zotero, "ABCD123", false), Beginning::Unknown);
        assert_eq!(both(&Zotero, "ABCD1234", false), Beginning::Simple(0..8));
        assert_eq!(both(&Zotero, "abc\n", false), Beginning::Simple(0..3));
    }

    #[test]
    fn http_is_recognized_by_its_first_line() {
        for layout in [&Tree::new(None, false) as &dyn Layout, &Zotero] {
            assert_eq!(both(layout, "GET /ABCDEFGH HTTP/1.1\r\n", false), Beginning::Http);
            for http in [
                "\r\nGET / HTTP/1.1\r\n",
                "\n\r\nGET /",
                "GET\t/",
                "GET /\r\n",
                "GET / HTTP/1.1 \r\n",
                "BREW /\tHTTP/1.1\n",
                "\x16\x03\x01\x02",
            ] {
                assert_eq!(both(layout, http, false), Beginning::Http, "{http:?}");
            }
            for unknown in ["", "G", "GET", "\r", "\r\n", "\r\nGE", "BREW / HTTP/1.1\r"] {
                assert_eq!(both(layout, unknown, false), Beginning::Unknown, "{unknown:?}");
            }
            assert_eq!(both(layout, "\r\n", true), Beginning::Simple(0..0));
            assert_eq!(both(layout, "\n", false), Beginning::Simple(0..0));
            assert_eq!(both(layout, "GETS\n", false), Beginning::Simple(0..4));
            assert_eq!(both(layout, "\r\nGETS\n", false), Beginning::Simple(0..0));
        }
        assert_eq!(both(&Tree::new(None, false), "a file\n", false), Beginning::Simple(0..6));
        let simple =
            begin(ProtocolKind::Simple, &Tree::new(None, false), b"GET / HTTP/1.1\n", false);
        assert_eq!(simple, Beginning::Simple(0..14));
        assert_eq!(begin(ProtocolKind::Http, &Zotero, b"ABCD1234", false), Beginning::Http);
    }
}
