//! Structures that are not maps: queues, channels and logs.

use super::table::Table;
use commonhold::hold::StructureInfo;
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};

/// Queues, channels and logs, for people.
pub fn table(others: &[StructureInfo]) -> Table {
    let mut table = Table::new(&["name", "kind", "memory>", "open in>"]);
    for other in others {
        let open = count(other.attached.into());
        table.row([other.name.clone(), other.kind.to_string(), shown(other.bytes), open]);
    }
    table
}

/// One of them, for programs.
pub fn json(other: &StructureInfo) -> Value {
    json!({
        "name": other.name,
        "kind": other.kind.to_string(),
        "bytes": other.bytes,
        "attached": other.attached,
    })
}
