//! The statistics of maps.

use super::mode;
use super::table::Table;
use commonhold::map::{MapMode, MapStat, SizeStat};
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};

/// Maps for people, a row each.
pub fn table(maps: &[MapStat]) -> Table {
    let mut table = Table::new(&["map", "mode", "pairs>", "index>", "records>", "bytes/pair>"]);
    for map in maps {
        table.row([
            map.name.clone(),
            mode::text_of(&map.mode, map.replica),
            count(map.len),
            shown(map.index_bytes),
            shown(map.record_bytes),
            bytes_per_pair(map),
        ]);
    }
    table
}

fn bytes_per_pair(map: &MapStat) -> String {
    match map.len {
        // A new map's first segment would give a misleading number.
        len if len < 100 => "-".to_owned(),
        len => format!("{:.1}", (map.index_bytes + map.record_bytes) as f64 / len as f64),
    }
}

/// The statistics of a map, for people.
pub fn text(stat: &MapStat) -> String {
    let mut table = Table::of_facts();
    table.fact("map", &*stat.name);
    table.fact("mode", mode::text_of(&stat.mode, stat.replica));
    table.fact("pairs", count(stat.len));
    table.fact("segments", format!("{}, {:.0}% full", count(stat.segments), stat.load * 100.0));
    table.fact("depth", stat.depth.to_string());
    table.fact("index", shown(stat.index_bytes));
    table.fact("records", shown(stat.record_bytes));
    table.fact("bytes/pair", bytes_per_pair(stat));
    if matches!(stat.mode, MapMode::Cache { .. }) {
        table.fact("hits", count(stat.hits));
        table.fact("misses", count(stat.misses));
        table.fact("expired", count(stat.expired));
        table.fact("evicted", count(stat.evicted));
    }
    if let Some(stream) = &stat.stream {
        let written = shown(stream.end.offset);
        table.fact(
            "stream",
            format!("keeps {}, {written} written, to {}", shown(stream.bytes), stream.end),
        );
    }
    table.text()
}

/// The statistics of a map, for programs.
pub fn json(stat: &MapStat) -> Value {
    let mut json = json!({
        "name": stat.name,
        "mode": mode::json(&stat.mode),
        "pairs": stat.len,
        "segments": stat.segments,
        "depth": stat.depth,
        "index_bytes": stat.index_bytes,
        "record_bytes": stat.record_bytes,
        "sizes": stat.sizes.iter().map(size_json).collect::<Vec<_>>(),
        "load": stat.load,
        "replica": stat.replica,
    });
    if matches!(stat.mode, MapMode::Cache { .. }) {
        json["cache"] = json!({
            "hits": stat.hits,
            "misses": stat.misses,
            "expired": stat.expired,
            "evicted": stat.evicted,
        });
    }
    if let Some(stream) = &stat.stream {
        json["stream"] = json!({ "bytes": stream.bytes, "end": stream.end.to_string() });
    }
    json
}

fn size_json(size: &SizeStat) -> Value {
    json!({ "up_to_bytes": size.up_to_bytes, "pairs": size.pairs, "bytes": size.bytes })
}
