//! Tables for people: aligned columns, first one to the left, the others to the right.

/// The lines of `rows` under `heading`, as wide as they need to be.
pub fn lines<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let head =
        [line(&heading.map(str::to_owned), &widths), widths.map(|w| "-".repeat(w)).join("  ")];
    head.into_iter().chain(rows.iter().map(|row| line(row, &widths))).collect()
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let pad = |column: usize| match column {
        0 => format!("{:<1$}", cells[0], widths[0]),
        _ => format!("{:>1$}", cells[column], widths[column]),
    };
    (0..N).map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned()
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
