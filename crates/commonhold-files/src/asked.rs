//! A request, as the access log gets it. The client's bytes are kept as they came, and escaped when
//! they become text.

use super::http::head::Head;
use std::fmt::Write as _;

/// A request as the client sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Empty if the request was not one of HTTP.
    pub(crate) method: String,
    /// The target; the id of the simple protocol; the first line of a malformed request.
    pub(crate) target: Vec<u8>,
    pub(crate) version: &'static str,
    pub(crate) referer: Option<Vec<u8>>,
    pub(crate) user_agent: Option<Vec<u8>>,
}

impl Asked {
    pub(crate) fn http(head: &Head<'_>) -> Asked {
        Asked {
            method: head.method_name.to_owned(),
            target: head.target.as_bytes().to_owned(),
            version: if head.is_old { "HTTP/1.0" } else { "HTTP/1.1" },
            referer: head.referer.map(<[u8]>::to_owned),
            user_agent: head.user_agent.map(<[u8]>::to_owned),
        }
    }

    pub(crate) fn simple(id: &[u8]) -> Asked {
        Asked { target: id.to_owned(), ..Asked::default() }
    }

    /// Of a malformed request the first line.
    pub(crate) fn malformed(input: &[u8]) -> Asked {
        let line = input.trim_ascii_start().split(|&byte| byte == b'\n').next();
        Asked::simple(line.unwrap_or_default().trim_ascii_end())
    }

    /// A request of which nothing is known.
    pub(crate) fn unknown() -> Asked {
        Asked::simple(b"-")
    }

    /// The words of the request's line, escaped.
    pub(crate) fn line(&self) -> String {
        let target = escaped(&self.target);
        match &*self.method {
            "" => target,
            method => format!("{method} {target}"),
        }
    }

    /// The referrer and the user agent, escaped.
    pub(crate) fn origins(&self) -> [String; 2] {
        let field = |value: &Option<Vec<u8>>| value.as_deref().map_or("-".into(), escaped);
        [field(&self.referer), field(&self.user_agent)]
    }
}

/// The bytes as printable ASCII: all others, quotes and backslashes become `\xHH`.
fn escaped(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_can_end_the_quotes() {
        assert_eq!(escaped(b"a b~\"\\\xc3\x1b\t"), r"a b~\x22\x5c\xc3\x1b\x09");
        let line = |input: &[u8]| Asked::malformed(input).line();
        assert_eq!(line(b"\r\nGET /%zz \"\r\nHost: x\r\n"), r"GET /%zz \x22");
        assert_eq!(line(b"\x16\x03"), r"\x16\x03");
    }
}
