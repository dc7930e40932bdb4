//! The data set: the names of the Unicode character database, carried inside the program.
//!
//! Invariant: the order of records is that of the file; a record's number is its place in it.

use crate::workload::{Result, RunError};

const FILE: &str = include_str!("../../../../data/unicode-names.tsv");

/// One character: its code point in hexadecimal, which is the key, and its name.
#[derive(Clone, Copy, Debug)]
pub struct Character {
    /// Such as `00E9`.
    pub code_point: &'static str,
    /// Such as `LATIN SMALL LETTER E WITH ACUTE`.
    pub name: &'static str,
}

/// All characters that have names.
pub fn all() -> Result<Vec<Character>> {
    FILE.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).map(parse).collect()
}

fn parse((number, line): (usize, &'static str)) -> Result<Character> {
    match line.split_once('\t') {
        Some((code_point, name)) if !code_point.is_empty() => Ok(Character { code_point, name }),
        _ => Err(RunError::new(format!(
            "data/unicode-names.tsv:{}: expected CODE POINT, TAB, NAME",
            number + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_data_set_is_whole() {
        let characters = all().unwrap();
        assert!(characters.len() > 30_000, "{} characters", characters.len());
        let keys: HashSet<_> = characters.iter().map(|c| c.code_point).collect();
        assert_eq!(keys.len(), characters.len(), "code points are unique");
        let e_acute = characters.iter().find(|c| c.code_point == "00E9").unwrap();
        assert_eq!(e_acute.name, "LATIN SMALL LETTER E WITH ACUTE");
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = parse((6, "0041 no tab")).unwrap_err();
        assert!(error.to_string().contains("unicode-names.tsv:7:"), "{error}");
    }
}
