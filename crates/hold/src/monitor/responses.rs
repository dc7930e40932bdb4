//! The answers, by path.

use super::observer::Observer;
use super::{metrics, page, status};
use commonhold_files::http::status_line;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer.
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Whether the connection stays open.
    pub keep: bool,
}

impl Answer {
    fn of(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, kind, body: body.into(), keep: true }
    }

    /// A status in words.
    pub fn plain(status: u16) -> Answer {
        let phrase = status_line(status).trim_end().split_once(' ').map_or("", |(_, rest)| rest);
        let keep = matches!(status, 401 | 403..=405);
        Answer { status, kind: TEXT, body: format!("{phrase}\n").into(), keep }
    }

    /// With a reason.
    pub fn because(mut self, why: &str) -> Answer {
        self.body.extend_from_slice(why.as_bytes());
        self.body.push(b'\n');
        self
    }

    /// The same, at the end of the connection if `keep` is false.
    pub fn keep_if(mut self, keep: bool) -> Answer {
        self.keep &= keep;
        self
    }
}

/// The answer to a request for this path.
pub fn answer(path: &[u8], observer: &Observer) -> Answer {
    match path {
        b"/_hold/" => page_or_error(HTML, page::html(observer)),
        b"/_hold/page.css" => Answer::of(CSS, page::CSS),
        b"/_hold/page.js" => Answer::of(SCRIPT, page::SCRIPT),
        b"/_hold/status.json" => page_or_error(JSON, status::json(observer)),
        b"/metrics" => page_or_error(EXPOSITION, metrics::text(observer)),
        _ => Answer::plain(404).because("Available: /_hold/, /_hold/status.json and /metrics."),
    }
}

fn page_or_error(kind: &'static str, text: commonhold::Result<String>) -> Answer {
    match text {
        Ok(text) => Answer::of(kind, text),
        Err(error) => Answer { keep: true, ..Answer::plain(503) }.because(&error.to_string()),
    }
}
