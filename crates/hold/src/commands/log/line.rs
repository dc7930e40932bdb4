//! A line of a log, for people and in JSON; the filter by level.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use commonhold::log::{LogLevel, LogLine};
use commonhold_terminal::bytes;
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

/// Reads a level from the command line; completions know the names.
pub fn level_parser() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(LogLevel::ALL.map(LogLevel::name))
        .try_map(|name| name.parse::<LogLevel>())
}

/// How lines are printed.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// As JSON Lines.
    pub json: bool,
    /// Leave out lines below this level.
    pub level: LogLevel,
}

impl Lines {
    /// Whether to print the line; the log's own lines are always printed.
    pub fn want(self, line: &LogLine) -> bool {
        line.level.is_none_or(|level| level <= self.level)
    }

    /// Appends the line with its end.
    pub fn append(self, line: &LogLine, out: &mut Vec<u8>) {
        match self.json {
            false => line.append_to(out),
            true => out.extend_from_slice(format!("{}\n", json(line)).as_bytes()),
        }
    }
}

fn json(line: &LogLine) -> Value {
    let time = UNIX_EPOCH + Duration::from_nanos(line.time_ns);
    let text = line.text.strip_suffix(b"\n").unwrap_or(&line.text);
    let announces = line.announces.as_ref();
    json!({
        // A string: nanoseconds since 1970 have more bits than numbers have in many readers of
        // JSON.
        "time": humantime::format_rfc3339_nanos(time).to_string(),
        "level": line.level.map(LogLevel::name),
        "thread": line.thread.to_string(),
        "text": announces.is_none().then(|| bytes::json(text)),
        "announces": announces.map(|who| json!({
            "pid": who.pid,
            "tid": who.tid,
            "name": who.name,
        })),
        "late": line.late,
        "lost": line.lost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_same_fields_whatever_it_is() {
        let line = LogLine {
            time_ns: 1_795_291_498_123_456_789,
            level: Some(LogLevel::Warn),
            text: b"\xff\n".to_vec(),
            lost: 2,
            ..LogLine::default()
        };
        let mut out = Vec::new();
        Lines { json: true, level: LogLevel::Trace }.append(&line, &mut out);
        let read: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["time"], "2026-11-21T20:04:58.123456789Z");
        assert_eq!((&read["level"], &read["thread"]), (&json!("warn"), &json!("--")));
        assert_eq!((&read["text"], &read["lost"]), (&json!({ "base64": "/w==" }), &json!(2)));
        let who = LogLine { announces: Some(Default::default()), ..LogLine::default() };
        assert_eq!(
            (&json(&who)["text"], &json(&who)["announces"]["pid"]),
            (&Value::Null, &json!(0))
        );
        assert!(!Lines { json: true, level: LogLevel::Error }.want(&line));
        assert!(Lines { json: true, level: LogLevel::Error }.want(&who));
    }
}
