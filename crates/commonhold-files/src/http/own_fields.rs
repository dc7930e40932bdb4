//! Fields that the operator of a server adds to its responses: any fields, `Cache-Control`, and
//! those of cross-origin requests (the Fetch standard, 3.3: <https://fetch.spec.whatwg.org/>).
//!
//! Invariant: no value can end its line, and no field is one that the server itself computes.

use std::str::FromStr;

/// The methods of `Allow` and of preflights.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// Fields that the server computes, or that describe the connection, in lower case.
const COMPUTED: [&str; 22] = [
    "accept-ranges",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-authenticate",
    "proxy-connection",
    "retry-after",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];
/// Fields that have an option of their own, with it.
const OPTIONS: [(&str, &str); 5] = [
    ("cache-control", "--cache-control VALUE"),
    ("access-control-allow-headers", "--cors ORIGIN"),
    ("access-control-allow-methods", "--cors ORIGIN"),
    ("access-control-allow-origin", "--cors ORIGIN"),
    ("access-control-max-age", "--cors ORIGIN"),
];
/// The fields of a response that scripts of another origin may read besides those that they always
/// may.
const EXPOSED: &str = "Accept-Ranges, Content-Encoding, Content-Range, Date, ETag, Retry-After";
/// The fields of a request that scripts of another origin may send. The asterisk does not count for
/// requests with credentials, and never for `Authorization`.
const ACCEPTED: &str = "*, Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, \
                        If-Unmodified-Since, Range";
/// How long a client may use the answer of a preflight, in seconds.
const MAX_AGE: u32 = 3600;

/// A field for all responses. It is parsed from `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField(String);

impl FromStr for HeaderField {
    type Err = String;

    fn from_str(text: &str) -> Result<HeaderField, String> {
        let form = "expected 'Name: value', such as 'X-Frame-Options: DENY'";
        let (name, value) = text.split_once(':').ok_or_else(|| format!("{form}, got '{text}'"))?;
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(format!("{form}; '{}' is not a field's name", name.escape_debug()));
        }
        let lower = name.to_ascii_lowercase();
        if COMPUTED.contains(&&*lower) {
            return Err(format!("the server itself computes {name}; omit this field"));
        }
        if let Some((_, option)) = OPTIONS.iter().find(|(field, _)| *field == lower) {
            return Err(format!("{name} has an option of its own; use {option}"));
        }
        Ok(HeaderField(format!("{name}: {}\r\n", value_of(value)?)))
    }
}

/// The value of `Cache-Control`, for responses with contents and for 304.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheControl(String);

impl FromStr for CacheControl {
    type Err = String;

    fn from_str(text: &str) -> Result<CacheControl, String> {
        match value_of(text)? {
            "" => Err("expected directives, such as 'public, max-age=3600', got none".to_owned()),
            value => Ok(CacheControl(format!("Cache-Control: {value}\r\n"))),
        }
    }
}

/// The origin whose scripts may read responses; `*` means all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOrigin(String);

impl FromStr for CorsOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<CorsOrigin, String> {
        // Clients compare the bytes with an origin in lower case and without a default port.
        let origin = text.to_ascii_lowercase();
        let parts = origin.split_once("://");
        let without = |port| origin.strip_suffix(port).map(str::to_owned);
        match parts {
            _ if origin == "*" => Ok(CorsOrigin(origin)),
            Some((scheme, host)) if is_scheme(scheme) && is_host_and_port(host) => {
                let short = match scheme {
                    "http" => without(":80"),
                    "https" => without(":443"),
                    _ => None,
                };
                Ok(CorsOrigin(short.unwrap_or(origin)))
            }
            _ => Err(format!(
                "expected '*' or an origin such as https://example.org, without a path, got '{}'",
                text.escape_debug()
            )),
        }
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_host_and_port(text: &str) -> bool {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let port = text.rsplit_once(':').filter(|_| !text.ends_with(']')).map(|(_, port)| port);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    text.bytes().next().is_some_and(|first| first != b':')
        && text.bytes().all(is_host)
        && port.is_none_or(is_port)
}

/// Whether the byte may be in a field's name (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The value without white space around it. Only printable ASCII is allowed: a line that ends
/// within a value would begin another field.
fn value_of(text: &str) -> Result<&str, String> {
    let value = text.trim_matches([' ', '\t']);
    match value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        true => Ok(value),
        false => Err(format!("expected printable ASCII as value, got '{}'", value.escape_debug())),
    }
}

