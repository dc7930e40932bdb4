//! `hold watch`: prints the changes of a map as they happen.

use crate::commands::shared::receive_loop::ReceiveLoop;
use crate::target::{Directory, MapName};
use commonhold::map::{Iter, Map};
use commonhold::stream::{ChangeKind, Follower, StreamFrame, StreamPosition};
use commonhold::{ErrorKind, Hold};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::{Output, Sink};
use commonhold_terminal::sizes;
use serde_json::{Value, json};
use std::io::Stdout;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The most changes of other keys that are skipped in a row.
const MOST_PASSED_OVER: u32 = 10_000;

/// Examples of `hold watch`.
pub const EXAMPLES: &str = "\
Examples:
  hold watch shop prices                       # from now on, until Ctrl-C
  hold watch shop prices --all                 # existing pairs, then changes
  hold watch shop prices --prefix app --count 1 --timeout 10s || echo 'nothing changed'
  hold watch shop prices --positions           # also the position at which to resume
  hold watch shop prices --from 53c6a9f1e08b7d24.4096
  hold watch shop prices --format json         # {\"change\":\"set\",\"key\":\"apple\",\"value\":\"4\",...}

Each line has the kind of change (set, delete, expire, evict, clear), the key and the new
value, separated by tabs. Backslash escapes stand for control characters and for bytes that
are not UTF-8. Each change is printed once, and changes to the same key are printed in order.
With --all, a change that is made while existing pairs are being printed may appear twice:
once as part of an existing pair, and once as a change. 'gap' stands for a change that is
larger than a quarter of the stream; read the map again to see its effect.

The first 'hold watch' on a map creates the map's stream, which keeps the latest changes for a
later --from. The stream remains afterwards, and makes each change a little slower. Writers never
wait for 'hold watch'. If 'hold watch' needs a change that the stream no longer contains, it exits
with code 3.

Exit codes:
  0     the requested number of changes arrived (without --count, at least one)
  1     timed out before that
  2, 3  error (see 'hold help')
  130   stopped by a signal before the requested number arrived

Without --count, a signal stops the command with exit code 0.";

/// Options of `hold watch`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Print all existing pairs first, as if they had just been set
    #[arg(long, conflicts_with = "from")]
    all: bool,

    /// Begin at a position that an earlier 'hold watch' printed
    #[arg(long, value_name = "POSITION")]
    from: Option<StreamPosition>,

    /// Print only changes to keys that begin with PREFIX
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,

    /// Before each change, print the position that --from needs to resume after that change; JSON
    /// always contains the position
    #[arg(long)]
    positions: bool,

    /// Exit after N changes
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,

    /// Exit when nothing has changed for this long (0: as soon as all changes are printed)
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    timeout: Option<Duration>,

    /// Size of the map's stream; without this option, an existing stream keeps its size, and a new
    /// one is 64M
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "0")]
    #[arg(hide_default_value = true, conflicts_with = "from")]
    stream_size: u64,
}

/// Follows and prints.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("watch")?;
    let map = open(args, directory)?;
    let follower = match args.from {
        Some(position) => map.follow_from(position)?,
        None => map.follow()?,
    };
    let prefix = args.prefix.as_deref().unwrap_or_default().as_bytes();
    let pairs = args.all.then(|| map.iter());
    let mut changes = Changes { follower, pairs, prefix };
    let flow = ReceiveLoop { count: args.count, patience: args.timeout };
    let mut sink = Sink::stdout();
    let code = flow.run(
        &mut sink,
        |time| changes.next(time),
        |sink, change| show(sink, &change, args.positions, &output),
    )?;
    if !output.is_quiet() && !output.is_json() {
        note(&format!("hold watch: resume with '--from {}'", changes.follower.position()));
    }
    Ok(code)
}

