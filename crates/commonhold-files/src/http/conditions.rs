//! Conditional requests (RFC 9110, 13): whether contents are sent at all.

use super::head::{Head, Method, words};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The result of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Answer as if there were no conditions.
    Send,
    /// 304: the client has the contents.
    NotModified,
    /// 412: the contents are not those that the client expects.
    Failed,
}

/// The facts that conditions compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// The entity tag, in quotes.
    pub(crate) etag: &'a [u8],
    pub(crate) modified: SystemTime,
}

/// Evaluates the conditions in the order of RFC 9110, 13.2.2.
pub(crate) fn verdict(head: &Head<'_>, is: &Validators<'_>) -> Verdict {
    if let Some(list) = &head.if_match {
        if !matches(list, is.etag, false) {
            return Verdict::Failed;
        }
    } else if let Some(since) = head.if_unmodified_since.and_then(date)
        && seconds(is.modified) > seconds(since)
    {
        return Verdict::Failed;
    }
    let unchanged = match (&head.if_none_match, head.if_modified_since) {
        (Some(list), _) => matches(list, is.etag, true),
        (None, Some(since)) => {
            date(since).is_some_and(|since| seconds(is.modified) <= seconds(since))
        }
        (None, None) => false,
    };
    match unchanged {
        true if !matches!(head.method, Method::Get | Method::Head) => Verdict::Failed,
        true => Verdict::NotModified,
        false => Verdict::Send,
    }
}

/// Whether `If-Range` still allows a range; otherwise all contents are sent.
pub(crate) fn range_holds(head: &Head<'_>, is: &Validators<'_>) -> bool {
    match head.if_range {
        None => true,
        Some(tag) if tag.starts_with(b"\"") => tag == is.etag,
        // Weak tags never match here; a date must be equal.
        Some(text) => date(text).is_some_and(|date| seconds(date) == seconds(is.modified)),
    }
}

/// Whether a list of entity tags has this one; `weak`: also as a weak tag.
fn matches(list: &[u8], etag: &[u8], weak: bool) -> bool {
    list.trim_ascii() == b"*"
        || words(list).any(|tag| match tag.strip_prefix(b"W/") {
            Some(tag) => weak && tag == etag,
            None => tag == etag,
        })
}

fn date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

/// The seconds of a time: dates of HTTP have no fractions.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests {
    use super::super::head;
    use super::*;

    fn with(fields: &str, of: impl FnOnce(&Head<'_>, &Validators<'_>)) {
        let text = format!("GET / HTTP/1.0\r\n{fields}\r\n\r\n");
        let modified = UNIX_EPOCH + Duration::from_millis(784_111_777_500);
        of(
            &head::read(text.as_bytes()).unwrap().unwrap().0,
            &Validators { etag: b"\"x\"", modified },
        );
    }

    fn of(fields: &str) -> Verdict {
        let mut found = Verdict::Send;
        with(fields, |head, is| found = verdict(head, is));
        found
    }

    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn conditions_have_an_order() {
        assert_eq!(of("If-None-Match: \"a\", W/\"x\""), Verdict::NotModified);
        assert_eq!(of("If-None-Match: *"), Verdict::NotModified);
        for (first, second) in [("\"a\"", "\"x\""), ("\"x\"", "\"a\"")] {
            let twice = |name: &str| of(&format!("{name}: {first}\r\n{name}: {second}"));
            assert_eq!(twice("If-None-Match"), Verdict::NotModified);
            assert_eq!(twice("If-Match"), Verdict::Send);
        }
        assert_eq!(of("If-None-Match: \"y\""), Verdict::Send);
        assert_eq!(
            of(&format!("If-None-Match: \"y\"\r\nIf-Modified-Since: {SAME}")),
            Verdict::Send
        );
        assert_eq!(of(&format!("If-Modified-Since: {SAME}")), Verdict::NotModified);
        assert_eq!(of(&format!("If-Modified-Since: {BEFORE}")), Verdict::Send);
        assert_eq!(of("If-Modified-Since: yesterday"), Verdict::Send);
        assert_eq!(of("If-Match: \"y\""), Verdict::Failed);
        assert_eq!(of("If-Match: W/\"x\""), Verdict::Failed);
        assert_eq!(of("If-Match: \"x\"\r\nIf-None-Match: \"x\""), Verdict::NotModified);
        assert_eq!(of(&format!("If-Unmodified-Since: {BEFORE}")), Verdict::Failed);
        assert_eq!(of(&format!("If-Unmodified-Since: {SAME}")), Verdict::Send);
    }

    #[test]
    fn ranges_hold_for_the_very_same() {
        let holds = |fields: &str| {
            let mut found = false;
            with(fields, |head, is| found = range_holds(head, is));
            found
        };
        assert!(holds("Range: bytes=0-") && holds("If-Range: \"x\""));
        assert!(!holds("If-Range: W/\"x\"") && !holds("If-Range: \"y\""));
        assert!(holds(&format!("If-Range: {SAME}")) && !holds(&format!("If-Range: {BEFORE}")));
    }
}