/// All these fields as lines of heads.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFields {
    /// Of every response.
    every: String,
    /// Of responses with contents and of 304.
    contents: String,
    /// Of responses to OPTIONS, behind `every`.
    options: String,
}

impl OwnFields {
    pub(crate) fn new(
        headers: &[HeaderField],
        cache: Option<&CacheControl>,
        cors: Option<&CorsOrigin>,
    ) -> OwnFields {
        let mut every: String = headers.iter().map(|field| &*field.0).collect();
        let mut options = format!("Allow: {METHODS}\r\n");
        if let Some(CorsOrigin(origin)) = cors {
            every += &format!(
                "Access-Control-Allow-Origin: {origin}\r\n\
                 Access-Control-Expose-Headers: {EXPOSED}\r\n"
            );
            options += &format!(
                "Access-Control-Allow-Methods: {METHODS}\r\n\
                 Access-Control-Allow-Headers: {ACCEPTED}\r\n\
                 Access-Control-Max-Age: {MAX_AGE}\r\n"
            );
        }
        let contents = format!("{every}{}", cache.map_or("", |value| &value.0));
        OwnFields { every, contents, options }
    }

    /// The lines of a response with this status.
    pub(crate) fn of(&self, status: u16) -> &str {
        match status {
            200 | 206 | 304 => &self.contents,
            _ => &self.every,
        }
    }

    /// More lines of a response to OPTIONS.
    pub(crate) fn of_options(&self) -> &str {
        &self.options
    }
}

/// The line `Allow`.
pub(crate) fn allow() -> String {
    format!("Allow: {METHODS}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<HeaderField>().unwrap_err()
    }

    #[test]
    fn fields_are_names_and_values() {
        let field = |text: &str| text.parse::<HeaderField>().map(|field| field.0);
        assert_eq!(field("X-A:b c").as_deref(), Ok("X-A: b c\r\n"));
        assert_eq!(field("x:\t \"b\", c:d \t").as_deref(), Ok("x: \"b\", c:d\r\n"));
        assert_eq!(field("X-Empty:").as_deref(), Ok("X-Empty: \r\n"));
        for wrong in ["", "X-A", ": b", "X A: b", "X-A : b", "X\r\nY: b", "\u{e4}: b", "(x): b"] {
            assert!(refused(wrong).starts_with("expected 'Name: value'"), "{wrong:?}");
        }
        for wrong in ["X: a\r\nY: b", "X: a\n", "X: a\0b", "X: \u{e4}", "X: \x7f"] {
            assert!(refused(wrong).starts_with("expected printable ASCII"), "{wrong:?}");
        }
    }

    #[test]
    fn fields_of_the_server_are_refused() {
        for name in COMPUTED {
            assert!(refused(&format!("{}: x", name.to_uppercase())).contains("itself computes"));
        }
        for (name, option) in OPTIONS {
            assert!(refused(&format!("{name}: x")).contains(option), "{name}");
        }
        assert!("Access-Control-Allow-Credentials: true".parse::<HeaderField>().is_ok());
    }

    #[test]
    fn origins_have_no_path() {
        let origin = |text: &str| text.parse::<CorsOrigin>().map(|origin| origin.0);
        for (text, wanted) in [
            ("*", "*"),
            ("https://example.org", "https://example.org"),
            ("HTTPS://Example.org:443", "https://example.org"),
            ("http://a:80", "http://a"),
            ("http://a:443", "http://a:443"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[::80]", "http://[::80]"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(wanted));
        }
        for wrong in [
            "",
            "null",
            "example.org",
            "https://",
            "https://a/",
            "https://a b",
            "https://a:",
            "https://a:x",
            "https://:1",
            "https://a\r\nX: y",
            "://a",
            "https://u@a",
        ] {
            assert!(origin(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn contents_alone_have_directives_for_caches() {
        let cache: CacheControl = " max-age=60 ".parse().unwrap();
        let fields = OwnFields::new(&["X-A: b".parse().unwrap()], Some(&cache), None);
        for status in [200, 206, 304] {
            assert_eq!(fields.of(status), "X-A: b\r\nCache-Control: max-age=60\r\n");
        }
        for status in [204, 301, 400, 404, 416, 503] {
            assert_eq!(fields.of(status), "X-A: b\r\n");
        }
        assert_eq!(fields.of_options(), allow());
        assert!(" ".parse::<CacheControl>().is_err() && "a\n".parse::<CacheControl>().is_err());
    }
}
