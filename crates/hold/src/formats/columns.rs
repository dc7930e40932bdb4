//! Which fields of a row are the key and the value.
//!
//! Columns are given by number (from 1) or by the name in the header line. Invariant: a row gives
//! either exactly the two chosen fields or an error that names what it has instead.

use super::Flaw;
use commonhold_terminal::failure::{Failure, Result};

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By number, from 1.
    Number(usize),
    /// By its name in the header line, or as a JSON field.
    Name(String),
}

impl std::str::FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Column, String> {
        match text.parse() {
            Ok(0) => Err("expected a column number of at least 1, got 0".to_owned()),
            Ok(number) => Ok(Column::Number(number)),
            Err(_) if text.is_empty() => {
                Err("expected the name or number of a column, got nothing".to_owned())
            }
            Err(_) => Ok(Column::Name(text.to_owned())),
        }
    }
}

/// The columns of key and value.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The key's column; by default the first.
    pub key: Option<Column>,
    /// The value's column; by default the second.
    pub value: Option<Column>,
    /// Whether the first line names the columns.
    pub header: bool,
}

/// The columns as positions in a row, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    key: usize,
    value: usize,
    /// The number of fields of a row, exactly or at least.
    fields: usize,
    exactly: bool,
}

impl Columns {
    /// Whether to read a header line: requested, or needed to find a name.
    pub fn has_header(&self) -> bool {
        let named = |c: &Option<Column>| matches!(c, Some(Column::Name(_)));
        self.header || named(&self.key) || named(&self.value)
    }

    /// The positions of key and value, found by name if there is a header line. An error ends with
    /// `hint`.
    pub fn find(&self, header: &[&[u8]], hint: &str) -> std::result::Result<Places, Flaw> {
        // Without the columns no row can be read: this ends the reading.
        let stream = |what| Flaw::Stream(std::io::Error::other(format!("{what}{hint}")));
        self.places(header).map_err(stream)
    }

    fn places(&self, header: &[&[u8]]) -> std::result::Result<Places, String> {
        let key = place(self.key.as_ref(), 0, header)?;
        let value = place(self.value.as_ref(), 1, header)?;
        let exactly = self.key.is_none() && self.value.is_none();
        Ok(Places { key, value, fields: key.max(value) + 1, exactly })
    }

    /// The names of the JSON fields.
    pub fn names(&self) -> Result<[String; 2]> {
        if self.header {
            return Err(Failure::usage(
                "--header applies only to csv and tsv: JSON names its fields",
            ));
        }
        let name = |column: &Option<Column>, default: &str| match column {
            None => Ok(default.to_owned()),
            Some(Column::Name(name)) => Ok(name.clone()),
            Some(Column::Number(n)) => Err(Failure::usage(format!(
                "expected the name of a JSON field, got the number {n}"
            ))),
        };
        Ok([name(&self.key, "key")?, name(&self.value, "value")?])
    }

    /// Fails if columns are chosen: NUL-separated pairs have none.
    pub fn none_for_nul(&self) -> Result<()> {
        if self.header || self.key.is_some() || self.value.is_some() {
            return Err(Failure::usage(
                "NUL-separated pairs have no columns: --header, --key-column and --value-column \
                 apply only to csv, tsv and json",
            ));
        }
        Ok(())
    }
}

fn place(
    column: Option<&Column>,
    default: usize,
    header: &[&[u8]],
) -> std::result::Result<usize, String> {
    match column {
        None => Ok(default),
        Some(Column::Number(number)) => Ok(number - 1),
        Some(Column::Name(name)) => {
            header.iter().position(|field| *field == name.as_bytes()).ok_or_else(|| {
                let all: Vec<_> =
                    header.iter().map(|f| commonhold_terminal::text::shown(f)).collect();
                format!("no column '{name}' in the header, which has: {}", all.join(", "))
            })
        }
    }
}

impl Places {
    /// Key and value of a row, or the error in it.
    pub fn pick<'a>(&self, row: &[&'a [u8]]) -> std::result::Result<(&'a [u8], &'a [u8]), String> {
        let found = row.len();
        match (self.exactly, found) {
            (true, found) if found != self.fields => {
                Err(format!("expected {} fields, found {found}", self.fields))
            }
            (false, found) if found < self.fields => {
                Err(format!("expected at least {} fields, found {found}", self.fields))
            }
            _ => Ok((row[self.key], row[self.value])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(key: &str, value: &str) -> Columns {
        Columns { key: key.parse().ok(), value: value.parse().ok(), header: false }
    }

    #[test]
    fn rows_have_two_fields_by_default() {
        let places = Columns::default().find(&[], "").unwrap();
        assert_eq!(places.pick(&[b"a", b"1"]), Ok((&b"a"[..], &b"1"[..])));
        assert_eq!(places.pick(&[b"a"]), Err("expected 2 fields, found 1".to_owned()));
        assert_eq!(places.pick(&[b"a", b"b", b"c"]), Err("expected 2 fields, found 3".to_owned()));
    }

    #[test]
    fn columns_are_found_by_number_and_by_name() {
        let places = columns("3", "1").find(&[], "").unwrap();
        assert_eq!(places.pick(&[b"a", b"b", b"c", b"d"]), Ok((&b"c"[..], &b"a"[..])));
        assert!(places.pick(&[b"a", b"b"]).unwrap_err().contains("at least 3 fields, found 2"));
        let named = columns("sku", "price");
        assert!(named.has_header());
        let places = named.find(&[b"price", b"sku"], "").unwrap();
        assert_eq!(places.pick(&[b"3", b"apple"]), Ok((&b"apple"[..], &b"3"[..])));
        assert!(named.places(&[b"a", b"price"]).unwrap_err().contains("which has: a, price"));
        assert!("0".parse::<Column>().is_err());
    }
}
