//! JSON Lines: one object per line, `{"key": ..., "value": ...}`.
//!
//! Bytes are a string if they are UTF-8, else `{"base64": "..."}`. Files from other programs may
//! have any JSON value: numbers, lists and objects are stored as their JSON text, character by
//! character.

use super::lines::Lines;
use super::{Flaw, Pair, ReadPairs, WritePairs};
use commonhold_terminal::bytes::{from_base64, json};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::{BufRead, Write};

/// Reads pairs from JSON Lines.
pub struct Reader<R> {
    lines: Lines<R>,
    names: [String; 2],
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, taking the fields `names` as key and value.
    pub fn new(input: R, names: [String; 2]) -> Self {
        Reader { lines: Lines::new(input), names }
    }

    fn parse(&self, pair: &mut Pair) -> std::result::Result<(), String> {
        let object: HashMap<String, &RawValue> =
            serde_json::from_slice(self.lines.text().trim_ascii_end())
                .map_err(|e| self.not_an_object(&e))?;
        let field = |name: &String| {
            let field = object.get(name).ok_or_else(|| format!("no field '{name}'"))?;
            bytes_of(field).map_err(|what| format!("field '{name}': {what}"))
        };
        pair.key = field(&self.names[0])?;
        pair.value = field(&self.names[1])?;
        Ok(())
    }

    fn not_an_object(&self, error: &serde_json::Error) -> String {
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        let hint = match self.lines.text().trim_ascii() {
            [b'[', ..] => "; to convert a JSON array to JSON Lines, use: jq -c '.[]'",
            [b'{'] => "; an object must be on one line; to convert the file, use: jq -c .",
            _ => "",
        };
        format!("not a JSON object: column {}: {text}{hint}", error.column())
    }
}

/// The bytes that a JSON value stands for.
fn bytes_of(value: &RawValue) -> std::result::Result<Vec<u8>, String> {
    let text = value.get();
    let because = |e: serde_json::Error| e.to_string();
    if text.starts_with('"') {
        return serde_json::from_str::<String>(text).map(String::into_bytes).map_err(because);
    }
    if text == "null" {
        return Err("null is not a value; omit the line, or write \"\"".to_owned());
    }
    if text.starts_with('{') {
        let object: HashMap<String, &RawValue> = serde_json::from_str(text).map_err(because)?;
        if let (1, Some(digits)) = (object.len(), object.get("base64")) {
            let digits: String = serde_json::from_str(digits.get()).map_err(because)?;
            return from_base64(&digits);
        }
    }
    Ok(text.as_bytes().to_vec())
}

impl<R: BufRead> ReadPairs for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> std::result::Result<bool, Flaw> {
        // A blank line is no record.
        while self.lines.next()? {
            if !self.lines.text().trim_ascii().is_empty() {
                return self.parse(pair).map(|()| true).map_err(Flaw::Record);
            }
        }
        Ok(false)
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Writes JSON Lines.
pub struct Writer;

impl WritePairs for Writer {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        // Built by hand, so that the key comes first: maps of `serde_json` are sorted, objects of
        // `json!` would be built for every pair.
        let line = format!("{{\"key\":{},\"value\":{}}}\n", json(key), json(value));
        out.write_all(line.as_bytes())
    }

    fn write_key(&mut self, out: &mut dyn Write, key: &[u8]) -> std::io::Result<()> {
        let line = format!("{{\"key\":{}}}\n", json(key));
        out.write_all(line.as_bytes())
    }
}
