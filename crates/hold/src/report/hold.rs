//! The statistics of a hold, and its participants.

use super::table::Table;
use commonhold::hold::{HoldKind, HoldStat, ParticipantInfo};
use commonhold_terminal::sizes::shown;
use serde_json::{Value, json};

/// The statistics of a hold, for people.
pub fn text(stat: &HoldStat) -> String {
    let mut table = Table::of_facts();
    table.fact("hold", stat.path.display().to_string());
    table.fact("uuid", &*stat.uuid);
    table.fact("kind", kind(stat.kind));
    table.fact(
        "memory",
        format!("{} (the file is {} long)", shown(stat.memory_bytes), shown(stat.file_bytes)),
    );
    table.fact("used", shown(stat.used_bytes));
    table.fact(
        "free",
        format!(
            "{} in the file; the file may grow to {}",
            shown(stat.free_bytes),
            shown(stat.max_bytes)
        ),
    );
    table.fact("format", stat.format.to_string());
    table.text()
}

fn kind(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Memory => "memory",
        HoldKind::File => "file",
    }
}

/// The statistics of a hold, for programs.
pub fn json(stat: &HoldStat) -> Value {
    json!({
        "path": stat.path.to_string_lossy(),
        "uuid": stat.uuid,
        "kind": kind(stat.kind),
        "file_bytes": stat.file_bytes,
        "memory_bytes": stat.memory_bytes,
        "used_bytes": stat.used_bytes,
        "free_bytes": stat.free_bytes,
        "max_bytes": stat.max_bytes,
        "participants": stat.participants,
        "maps": stat.maps,
        "others": stat.others,
        "format": stat.format,
    })
}

/// The participants, for people.
pub fn participants_table(participants: &[ParticipantInfo]) -> Table {
    let mut table = Table::new(&["slot>", "generation>", "pid>", "program", "state"]);
    for p in participants {
        let state = if p.alive { "alive" } else { "dead: 'hold repair' cleans up after it" };
        table.row([
            p.slot.to_string(),
            p.generation.to_string(),
            p.pid.to_string(),
            p.program.clone(),
            state.to_owned(),
        ]);
    }
    table
}

/// A participant, for programs.
pub fn participant_json(p: &ParticipantInfo) -> Value {
    json!({
        "slot": p.slot,
        "generation": p.generation,
        "pid": p.pid,
        "program": p.program,
        "since_ms": p.since_ms,
        "alive": p.alive,
    })
}
