//! `hold queue create`: makes a queue, and the hold if it does not exist yet.

use crate::making::NewHold;
use crate::target::{Directory, StructureName};
use commonhold::hold::StructureKind;
use commonhold::queue::QueueOptions;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, shown, things};
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold queue create`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue create shop jobs
  hold queue create shop frames --elements 16 --element-bytes 8M --queues free,raw,done
  hold queue create shop tasks --orphans full   # the task of a killed process is repeated

All elements start in the first named queue. If the queue exists with the same options, it remains
unchanged. If it exists with different options, the command fails.

Exit codes:
  0     the queue was created, or already existed
  2, 3  error (see 'hold help')";

/// The most named queues of a queue.
const MOST_QUEUES: usize = 64;

/// Options of `hold queue create`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Number of elements
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=1 << 31))]
    elements: u32,

    /// Size of each element, which limits the length of a message
    #[arg(long, value_name = "SIZE", default_value = "1K", value_parser = element_bytes)]
    element_bytes: u32,

    /// The named queues; all elements start in the first
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "free,full")]
    #[arg(value_parser = queue_name)]
    queues: Vec<String>,

    /// The named queue for elements that were in flight in a killed process [default: the first]
    #[arg(long, value_name = "QUEUE")]
    orphans: Option<String>,

    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

fn element_bytes(text: &str) -> std::result::Result<u32, String> {
    match u32::try_from(sizes::bytes(text)?) {
        Ok(0) => Err("expected at least 1 byte".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("expected less than 4 GiB".to_owned()),
    }
}

fn queue_name(text: &str) -> std::result::Result<String, String> {
    match text.len() {
        1..=63 => Ok(text.to_owned()),
        bytes => Err(format!("expected a name of 1 to 63 bytes, got {bytes} bytes")),
    }
}

impl Args {
    /// Fails for names that a named queue cannot have.
    fn ensure_queues(&self) -> Result<()> {
        let queues = &self.queues;
        if queues.len() > MOST_QUEUES {
            return Err(Failure::usage(format!(
                "--queues: expected at most {MOST_QUEUES} named queues, got {}",
                queues.len()
            )));
        }
        if let Some(at) = (1..queues.len()).find(|at| queues[..*at].contains(&queues[*at])) {
            return Err(Failure::usage(format!(
                "--queues: expected different names, got the same name '{}' twice",
                queues[at]
            )));
        }
        match &self.orphans {
            Some(orphans) if !queues.contains(orphans) => Err(Failure::usage(format!(
                "--orphans '{orphans}' is not one of the named queues: {}",
                queues.join(", ")
            ))),
            _ => Ok(()),
        }
    }
}

/// Makes the queue.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("queue create")?;
    args.ensure_queues()?;
    let mut options = QueueOptions::new(args.elements, args.element_bytes).queues(&args.queues);
    if let Some(orphans) = &args.orphans {
        options = options.orphans(orphans);
    }
    let bytes = u64::from(args.elements) * u64::from(args.element_bytes);
    let hold = args.hold.open_or_create_for(directory, &args.name, StructureKind::Queue, bytes)?;
    let queue = hold.queues().open_or_create(&args.name.name, options)?;
    let stat = queue.stat()?;
    let json = json!({
        "name": stat.name,
        "elements": stat.elements,
        "element_bytes": stat.element_bytes,
        "queues": args.queues,
        "orphans": stat.orphans,
    });
    let text = format!(
        "queue {}: {} of {}, in queues {}",
        stat.name,
        things(stat.elements.into(), "element", "elements"),
        shown(stat.element_bytes.into()),
        args.queues.join(", ")
    );
    output.report(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
