//! The character that separates the fields of a line, and a hint if a file seems to use another
//! one.

use commonhold_terminal::text::shown;

/// The character that separates fields, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(pub u8);

/// The delimiters that have names. The hint considers these and the vertical bar.
const NAMED: [(u8, &str); 3] = [(b'\t', "tab"), (b',', "comma"), (b';', "semicolon")];
const USUAL: [u8; 4] = [b',', b';', b'\t', b'|'];

impl Delimiter {
    /// The delimiter of CSV.
    pub const COMMA: Delimiter = Delimiter(b',');
    /// The delimiter of TSV.
    pub const TAB: Delimiter = Delimiter(b'\t');

    /// Its name, or the character itself in quotes.
    fn name(self) -> String {
        match NAMED.iter().find(|(byte, _)| *byte == self.0) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("'{}'", shown(&[self.0])),
        }
    }

    /// A hint at another delimiter, if the first line of a file is a single field that contains
    /// another common delimiter; otherwise empty.
    pub fn hint(self, first: &[&[u8]]) -> String {
        let [line] = first else { return String::new() };
        let count = |byte: u8| line.iter().filter(|b| **b == byte).count();
        let most = USUAL.into_iter().filter(|byte| *byte != self.0).max_by_key(|byte| count(*byte));
        let Some(other) = most.filter(|byte| count(*byte) > 0).map(Delimiter) else {
            return String::new();
        };
        let (this, name) = (self.name(), other.name());
        let csv = match (self, other) {
            (Delimiter::TAB, Delimiter::COMMA) => ", or --format csv if there are quoted fields",
            _ => "",
        };
        format!(
            " (the first line contains a {name}, but no {this}; if a {name} separates the fields, \
             add --delimiter {name}{csv})"
        )
    }
}

impl std::str::FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Delimiter, String> {
        if let Some((byte, _)) = NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(Delimiter(*byte));
        }
        match text.as_bytes() {
            b"\\t" => Ok(Delimiter::TAB),
            [byte @ (b'"' | b'\\' | b'\n' | b'\r' | 0)] => Err(format!(
                "'{}' has a special meaning in csv or tsv, so it cannot separate fields",
                shown(&[*byte])
            )),
            [byte] if byte.is_ascii() => Ok(Delimiter(*byte)),
            _ => Err("expected one ASCII character, or tab, comma or semicolon".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delimiter_is_one_character_or_a_name() {
        let of = |text: &str| text.parse::<Delimiter>().map(|delimiter| delimiter.0);
        for (text, byte) in [("tab", b'\t'), ("\\t", b'\t'), ("\t", b'\t'), ("comma", b',')] {
            assert_eq!(of(text), Ok(byte), "{text}");
        }
        assert_eq!([of("semicolon"), of(";"), of("|")], [Ok(b';'), Ok(b';'), Ok(b'|')]);
        for text in ["", "\"", "\\", "\n", "ä", ";;", "colon"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_line_shows_another_delimiter() {
        let hint = |line: &[u8]| Delimiter::COMMA.hint(&[line]);
        assert!(hint(b"a;1|2;3").contains("a semicolon, but no comma;"));
        assert!(hint(b"a;1|2;3").ends_with("--delimiter semicolon)"));
        assert!(hint(b"a|1").ends_with("--delimiter '|')"));
        assert_eq!([hint(b"a"), Delimiter::COMMA.hint(&[b"a;b", b"1"])], ["", ""]);
        assert!(Delimiter::TAB.hint(&[b"a,1"]).contains("--delimiter comma, or --format csv"));
    }
}
