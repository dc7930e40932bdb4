//! The reports of origins, replicas, journals and bridges, as `hold stat` shows them.
//!
//! The reports are JSON of other processes, perhaps of another version: missing or invalid parts
//! are shown as a dash or omitted.

use super::table::Table;
use commonhold::Hold;
use commonhold_io::reports::{Report, reports};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{count, shown, things};
use commonhold_terminal::text::printable;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::time::Duration;

/// The number of replicas of one origin shown to people; JSON has all.
const MOST_SHOWN: usize = 20;

/// Origins, replicas, journals and bridges of a hold.
#[derive(Default)]
pub struct Replication {
    origins: Vec<Value>,
    replicas: Vec<Value>,
    journals: Vec<Value>,
    /// Bridges to NATS.
    bridges: Vec<Value>,
    /// Replicas of whole holds.
    holds: Vec<Value>,
}

impl Replication {
    /// Those of all maps of a hold.
    pub fn of_hold(hold: &Hold) -> Result<Replication> {
        Replication::of(hold, |_| true)
    }

    /// Those of one map, channel or queue.
    pub fn of_map(hold: &Hold, map: &str) -> Result<Replication> {
        Replication::of(hold, |report| report.map == map)
    }

    fn of(hold: &Hold, wanted: impl Fn(&Report) -> bool) -> Result<Replication> {
        let mut replication = Replication::default();
        for report in reports(hold)?.into_iter().filter(wanted) {
            match report.what.as_str() {
                "origin" => replication.origins.push(origin(report)),
                "replica" => replication.replicas.push(named(report)),
                "journal" => replication.journals.push(named(report)),
                "bridge" => replication.bridges.push(named(report)),
                "hold" => replication.holds.push(named(report)),
                _ => {}
            }
        }
        Ok(replication)
    }

    /// Puts them into a JSON object, under `origins`, `replicas`, `journals`, `bridges` and
    /// `hold_replicas`.
    pub fn put(&self, json: &mut Value) {
        json["origins"] = json!(self.origins);
        json["replicas"] = json!(self.replicas);
        json["journals"] = json!(self.journals);
        json["bridges"] = json!(self.bridges);
        json["hold_replicas"] = json!(self.holds);
    }

    /// Puts the bridges into the JSON object of a channel or a queue, which has nothing else of it.
    pub fn put_bridges(&self, json: &mut Value) {
        json["bridges"] = json!(self.bridges);
    }

    /// Shows them as tables, if there are any, each after an empty line.
    pub fn show(&self, output: &Output) -> Result<()> {
        for origin in &self.origins {
            output.text(&format!("\n{}", origin_text(origin)))?;
        }
        for hold in &self.holds {
            output.text(&format!("\n{}", hold_text(hold)))?;
        }
        for replica in &self.replicas {
            output.text(&format!("\n{}", replica_text(replica)))?;
        }
        for journal in &self.journals {
            output.text(&format!("\n{}", journal_text(journal)))?;
        }
        for bridge in &self.bridges {
            output.text(&format!("\n{}", bridge_text(bridge)))?;
        }
        Ok(())
    }
}

/// Its report, with the name of its map.
fn named(report: Report) -> Value {
    let mut says = match report.says {
        Value::Object(says) => Value::Object(says),
        _ => json!({}),
    };
    says["map"] = report.map.into();
    says
}

/// The same, with those that lag most in front.
fn origin(report: Report) -> Value {
    let mut says = named(report);
    if let Some(replicas) = says.get_mut("replicas").and_then(Value::as_array_mut) {
        // A replica that has not identified itself yet lags by everything, which is not
        // informative.
        let joins = |replica: &Value| word(replica, "state") == "joining";
        replicas.sort_by_key(|r| (joins(r), Reverse(number(r, "lag_bytes"))));
    }
    says
}

