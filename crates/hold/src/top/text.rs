//! The tables as plain text.

use super::sections::{Order, Section, sections};
use super::view::View;
use crate::report::numbers::bytes;
use crate::report::table::Table;
use commonhold_terminal::text::printable;

/// The hold and all tables.
pub fn text(view: &View) -> String {
    let mut parts = vec![format!("{}\n{}", printable(&view.hold.path), memory(view))];
    parts.extend(sections(view, Order::Name).iter().map(table));
    parts.join("\n\n")
}

/// The memory of the hold in a sentence.
pub fn memory(view: &View) -> String {
    let hold = &view.hold;
    format!(
        "{} used, {} allocated, limit {}",
        bytes(hold.used_bytes),
        bytes(hold.memory_bytes),
        bytes(hold.max_bytes)
    )
}

fn table(section: &Section) -> String {
    let names: Vec<String> = section
        .columns
        .iter()
        .map(|column| format!("{}{}", column.name, if column.is_number { ">" } else { "" }))
        .collect();
    let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    section.rows.iter().for_each(|row| table.row(row.cells.clone()));
    table.text()
}
