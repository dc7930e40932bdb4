//! Tables for people: columns that line up, numbers to the right.
//!
//! Invariant: the text of a cell takes one line and moves no cursor, whatever its source.

use commonhold_terminal::text::printable;
use console::{Alignment, measure_text_width, pad_str};

/// Rows of text under a head.
pub struct Table {
    rows: Vec<Vec<String>>,
    alignments: Vec<Alignment>,
}

impl Table {
    /// A table with these columns; a name that ends in `>` stands above numbers.
    pub fn new(columns: &[&str]) -> Table {
        let right = |c: &&str| match c.ends_with('>') {
            true => Alignment::Right,
            false => Alignment::Left,
        };
        let names = columns.iter().map(|c| c.trim_end_matches('>').to_uppercase()).collect();
        Table { rows: vec![names], alignments: columns.iter().map(right).collect() }
    }

    /// A table without a head: names and facts.
    pub fn of_facts() -> Table {
        Table { rows: Vec::new(), alignments: vec![Alignment::Left; 2] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.row([name.to_owned(), value.into()]);
    }

    /// The table as lines, without a line end after the last.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|r| r.get(column)).map(|c| measure_text_width(c)).max()
        };
        let widths: Vec<_> = (0..self.alignments.len()).map(|c| width(c).unwrap_or(0)).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).zip(&self.alignments);
            let cells = cells.map(|((cell, width), side)| pad_str(cell, *width, *side, None));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "pairs>"]);
        table.row(["prices".into(), "3".into()]);
        table.row(["ö".into(), "34,924".into()]);
        assert_eq!(table.text(), "NAME     PAIRS\nprices       3\nö       34,924");
        table.row(["\u{1b}[2J\n".into(), "1".into()]);
        assert!(table.text().ends_with("\n\\x1b[2J\\n       1"), "{}", table.text());
    }
}
