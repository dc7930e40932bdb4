//! Lines of the access log. Bytes from a client are escaped and appear between quotes, so no client
//! can close the quotes and forge the rest of the line.

use super::connection::Connection;
use super::http::head::Head;
use super::peers::address_of;
use commonhold::log::{Log, LogLevel};
use std::fmt::Write as _;
use std::time::Instant;

/// Records an answer in the log.
pub(crate) fn print<H>(log: &Log, connection: &Connection<H>, now: Instant, how: &str) {
    let Connection { peer, asked, answer, .. } = connection;
    let took = now.saturating_duration_since(answer.began).as_micros();
    let (status, bytes) = (answer.status, answer.bytes);
    // If the log has no room, it drops the line and counts it.
    let _ = log
        .print(LogLevel::Info, format_args!("{peer} \"{asked}\" {status} {bytes} {took}us{how}"));
}

/// A request's method, target, referrer and user agent, without the first and the last quote.
pub(crate) fn line_of(head: &Head<'_>) -> String {
    let field = |value: Option<&[u8]>| value.map_or("-".into(), escaped);
    let (method, target) = (head.method_name, escaped(head.target.as_bytes()));
    format!("{method} {target}\" \"{}\" \"{}", field(head.referer), field(head.user_agent))
}

/// The first line of a malformed request, escaped.
pub(crate) fn first_line(input: &[u8]) -> String {
    let input = input.trim_ascii_start();
    escaped(input.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end())
}

/// The bytes as printable ASCII: all others, quotes and backslashes become `\xHH`.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\') => text.push(byte.into()),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

/// The peer's address.
pub(crate) fn peer_of(socket: &std::os::fd::OwnedFd) -> String {
    address_of(socket).map_or("-".into(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_can_end_the_quotes() {
        assert_eq!(escaped(b"a b~\"\\\xc3\x1b\t"), r"a b~\x22\x5c\xc3\x1b\x09");
        assert_eq!(first_line(b"\r\nGET /%zz \"\r\nHost: x\r\n"), r"GET /%zz \x22");
        assert_eq!(first_line(b"\x16\x03"), r"\x16\x03");
    }
}