fn origin_text(origin: &Value) -> String {
    let replicas = origin["replicas"].as_array().map_or(&[][..], Vec::as_slice);
    let listens: Vec<&str> =
        origin["listens"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut facts = Table::of_facts();
    facts.fact("origin of", word(origin, "map"));
    facts.fact("process", number(origin, "pid").to_string());
    facts.fact("listens", if listens.is_empty() { "-".to_owned() } else { listens.join(", ") });
    facts.fact("replicas", count(replicas.len() as u64));
    let mut text = facts.text();
    if !replicas.is_empty() {
        text.push_str(&format!("\n{}", followers(replicas).text()));
    }
    if let Some(more @ 1..) = replicas.len().checked_sub(MOST_SHOWN) {
        let more = things(more as u64, "replica", "replicas");
        text.push_str(&format!("\n{more} more with less lag; '--format json' lists all"));
    }
    text
}

fn followers(replicas: &[Value]) -> Table {
    let mut table = Table::new(&["replica", "state", "bytes behind>", "connected for", ""]);
    for (place, replica) in replicas.iter().take(MOST_SHOWN).enumerate() {
        let is_slowest = place == 0 && replicas.len() > 1 && number(replica, "lag_bytes") > 0;
        table.row([
            peer(replica),
            word(replica, "state").to_owned(),
            shown(number(replica, "lag_bytes")),
            seconds(number(replica, "connected_ms")),
            if is_slowest { "slowest" } else { "" }.to_owned(),
        ]);
    }
    table
}

/// The other end, its name and the prefix of its keys if it has them.
pub fn peer(replica: &Value) -> String {
    let peer = match word(replica, "name") {
        "-" | "" => word(replica, "peer").to_owned(),
        name => format!("{name} ({})", word(replica, "peer")),
    };
    match replica["prefix"].as_str() {
        Some(prefix) => format!("{peer}, prefix '{}'", printable(prefix)),
        None => peer,
    }
}

fn replica_text(replica: &Value) -> String {
    let mut facts = Table::of_facts();
    facts.fact("replica", word(replica, "map"));
    facts.fact("origin", word(replica, "origin"));
    if let Some(prefix) = replica["prefix"].as_str() {
        facts.fact("keys", format!("those that begin with '{}'", printable(prefix)));
    }
    facts.fact("process", number(replica, "pid").to_string());
    facts.fact("state", state(replica));
    facts.fact("position", word(replica, "position"));
    facts.fact("behind", behind(replica));
    let (changes, bytes) = (number(replica, "changes"), number(replica, "bytes"));
    facts.fact("applied", format!("{}, {}", things(changes, "change", "changes"), shown(bytes)));
    let synchronised = times(number(replica, "synchronisations"));
    let (sync, wire) = (number(replica, "sync_bytes"), number(replica, "sync_wire_bytes"));
    let packed = match wire < sync {
        true => format!(", {} compressed to {}", shown(sync), shown(wire)),
        false => String::new(),
    };
    facts.fact("whole map", format!("received {synchronised}{packed}"));
    facts.fact("connected", times(number(replica, "connections")));
    if let Some(error) = replica["last_error"].as_str() {
        facts.fact("last error", error);
    }
    facts.text()
}

/// A replica of a whole hold.
fn hold_text(hold: &Value) -> String {
    let mut facts = Table::of_facts();
    facts.fact("all maps of", word(hold, "origin"));
    facts.fact("process", number(hold, "pid").to_string());
    facts.fact(
        "state",
        match hold["connected"].as_bool() {
            Some(true) => "follows",
            _ if hold["listed"].as_bool() == Some(true) => "connection lost",
            _ => "never connected",
        },
    );
    facts.fact("maps", things(number(hold, "followed"), "map", "maps"));
    for state in ["skipped", "dropped"] {
        let names = hold[state].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        if !names.is_empty() {
            facts.fact(state, names.join(", "));
        }
    }
    if let Some(error) = hold["last_error"].as_str() {
        facts.fact("last error", error);
    }
    facts.text()
}

fn journal_text(journal: &Value) -> String {
    let mut facts = Table::of_facts();
    facts.fact("journal of", word(journal, "map"));
    facts.fact("file", word(journal, "file"));
    facts.fact("process", number(journal, "pid").to_string());
    facts.fact("sync", word(journal, "sync"));
    facts.fact("written to", word(journal, "position"));
    facts.fact("durable to", word(journal, "durable"));
    facts.fact("size", shown(number(journal, "bytes")));
    facts.fact("compacted", times(number(journal, "compactions")));
    if let Some(archive) = journal["archive"].as_str() {
        let kept = things(number(journal, "segments"), "segment", "segments");
        facts.fact("history", format!("{kept} added to {archive}"));
    }
    if let Some(error) = journal["error"].as_str() {
        facts.fact("not durable", error);
    }
    if let Some(error) = journal["rewrite_error"].as_str() {
        facts.fact("not compacted", error);
    }
    if let Some(error) = journal["archive_error"].as_str() {
        facts.fact("not removed", error);
    }
    facts.text()
}

fn bridge_text(bridge: &Value) -> String {
    let mut facts = Table::of_facts();
    let (side, what) = match word(bridge, "direction") {
        "publish" => ("publisher of", ["change", "changes"]),
        "send" => ("sender of", ["message", "messages"]),
        "receive" => ("receiver into", ["message", "messages"]),
        _ => ("mirror", ["change", "changes"]),
    };
    facts.fact(side, word(bridge, "map"));
    facts.fact("remote", format!("{} on {}", word(bridge, "remote"), word(bridge, "servers")));
    facts.fact("process", number(bridge, "pid").to_string());
    facts.fact(
        "connected",
        match bridge["connected"] == true {
            true => "yes".to_owned(),
            false => format!("no, for {}", span(number(bridge, "disconnected_ms"))),
        },
    );
    facts.fact("has caught up", if bridge["ready"] == true { "yes" } else { "not yet" });
    let (lag, time) = (number(bridge, "lag_messages"), number(bridge, "lag_ms"));
    let those = |count| things(count, what[0], what[1]);
    facts.fact("behind", format!("about {}, {}", those(lag), span(time)));
    facts.fact("in flight", things(number(bridge, "in_flight"), "message", "messages"));
    facts.fact("transferred", those(number(bridge, "messages")));
    if what[0] == "change" {
        facts.fact("everything compared", times(number(bridge, "synchronisations")));
    }
    for (field, fact) in [("skipped", "skipped"), ("missed", "missed")] {
        if number(bridge, field) > 0 {
            facts.fact(fact, those(number(bridge, field)));
        }
    }
    facts.fact("reconnected", times(number(bridge, "reconnects")));
    if let Some(error) = bridge["last_error"].as_str() {
        facts.fact("last error", error);
    }
    facts.text()
}

fn span(milliseconds: u64) -> String {
    humantime::format_duration(Duration::from_millis(milliseconds)).to_string()
}

/// Whether a replica follows its origin.
pub fn state(replica: &Value) -> &'static str {
    match (replica["connected"].as_bool(), replica["ready"].as_bool()) {
        _ if replica["ended"].as_bool() == Some(true) => "does not follow",
        (Some(true), Some(true)) => "follows",
        (Some(true), _) => "is receiving the map",
        (_, Some(true)) => "connection lost; the map is unchanged",
        _ => "never connected",
    }
}