/// The map, which has a stream from then on. A process with read permission only can watch a map
/// that has one.
fn open(args: &Args, directory: &Directory) -> Result<Map> {
    let refused =
        |e: &commonhold::Error| matches!(e.kind(), ErrorKind::Permission | ErrorKind::ReadOnly);
    let path = directory.resolve(&args.name.hold)?;
    let hold: Hold = match directory.options().open(&path) {
        Err(error) if refused(&error) => return directory.map_to_read(&args.name),
        hold => hold?,
    };
    if args.from.is_none() {
        hold.maps().begin_stream(&args.name.map, args.stream_size)?;
    }
    Ok(hold.maps().open(&args.name.map)?)
}

/// The output.
struct Change {
    kind: ChangeKind,
    key: Vec<u8>,
    value: Vec<u8>,
    expires_ms: u64,
    /// Behind it.
    position: StreamPosition,
}

/// The existing pairs, then the changes.
struct Changes<'a> {
    follower: Follower,
    pairs: Option<Iter>,
    prefix: &'a [u8],
}

impl Changes<'_> {
    /// The next requested change, with a wait of at most `time`. Sometimes `None` although there is
    /// one, so that earlier ones can be printed.
    fn next(&mut self, time: Duration) -> Result<Option<Change>> {
        let end = Instant::now() + time;
        for _ in 0..MOST_PASSED_OVER {
            let left = end.saturating_duration_since(Instant::now());
            let Some(change) = self.any(left)? else { return Ok(None) };
            if change.kind == ChangeKind::Gap || change.key.starts_with(self.prefix) {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    fn any(&mut self, time: Duration) -> Result<Option<Change>> {
        if let Some(pair) = self.pairs.as_mut().and_then(Iterator::next) {
            let (key, value) = pair?;
            let position = self.follower.position();
            return Ok(Some(Change { kind: ChangeKind::Set, key, value, expires_ms: 0, position }));
        }
        self.pairs = None;
        let stream = self.follower.position().stream;
        let frame = match time.is_zero() {
            true => self.follower.try_recv(),
            false => self.follower.recv_timeout(time),
        };
        let frame = frame.map_err(|error| match error.kind() {
            ErrorKind::Lapped => Failure::failed(format!(
                "{error}: use 'hold watch --all', perhaps with a larger --stream-size"
            )),
            _ => Failure::failed(error),
        })?;
        Ok(frame.map(|frame| Change::of(&frame, stream)))
    }
}

impl Change {
    fn of(frame: &StreamFrame<'_>, stream: u64) -> Change {
        Change {
            kind: frame.kind,
            key: frame.key.to_vec(),
            value: frame.value.to_vec(),
            expires_ms: frame.expires_ms,
            position: StreamPosition { stream, offset: frame.end },
        }
    }
}

fn name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Set => "set",
        ChangeKind::Delete => "delete",
        ChangeKind::Expire => "expire",
        ChangeKind::Evict => "evict",
        ChangeKind::Clear => "clear",
        _ => "gap",
    }
}

fn show(sink: &mut Sink<Stdout>, change: &Change, positions: bool, output: &Output) -> Result<()> {
    sink.put(|out| match output.is_json() {
        true => writeln!(out, "{}", as_json(change)),
        false => {
            let position = if positions { format!("{}\t", change.position) } else { String::new() };
            write!(out, "{position}{}", name(change.kind))?;
            if change.kind != ChangeKind::Gap {
                write!(out, "\t{}", bytes::escaped(&change.key))?;
            }
            if change.kind == ChangeKind::Set {
                write!(out, "\t{}", bytes::escaped(&change.value))?;
            }
            writeln!(out)
        }
    })
}

fn as_json(change: &Change) -> Value {
    let mut shown = json!({ "change": name(change.kind), "position": change.position.to_string() });
    if change.kind != ChangeKind::Gap {
        shown["key"] = bytes::json(&change.key);
    }
    if change.kind == ChangeKind::Set {
        shown["value"] = bytes::json(&change.value);
    }
    if change.expires_ms != 0 {
        shown["expires_ms"] = change.expires_ms.into();
    }
    shown
}
