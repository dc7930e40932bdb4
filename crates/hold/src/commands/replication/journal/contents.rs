//! `hold journal verify`: reads the files of a journal to their ends.

use commonhold_replicate::journal::{
    Hole, InspectedFile, JournalContents, Timeline, inspect_all, shown_time,
};
use commonhold_terminal::failure::{NO, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold journal verify`.
pub const EXAMPLES: &str = "\
Examples:
  hold journal verify prices.journal                    # the file and its segments
  hold journal verify prices.journal.d                  # all segments in a directory
  hold journal verify shop.journals                     # all maps of 'hold journal run'
  hold journal verify prices.journal --archive /backup  # the file and the segments there
  hold journal verify prices.journal --format json

The command checks every frame of the files, and changes nothing. For each file, it prints the
times of the first and the last state that can be restored, and each damaged part: its range of
bytes in the file, and the positions of the changes that are lost. For each hole between two
files, it prints the times of the last state before the hole and of the first state after it. The
command needs no hold, and may run while a journal writes the file.

Exit codes:
  0     each file contains a whole map, without damage, and there are no holes
  1     a part of a file is damaged, a file ends before the map is complete, or there is a hole
  2, 3  error (see 'hold help')";

/// Options of `hold journal verify`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The journal file, a directory with segments, or the directory of 'hold journal run'
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,

    /// The directory with the segments of the file [default: FILE.d]
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
}

/// Verifies the files.
pub fn run(args: &Args, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("journal verify")?;
    let timeline = inspect_all(&args.file, args.archive.as_deref())?;
    output.report(&shown(&timeline), &text(&timeline))?;
    Ok(if timeline.is_sound() { ExitCode::SUCCESS } else { NO.into() })
}

fn shown(timeline: &Timeline) -> Value {
    let mut shown = json!(timeline);
    for (file, json) in
        timeline.files.iter().zip(shown["files"].as_array_mut().into_iter().flatten())
    {
        if let Some(contents) = &file.contents {
            json["contents"]["position"] = json!(contents.position.to_string());
        }
    }
    shown["is_sound"] = json!(timeline.is_sound());
    shown
}

fn text(timeline: &Timeline) -> String {
    let mut lines: Vec<_> = timeline.files.iter().flat_map(file_lines).collect();
    lines.extend(timeline.holes.iter().map(hole_line));
    lines.join("\n")
}

fn file_lines(file: &InspectedFile) -> Vec<String> {
    let path = file.file.display();
    match (&file.contents, &file.error) {
        (Some(contents), _) => {
            let mut lines = vec![format!("{path}: {}", summary(contents))];
            lines.extend(faults(contents).into_iter().map(|fault| format!("  {fault}")));
            lines
        }
        // It names the file.
        (None, error) => vec![format!("cannot be read: {}", error.as_deref().unwrap_or_default())],
    }
}

fn summary(contents: &JournalContents) -> String {
    let times = match contents.times {
        Some(span) => {
            format!("from {} to {}", shown_time(span.first_ms), shown_time(span.last_ms))
        }
        None => "no times".to_owned(),
    };
    format!(
        "map '{}' up to position {}: {}, {}; {times}",
        contents.map,
        contents.position,
        sizes::things(contents.pairs, "pair", "pairs"),
        sizes::things(contents.changes, "later change", "later changes")
    )
}

fn faults(contents: &JournalContents) -> Vec<String> {
    let mut lines: Vec<_> = contents.damage.iter().map(|part| format!("damaged: {part}")).collect();
    if !contents.is_whole {
        lines.push("incomplete: the file ends before the map is complete".to_owned());
    }
    if contents.cut_off_bytes > 0 {
        let bytes = sizes::shown(contents.cut_off_bytes);
        lines.push(format!("{bytes} at the end were not durable"));
    }
    lines
}

fn hole_line(hole: &Hole) -> String {
    format!(
        "hole: no state between {} ({}) and {} ({})",
        shown_time(hole.from_ms),
        hole.after.display(),
        shown_time(hole.to_ms),
        hole.before.display()
    )
}
