//! Text in HTML, and tables.
//!
//! Invariant: all text between tags or in an attribute came through [`escaped`], or is a number.

use commonhold_terminal::text::printable;

/// Foreign text: control characters become escapes, and nothing is markup.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A table; cells are escaped here.
pub struct Table {
    columns: Vec<(String, bool)>,
    rows: String,
    count: usize,
}

impl Table {
    /// A name that ends in `>` stands above numbers.
    pub fn new(columns: &[&str]) -> Table {
        let columns = columns.iter().map(|column| match column.strip_suffix('>') {
            Some(name) => (name.to_owned(), true),
            None => ((*column).to_owned(), false),
        });
        Table { columns: columns.collect(), rows: String::new(), count: 0 }
    }

    /// Adds a row; its first cell names it.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push_str("<tr>");
        for (number, (cell, (name, is_number))) in cells.into_iter().zip(&self.columns).enumerate()
        {
            let class = if *is_number { " class=\"n\"" } else { "" };
            let cell = escaped(&cell);
            self.rows.push_str(&match number {
                0 => format!("<th scope=\"row\"{class}>{cell}</th>"),
                // The column's name is shown next to the cell on a narrow screen.
                _ => format!("<td{class} data-name=\"{}\">{cell}</td>", escaped(name)),
            });
        }
        self.rows.push_str("</tr>\n");
        self.count += 1;
    }

    /// The table below its title; nothing, if it has no rows.
    pub fn section(&self, title: &str) -> String {
        match self.count {
            0 => String::new(),
            _ => format!("<section><h2>{}</h2>\n{}</section>\n", escaped(title), self.html()),
        }
    }

    /// The table.
    pub fn html(&self) -> String {
        let head: String = self
            .columns
            .iter()
            .map(|(name, is_number)| {
                let class = if *is_number { " class=\"n\"" } else { "" };
                format!("<th scope=\"col\"{class}>{}</th>", escaped(name))
            })
            .collect();
        format!(
            "<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
            self.rows
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_is_markup() {
        let odd = "<script>alert(1)</script>\" ' & \n";
        assert_eq!(escaped(odd), "&lt;script&gt;alert(1)&lt;/script&gt;&quot; &#39; &amp; \\n");
        let mut table = Table::new(&["<b>", "n>"]);
        table.row([odd.to_owned(), odd.to_owned()]);
        let html = table.section("<i>");
        assert!(
            !html.contains("<script") && !html.contains("<b>") && !html.contains("<i>"),
            "{html}"
        );
        assert_eq!(Table::new(&["a"]).section("a"), "");
    }
}
