//! NUL-separated pairs: key, NUL, value, NUL. Nothing is escaped, so keys and values cannot contain
//! NUL bytes.

use super::{Flaw, Pair, ReadPairs, WritePairs, unfit};
use commonhold_terminal::text::shown;
use std::io::{BufRead, Write};

/// Reads NUL-separated pairs.
pub struct Reader<R> {
    input: R,
    pairs: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`; there are no columns to choose.
    pub fn new(input: R, _columns: ()) -> Self {
        Reader { input, pairs: 0 }
    }

    /// Reads up to the next NUL; false at the end of the file.
    fn field(&mut self, field: &mut Vec<u8>, what: &str) -> std::result::Result<bool, Flaw> {
        field.clear();
        if self.input.read_until(0, field)? == 0 {
            return Ok(false);
        }
        if field.pop() != Some(0) {
            return Err(Flaw::Record(format!("the {what} does not end with a NUL")));
        }
        Ok(true)
    }
}

impl<R: BufRead> ReadPairs for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> std::result::Result<bool, Flaw> {
        self.pairs += 1;
        if !self.field(&mut pair.key, "key")? {
            return Ok(false);
        }
        if !self.field(&mut pair.value, "value")? {
            return Err(Flaw::Record(format!("key '{}' has no value", shown(&pair.key))));
        }
        Ok(true)
    }

    fn line(&self) -> u64 {
        self.pairs
    }
}

/// Writes NUL-separated pairs.
pub struct Writer;

fn put(out: &mut dyn Write, field: &[u8], key: &[u8]) -> std::io::Result<()> {
    if field.contains(&0) {
        let which = if std::ptr::eq(field, key) { "key" } else { "the value of key" };
        return Err(unfit(format!(
            "{which} '{}' contains a NUL, which separates fields here; use --format json or tsv",
            shown(key)
        )));
    }
    out.write_all(field)?;
    out.write_all(b"\0")
}

impl WritePairs for Writer {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        put(out, key, key)?;
        put(out, value, key)
    }

    fn write_key(&mut self, out: &mut dyn Write, key: &[u8]) -> std::io::Result<()> {
        put(out, key, key)
    }
}
