//! The head of a response.

use super::conditions::Validators;
use crate::coding::Coding;
use httpdate::fmt_http_date;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first line of a response with this status; for a status that this server does not use, that
/// of 500.
#[must_use]
pub fn status_line(status: u16) -> &'static str {
    match status {
        200 => "HTTP/1.1 200 OK\r\n",
        204 => "HTTP/1.1 204 No Content\r\n",
        206 => "HTTP/1.1 206 Partial Content\r\n",
        301 => "HTTP/1.1 301 Moved Permanently\r\n",
        304 => "HTTP/1.1 304 Not Modified\r\n",
        400 => "HTTP/1.1 400 Bad Request\r\n",
        401 => "HTTP/1.1 401 Unauthorized\r\n",
        403 => "HTTP/1.1 403 Forbidden\r\n",
        404 => "HTTP/1.1 404 Not Found\r\n",
        405 => "HTTP/1.1 405 Method Not Allowed\r\n",
        408 => "HTTP/1.1 408 Request Timeout\r\n",
        412 => "HTTP/1.1 412 Precondition Failed\r\n",
        414 => "HTTP/1.1 414 URI Too Long\r\n",
        416 => "HTTP/1.1 416 Range Not Satisfiable\r\n",
        431 => "HTTP/1.1 431 Request Header Fields Too Large\r\n",
        501 => "HTTP/1.1 501 Not Implemented\r\n",
        503 => "HTTP/1.1 503 Service Unavailable\r\n",
        505 => "HTTP/1.1 505 HTTP Version Not Supported\r\n",
        _ => "HTTP/1.1 500 Internal Server Error\r\n",
    }
}

/// Longer than a worker needs for the events that came together.
const EARLIER: Duration = Duration::from_secs(60);

/// The date of responses, made once a second.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    second: u64,
    line: String,
}

impl Dates {
    /// The line for now.
    pub(crate) fn line(&mut self, now: SystemTime) -> &str {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        if second != self.second || self.line.is_empty() {
            self.second = second;
            self.line = format!("Date: {}\r\n", fmt_http_date(now));
        }
        &self.line
    }
}

/// Contents as HTTP describes them: lines that do not change from one request to another.
///
/// ```text
/// Content-Length: N
/// Content-Type: T
/// ETag: "E"
/// Last-Modified: D
/// Accept-Ranges: bytes
/// [Content-Encoding: C]
/// [Vary: Accept-Encoding]
/// ```
/// The first two give way to others when a range is sent, so they stand in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines<'a>(Cow<'a, str>);

/// The facts from which lines are made.
pub(crate) struct Facts<'a> {
    pub(crate) len: u64,
    pub(crate) kind: &'a str,
    pub(crate) etag: u128,
    pub(crate) modified: SystemTime,
    pub(crate) coding: Coding,
    /// True if other codings of the same contents exist.
    pub(crate) varies: bool,
}

impl Lines<'static> {
    pub(crate) fn new(facts: &Facts<'_>) -> Lines<'static> {
        let mut text = String::with_capacity(256);
        let _ = write!(
            text,
            "Content-Length: {}\r\nContent-Type: {}\r\nETag: \"{:032x}\"\r\nLast-Modified: {}\r\nAccept-Ranges: bytes\r\n",
            facts.len,
            facts.kind,
            facts.etag,
            fmt_http_date(not_in_the_future(facts.modified)),
        );
        if facts.coding != Coding::Plain {
            let _ = write!(text, "Content-Encoding: {}\r\n", facts.coding.token());
        }
        if facts.varies {
            text.push_str("Vary: Accept-Encoding\r\n");
        }
        Lines(Cow::Owned(text))
    }
}

/// The time, or one before the response if the time is in the future: `Date`, which was determined
/// earlier than this, must not be before `Last-Modified` (RFC 9110, 8.8.2.1).
fn not_in_the_future(time: SystemTime) -> SystemTime {
    let now = SystemTime::now();
    if time <= now { time } else { now - EARLIER }
}

impl<'a> Lines<'a> {
    /// Lines that were kept; `None` if the text is not lines.
    pub(crate) fn kept(text: &'a str) -> Option<Lines<'a>> {
        let is_lines = text.starts_with("Content-Length: ") && text.ends_with("\r\n");
        is_lines.then_some(Lines(Cow::Borrowed(text)))
    }

    pub(crate) fn into_owned(self) -> Lines<'static> {
        Lines(Cow::Owned(self.0.into_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn line(&self, number: usize) -> &str {
        self.0.split_inclusive("\r\n").nth(number).unwrap_or_default()
    }

    /// The value of `Content-Type`.
    pub(crate) fn kind(&self) -> &str {
        self.line(1).strip_prefix("Content-Type: ").unwrap_or_default().trim_end()
    }

    /// The entity tag, in quotes.
    pub(crate) fn etag(&self) -> &str {
        self.line(2).strip_prefix("ETag: ").unwrap_or_default().trim_end()
    }

    /// All lines except the first two.
    pub(crate) fn rest(&self) -> &str {
        &self.0[self.line(0).len() + self.line(1).len()..]
    }

    /// The lines of contents that are not those of the request: without the tag, the date, and the
    /// offer of ranges.
    pub(crate) fn without_validators(&self) -> String {
        let lines = self.0.split_inclusive("\r\n").enumerate();
        lines.filter_map(|(number, line)| (!(2..5).contains(&number)).then_some(line)).collect()
    }

    pub(crate) fn validators(&self, modified: SystemTime) -> Validators<'_> {
        Validators { etag: self.etag().as_bytes(), modified }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_again() {
        let facts = Facts {
            len: 7,
            kind: "text/plain",
            etag: 0xab,
            modified: UNIX_EPOCH,
            coding: Coding::Gzip,
            varies: true,
        };
        let lines = Lines::new(&facts);
        let kept = Lines::kept(lines.text()).unwrap();
        assert_eq!(kept.kind(), "text/plain");
        assert_eq!(kept.etag(), "\"000000000000000000000000000000ab\"");
        assert_eq!(
            kept.rest(),
            "ETag: \"000000000000000000000000000000ab\"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Accept-Ranges: bytes\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
        );
        assert_eq!(
            kept.without_validators(),
            "Content-Length: 7\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\
             Vary: Accept-Encoding\r\n"
        );
        assert_eq!(Lines::kept("x"), None);
    }

    #[test]
    fn times_in_the_future_become_the_present() {
        let facts = |modified| Facts {
            len: 0,
            kind: "",
            etag: 0,
            modified,
            coding: Coding::Plain,
            varies: false,
        };
        let far = UNIX_EPOCH + Duration::from_secs(u64::MAX / 4);
        let lines = Lines::new(&facts(far));
        let line = lines.line(3).strip_prefix("Last-Modified: ").unwrap().trim_end();
        assert!(httpdate::parse_http_date(line).unwrap() <= SystemTime::now());
    }
}
