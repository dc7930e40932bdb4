//! The protocol of a client, and the end of its next request.
//!
//! The simple protocol (after the forerunner's): the client connects and sends an id. It gets the
//! file's bytes, or one zero byte if the id names nothing, and the connection closes. An id ends
//! with a newline, with the client's end of sending, or at the fixed length of the layout's ids, if
//! they have one.
//!
//! If both protocols are enabled, a first line that ends with ` HTTP/` and a version begins HTTP;
//! everything else is an id.

use super::http::head::MOST_BYTES;
use super::layout::Layout;
use std::ops::Range;

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
    let line = input.iter().position(|&byte| byte == b'\n');
    let end = match line {
        Some(end) => end,
        None if ended || input.len() > MOST_BYTES => input.len(),
        None => return Beginning::Unknown,
    };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    match spoken == ProtocolKind::Both && is_http(line) {
        true => Beginning::Http,
        false => Beginning::Simple(0..line.len()),
    }
}

fn is_http(line: &[u8]) -> bool {
    let last = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
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
        let tree = Tree::new(None);
        assert_eq!(both(&tree, "a/b", false), Beginning::Unknown);
        assert_eq!(both(&tree, "a/b", true), Beginning::Simple(0..3));
        assert_eq!(both(&tree, "a/b\r\nmore", false), Beginning::Simple(0..3));
        assert_eq!(both(&Zotero, "ABCD123", false), Beginning::Unknown);
        assert_eq!(both(&Zotero, "ABCD1234", false), Beginning::Simple(0..8));
        assert_eq!(both(&Zotero, "abc\n", false), Beginning::Simple(0..3));
    }

    #[test]
    fn http_is_recognized_by_its_first_line() {
        for layout in [&Tree::new(None) as &dyn Layout, &Zotero] {
            assert_eq!(both(layout, "GET /ABCDEFGH HTTP/1.1\r\n", false), Beginning::Http);
            assert_eq!(both(layout, "GET /ABCDEFGH HTTP/1.1\r", false), Beginning::Unknown);
        }
        assert_eq!(both(&Tree::new(None), "a file\n", false), Beginning::Simple(0..6));
        let simple = begin(ProtocolKind::Simple, &Tree::new(None), b"GET / HTTP/1.1\n", false);
        assert_eq!(simple, Beginning::Simple(0..14));
        assert_eq!(begin(ProtocolKind::Http, &Zotero, b"ABCD1234", false), Beginning::Http);
    }
}
