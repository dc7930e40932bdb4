//! `hold batch`: many operations on a map in one process, one per line, with one result per line.
//!
//! A program in any language can keep it running as its client of the map: results are written
//! when no further operation has arrived yet.

use crate::commands::shared::answer;
use crate::making::Making;
use crate::target::{Directory, Hex, MapName};
use commonhold::map::Map;
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::{Output, Sink};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, IsTerminal, stdin};
use std::process::ExitCode;

/// Examples of `hold batch`.
pub const EXAMPLES: &str = "\
Examples:
  printf '%s\\n' 'set apple 3' 'get apple' | hold batch shop prices
  hold batch shop prices < operations.txt
  hold batch shop prices --format json          # one JSON result per line

Operations:
  set KEY VALUE           stores the value
  add KEY VALUE           stores the value if the key is absent
  replace KEY VALUE       stores the value if the key is present
  get KEY                 prints the value
  del KEY                 deletes the key
  incr KEY [BY]           adds to a counter and prints the result
  len                     prints the number of pairs

Quotes and backslashes work as in a shell: set 'two words' \"a b\". Empty lines, and lines that begin
with '#', are skipped.

Results, one line for each operation:
  ok                      done
  none                    the key is absent, or the condition is false
  = VALUE                 the value, with backslash escapes (\\n \\t \\\\ \\xHH)
  error TEXT              the operation failed; the next ones are still executed

Exit codes:
  0     no operation failed
  1     some failed
  2, 3  error (see 'hold help')";

/// Options of `hold batch`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    making: Making,
}

/// The result of one operation.
enum Answer {
    Done,
    None,
    Bytes(Vec<u8>),
    Number(i64),
    Failed(String),
}

/// Executes the operations.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("batch")?;
    let map = match args.making.find(directory, &args.name)? {
        Some(map) => map,
        None => args.making.make(directory, &args.name)?,
    };
    if stdin().is_terminal() && !output.is_quiet() {
        note("reading operations from the terminal, one per line; Ctrl-D ends the input");
    }
    let mut input = BufReader::with_capacity(1 << 16, stdin());
    let mut sink = Sink::stdout();
    let (mut line, mut all_well) = (Vec::new(), true);
    loop {
        line.clear();
        if input.buffer().is_empty() {
            sink.flush()?;
        }
        let read = input.read_until(b'\n', &mut line);
        if read.map_err(|e| Failure::failed(format!("standard input: {e}")))? == 0 {
            break;
        }
        let Some(answer) = args.answer(&map, line.trim_ascii()) else { continue };
        all_well &= !matches!(answer, Answer::Failed(_));
        let text = answer.line(output.is_json(), args.hex);
        sink.put(|out| writeln!(out, "{text}"))?;
    }
    sink.finish()?;
    Ok(answer(all_well))
}

impl Args {
    /// The result of a line; `None` if there is no operation in it.
    fn answer(&self, map: &Map, line: &[u8]) -> Option<Answer> {
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let words = shlex::bytes::split(line);
        let done = words.ok_or_else(|| "a quote is not closed".to_owned());
        Some(done.and_then(|words| self.execute(map, &words)).unwrap_or_else(Answer::Failed))
    }

    fn execute(&self, map: &Map, words: &[Vec<u8>]) -> std::result::Result<Answer, String> {
        let Some((operation, arguments)) = words.split_first() else {
            return Err("expected an operation".to_owned());
        };
        let bytes = |word: &Vec<u8>| match self.hex.hex {
            true => bytes::from_hex(word),
            false => Ok(word.clone()),
        };
        let arguments: Vec<Vec<u8>> =
            arguments.iter().map(bytes).collect::<std::result::Result<_, _>>()?;
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let failed = |error: commonhold::Error| error.to_string();
        let done = |is: bool| if is { Answer::Done } else { Answer::None };
        Ok(match (&operation[..], &arguments[..]) {
            (b"set", [key, value]) => map.set(key, value).map(|_| Answer::Done).map_err(failed)?,
            (b"add", [key, value]) => done(map.add(key, value).map_err(failed)?.is_some()),
            (b"replace", [key, value]) => done(map.replace(key, value).map_err(failed)?.is_some()),
            (b"get", [key]) => map.get(key).map_err(failed)?.map_or(Answer::None, Answer::Bytes),
            (b"del", [key]) => done(map.delete(key).map_err(failed)?),
            (b"incr", [key]) => Answer::Number(map.increment(key, 1).map_err(failed)?),
            (b"incr", [key, by]) => {
                Answer::Number(map.increment(key, number(by)?).map_err(failed)?)
            }
            (b"len", []) => Answer::Number(map.len().map_err(failed)? as i64),
            (operation, _) => return Err(unknown(operation)),
        })
    }
}

fn number(word: &[u8]) -> std::result::Result<i64, String> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("expected a 64-bit integer, got '{}'", bytes::escaped(word)))
}

fn unknown(operation: &[u8]) -> String {
    let expected = match operation {
        b"set" | b"add" | b"replace" => "KEY VALUE",
        b"get" | b"del" => "KEY",
        b"incr" => "KEY [BY]",
        b"len" => "no argument",
        _ => {
            return format!(
                "unknown operation '{}'; expected set, add, replace, get, del, incr or len",
                bytes::escaped(operation)
            );
        }
    };
    format!("'{}' expects {expected}", bytes::escaped(operation))
}

impl Answer {
    fn line(&self, is_json: bool, hex: Hex) -> String {
        if is_json {
            return self.json().to_string();
        }
        match self {
            Answer::Done => "ok".to_owned(),
            Answer::None => "none".to_owned(),
            Answer::Bytes(value) if hex.hex => format!("= {}", bytes::hex(value)),
            Answer::Bytes(value) => format!("= {}", bytes::escaped(value)),
            Answer::Number(number) => format!("= {number}"),
            Answer::Failed(text) => format!("error {}", bytes::escaped(text.as_bytes())),
        }
    }

    fn json(&self) -> Value {
        match self {
            Answer::Done => json!({ "ok": true }),
            Answer::None => json!({ "ok": false }),
            Answer::Bytes(value) => json!({ "ok": true, "value": bytes::json(value) }),
            Answer::Number(number) => json!({ "ok": true, "value": number }),
            Answer::Failed(text) => json!({ "error": text }),
        }
    }
}
