//! Tables for people: aligned columns, first one to the left, the others to the right.

/// The lines of `rows` under `heading`, as wide as they need to be.
pub fn lines<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    wide(&heading.map(str::to_owned), &rows)
}

/// The same, if how many columns there are is known only here.
pub fn wide(heading: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let rule = widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join("  ");
    let head = [line(heading, &widths), rule];
    head.into_iter().chain(rows.iter().map(|row| line(row, &widths))).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let pad = |(column, (cell, width)): (usize, (&String, &usize))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    };
    let padded = cells.iter().zip(widths).enumerate().map(pad);
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// A rate for people: `4.53 M/s`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2} M/s", r / 1e6),
        r if r >= 1e3 => format!("{:.1} k/s", r / 1e3),
        r => format!("{r:.0} /s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let cells = ["a".to_owned(), "1.00".to_owned()];
        assert_eq!(line(&cells, &[3, 6]), "a      1.00");
        assert_eq!(rate(4_530_000.0), "4.53 M/s");
        assert_eq!(rate(4_530.0), "4.5 k/s");
    }
}