fn behind(replica: &Value) -> String {
    let messages = things(number(replica, "lag_messages"), "change", "changes");
    let time = Duration::from_millis(number(replica, "lag_ms"));
    let bytes = shown(number(replica, "lag_bytes"));
    format!("{bytes}, about {messages}, {}", humantime::format_duration(time))
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        number => things(number, "time", "times"),
    }
}

fn seconds(ms: u64) -> String {
    humantime::format_duration(Duration::from_secs(ms / 1000)).to_string()
}

/// A number of a report; 0 if it is missing.
pub fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

/// A word of a report; a dash if it is missing.
pub fn word<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(says: Value) -> Report {
        Report { what: "origin".into(), map: "prices".into(), id: "1-0".into(), says }
    }

    #[test]
    fn the_slowest_comes_first_and_is_marked() {
        let follows =
            |peer: &str, lag: u64| json!({"peer": peer, "state": "following", "lag_bytes": lag});
        let joins = json!({"peer": "new", "state": "joining", "lag_bytes": 9_999_999});
        let says = json!({"replicas": [follows("a", 0), joins, follows("b", 2048)]});
        let origin = origin(report(says));
        let peers: Vec<_> = (0..3).map(|at| origin["replicas"][at]["peer"].clone()).collect();
        assert_eq!(peers, ["b", "a", "new"]);
        let text = origin_text(&origin);
        assert!(
            text.contains("2.00 KiB") && text.lines().nth(5).unwrap().ends_with("slowest"),
            "{text}"
        );
        assert_eq!(text.matches("slowest").count(), 1);
    }

    #[test]
    fn a_bridge_shows_its_lag_and_its_last_error() {
        let says = json!({
            "direction": "publish", "remote": "bucket b", "servers": "nats://a", "pid": 7,
            "connected": true, "ready": true, "lag_messages": 3, "lag_ms": 250, "in_flight": 2,
            "messages": 1, "synchronisations": 0, "reconnects": 4, "last_error": "too slow",
        });
        let text = bridge_text(&named(report(says)));
        let has = |fact: &str| assert!(text.contains(fact), "{fact}: {text}");
        has("publisher of");
        has("bucket b on nats://a");
        has("about 3 changes, 250ms");
        has("2 messages");
        has("4 times");
        has("too slow");
        let says = json!({
            "direction": "receive", "connected": false, "disconnected_ms": 3500, "skipped": 1,
            "lag_messages": 1,
        });
        let text = bridge_text(&named(report(says)));
        let has = |fact: &str| assert!(text.contains(fact), "{fact}: {text}");
        has("receiver into");
        has("no, for 3s 500ms");
        has("about 1 message, 0s");
        has("skipped");
    }

    #[test]
    fn strange_reports_are_shown_as_far_as_they_go() {
        for says in [json!(null), json!([1]), json!({"replicas": 7, "listens": {}, "pid": "x"})] {
            let text = origin_text(&origin(report(says.clone())));
            assert!(text.starts_with("origin of  prices\n"), "{text}");
            assert!(replica_text(&named(report(says.clone()))).contains("never connected"));
            assert!(hold_text(&named(report(says.clone()))).contains("never connected"));
            assert!(bridge_text(&named(report(says.clone()))).contains("not yet"));
            assert!(journal_text(&named(report(says))).starts_with("journal of  prices\n"));
        }
        let many: Vec<_> = (0..30).map(|n| json!({ "lag_bytes": n })).collect();
        let text = origin_text(&origin(report(json!({ "replicas": many }))));
        assert!(text.contains("10 replicas more"), "{text}");
        assert_eq!(text.lines().count(), 4 + 1 + MOST_SHOWN + 1);
    }
}
