//! `hold backup verify`: reads a backup to its end.

use crate::commands::shared::{answer, backup_stream};
use crate::report::table::Table;
use commonhold::hold::{BackupContents, BackupMap, backup_contents, backup_contents_from};
use commonhold_replicate::journal::shown_time;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, things};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold backup verify`.
pub const EXAMPLES: &str = "\
Examples:
  hold backup verify shop.backup
  hold backup verify shop.backup --format json
  zstdcat shop.backup.zst | hold backup verify -

The command checks every checksum, and changes nothing. It prints the maps in the backup with their
numbers of pairs, and lists each damaged part with its range of bytes. If the backup is damaged, the
numbers include only the parts that can be read. 'hold restore' accepts only an undamaged backup.

Exit codes:
  0     the backup is complete and undamaged
  1     the backup is damaged or truncated
  2, 3  error (see 'hold help'); for example, the file is not a backup";

/// Options of `hold backup verify`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The backup, a file created by 'hold backup'; '-' is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Verifies the backup.
pub fn run(args: &Args, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("backup verify")?;
    let contents = match args.file == Path::new("-") {
        true => backup_contents_from(backup_stream::input()?)?,
        false => backup_contents(&args.file)?,
    };
    let is_sound = contents.damage.is_empty();
    let name = args.file.to_string_lossy();
    output.report(&json_of(&name, &contents), &text_of(&name, &contents))?;
    Ok(answer(is_sound))
}

fn json_of(file: &str, contents: &BackupContents) -> Value {
    let map = |map: &BackupMap| json!({ "name": map.name, "pairs": map.pairs });
    json!({
        "file": file,
        "is_sound": contents.damage.is_empty(),
        "damage": contents.damage,
        "made_ms": contents.made_ms,
        "maps": contents.maps.iter().map(map).collect::<Vec<_>>(),
        "pairs": contents.pairs,
        "bytes": contents.bytes,
    })
}

fn text_of(file: &str, contents: &BackupContents) -> String {
    let name = if file == "-" { "standard input" } else { file };
    let made = contents.made_ms.map(|ms| format!(", made at {}", shown_time(ms)));
    let mut lines = vec![format!(
        "{name}: {}; {} in {}, {}{}",
        if contents.damage.is_empty() { "complete and undamaged" } else { "DAMAGED" },
        things(contents.pairs, "pair", "pairs"),
        things(contents.maps.len() as u64, "map", "maps"),
        sizes::shown(contents.bytes),
        made.unwrap_or_default(),
    )];
    lines.extend(contents.damage.iter().map(|what| format!("damaged: {what}")));
    if !contents.maps.is_empty() {
        let mut table = Table::new(&["map", "pairs>"]);
        for map in &contents.maps {
            table.row([map.name.clone(), sizes::count(map.pairs)]);
        }
        lines.push(table.text());
    }
    lines.join("\n")
}
