//! The mode of a map, for people and in JSON.

use commonhold::map::MapMode;
use commonhold_terminal::sizes;
use serde_json::{Value, json};
use std::time::Duration;

/// For people: `general`, `fixed 4,8`, `cache of 64.00 MiB, 5m`.
fn text(mode: &MapMode) -> String {
    match *mode {
        MapMode::Fixed { key_bytes, value_bytes } => format!("fixed {key_bytes},{value_bytes}"),
        MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
            let mut limits = Vec::new();
            if let Some(bytes) = limit(max_bytes) {
                limits.push(sizes::shown(bytes));
            }
            if let Some(entries) = limit(max_entries) {
                limits.push(sizes::things(entries, "pair", "pairs"));
            }
            if let Some(ms) = limit(ttl_ms) {
                limits.push(humantime::format_duration(Duration::from_millis(ms)).to_string());
            }
            match limits.is_empty() {
                true => "cache".to_owned(),
                false => format!("cache of {}", limits.join(", ")),
            }
        }
        MapMode::General => "general".to_owned(),
    }
}

/// The mode for people, and whether only a replica writes the map.
pub fn text_of(mode: &MapMode, replica: bool) -> String {
    let replica = if replica { ", replica" } else { "" };
    format!("{}{replica}", text(mode))
}

/// The mode in JSON; absent limits are null.
pub fn json(mode: &MapMode) -> Value {
    match *mode {
        MapMode::Fixed { key_bytes, value_bytes } => {
            json!({ "kind": "fixed", "key_bytes": key_bytes, "value_bytes": value_bytes })
        }
        MapMode::Cache { max_bytes, max_entries, ttl_ms } => json!({
            "kind": "cache",
            "max_bytes": limit(max_bytes),
            "max_entries": limit(max_entries),
            "ttl_ms": limit(ttl_ms),
        }),
        MapMode::General => json!({ "kind": "general" }),
    }
}

/// The largest number means no limit, too.
fn limit(value: Option<u64>) -> Option<u64> {
    value.filter(|value| *value != u64::MAX)
}
