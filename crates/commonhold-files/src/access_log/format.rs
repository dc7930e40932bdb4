//! The forms of lines in a log file.

use crate::asked::Asked;
use httpdate::fmt_http_date;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// The form of lines in an access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// The common log format of the W3C's httpd.
    #[default]
    Clf,
    /// The same, with the referrer and the user agent, as Apache and nginx write it.
    Combined,
    /// One JSON object.
    Json,
}

commonhold_io::named_choice!(AccessLogFormat {
    Clf => "clf",
    Combined => "combined",
    Json => "json",
});

/// The facts of a line.
pub(super) struct Line<'a> {
    pub(super) wall: SystemTime,
    pub(super) peer: &'a str,
    pub(super) asked: &'a Asked,
    pub(super) status: u16,
    /// Bytes given to the system to send, without those of the head.
    pub(super) body_bytes: u64,
    pub(super) took: Duration,
    /// All bytes of the answer were given to the system.
    pub(super) is_complete: bool,
}

/// A line as JSON, in the order of its fields.
#[derive(Serialize)]
struct Json<'a> {
    time: String,
    address: &'a str,
    /// `null` if the request was not one of HTTP.
    method: Option<&'a str>,
    target: Cow<'a, str>,
    version: Option<&'a str>,
    status: u16,
    body_bytes: u64,
    duration_us: u64,
    complete: bool,
    referer: Option<Cow<'a, str>>,
    user_agent: Option<Cow<'a, str>>,
}

impl AccessLogFormat {
    /// Appends a line, with its end.
    pub(super) fn write(self, line: &Line<'_>, to: &mut Vec<u8>) {
        match self {
            AccessLogFormat::Clf => to.extend(line.common().into_bytes()),
            AccessLogFormat::Combined => {
                let [referer, user_agent] = line.asked.origins();
                let mut text = line.common();
                let _ = write!(text, " \"{referer}\" \"{user_agent}\"");
                to.extend(text.into_bytes());
            }
            // Writing to memory cannot fail, and the object has no keys that could.
            AccessLogFormat::Json => drop(serde_json::to_writer(&mut *to, &line.json())),
        }
        to.push(b'\n');
    }
}

impl Line<'_> {
    fn common(&self) -> String {
        let Line { peer, asked, status, body_bytes, .. } = self;
        let (line, version) = (asked.line(), asked.version);
        let space = if version.is_empty() { "" } else { " " };
        let bytes = match body_bytes {
            0 => "-".to_owned(),
            bytes => bytes.to_string(),
        };
        let date = date(self.wall);
        format!("{peer} - - [{date}] \"{line}{space}{version}\" {status} {bytes}")
    }

    fn json(&self) -> Json<'_> {
        let Asked { method, target, version, referer, user_agent } = self.asked;
        Json {
            time: humantime::format_rfc3339_millis(self.wall).to_string(),
            address: self.peer,
            method: Some(&**method).filter(|method| !method.is_empty()),
            target: String::from_utf8_lossy(target),
            version: Some(*version).filter(|version| !version.is_empty()),
            status: self.status,
            body_bytes: self.body_bytes,
            duration_us: u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
            complete: self.is_complete,
            referer: lossy(referer.as_deref()),
            user_agent: lossy(user_agent.as_deref()),
        }
    }
}

fn lossy(bytes: Option<&[u8]>) -> Option<Cow<'_, str>> {
    bytes.map(String::from_utf8_lossy)
}

/// A time as the common log format has it, in UTC.
fn date(time: SystemTime) -> String {
    // "Sun, 06 Nov 1994 08:49:37 GMT"
    let text = fmt_http_date(time);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    format!("{}/{}/{}:{} +0000", part(5..7), part(8..11), part(12..16), part(17..25))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn written(format: AccessLogFormat, asked: &Asked, body_bytes: u64) -> String {
        let mut bytes = Vec::new();
        let line = Line {
            wall: UNIX_EPOCH + Duration::from_millis(784_111_777_250),
            peer: "192.0.2.1",
            asked,
            status: 200,
            body_bytes,
            took: Duration::from_micros(42),
            is_complete: true,
        };
        format.write(&line, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn asked() -> Asked {
        let (method, target) = ("GET".to_owned(), b"/a\"b\xff".to_vec());
        let (version, user_agent) = ("HTTP/1.1", Some(b"x\" 1".to_vec()));
        Asked { method, target, version, referer: None, user_agent }
    }

    #[test]
    fn lines_have_the_form_of_the_common_log_format() {
        let common =
            r#"192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] "GET /a\x22b\xff HTTP/1.1" 200 5"#;
        assert_eq!(written(AccessLogFormat::Clf, &asked(), 5), format!("{common}\n"));
        let combined = format!("{common} \"-\" \"x\\x22 1\"\n");
        assert_eq!(written(AccessLogFormat::Combined, &asked(), 5), combined);
        let simple = written(AccessLogFormat::Clf, &Asked::simple(b"id"), 0);
        assert!(simple.ends_with("] \"id\" 200 -\n"), "{simple}");
    }

    #[test]
    fn lines_are_objects_of_json() {
        let line = written(AccessLogFormat::Json, &asked(), 5);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["time"], "1994-11-06T08:49:37.250Z");
        assert_eq!(
            (&object["target"], &object["method"]),
            (&"/a\"b\u{fffd}".into(), &"GET".into())
        );
        assert_eq!((&object["body_bytes"], &object["duration_us"]), (&5.into(), &42.into()));
        assert_eq!((&object["user_agent"], &object["complete"]), (&"x\" 1".into(), &true.into()));
        assert!(object["referer"].is_null() && line.ends_with("}\n"));
        let simple: serde_json::Value =
            serde_json::from_str(&written(AccessLogFormat::Json, &Asked::simple(b"id"), 0))
                .unwrap();
        assert!(simple["method"].is_null() && simple["version"].is_null());
    }
}
