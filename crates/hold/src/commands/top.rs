//! `hold top`: a live view of a hold in the terminal, or one look as text or JSON.

use super::replication::service::Service;
use crate::monitor::observer::SHARE;
use crate::target::Directory;
use crate::top::keys::Keys;
use crate::top::screen::{self, Theme};
use crate::top::terminal::{FullScreen, ensure_screen, has_colours};
use crate::top::text::text;
use crate::top::watch::Watch;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::{Output, is_terminal};
use commonhold_terminal::sizes;
use ratatui::crossterm::event::Event;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The shortest interval.
const LEAST: Duration = Duration::from_millis(100);
/// The time to restore the terminal after a signal. A terminal that is gone, or that nobody reads,
/// would keep the process running.
const GRACE: Duration = Duration::from_secs(2);

/// Examples of `hold top`.
pub const EXAMPLES: &str = "\
Examples:
  hold top shop                                 # until 'q' or Ctrl-C
  hold top shop --interval 250ms
  hold top                                      # the only hold with a bare name
  hold top shop --once                          # one look as text, after one interval
  hold top shop --once --format json | jq '.maps[] | {name, pairs, stream}'

Keys: 'q' quits, 'p' pauses, the arrow keys, Page Up and Page Down scroll, and 's' changes the
order: by name, by rate, or by size.

Rates are differences between two looks. A dash means that a number is not known: at the first
look, for a map without a stream, for a counter that began again, or for changes that the stream
has already overwritten. The number of changes comes from the stream of the map, so only maps with
an origin, a journal or 'hold watch' have it. Hits and misses of a cache are totals without a
rate, because each process adds its own only when it closes the map or asks for its statistics.
Origins and replicas report once a second.

A process that is stopped (SIGSTOP, Ctrl-Z, a debugger) keeps its locks, and others wait for it.
The view names these locks. It shows no state if the process is in another container.

The command only reads the hold, and read permission is enough.

Exit codes:
  0     ended by a key or a signal, or the look was printed
  2, 3  error (see 'hold help'), also if the hold is deleted meanwhile
  130   with --once: stopped by a signal before the interval was over";

/// Options of `hold top`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name, or a path [default: the only hold with a bare name]
    #[arg(value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// Time between two looks, at least 100ms. Longer in very large holds, so that looking takes
    /// at most a twentieth of the time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Print one look as text, or as JSON with '--format json', and exit. The look comes one
    /// interval after the start, so that it has rates
    #[arg(long)]
    once: bool,

    /// Include Commonhold's own structures, whose names begin with a dot
    #[arg(long, short)]
    all: bool,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match sizes::wait(text)? {
        short if short < LEAST => Err("expected a time of at least 100ms".into()),
        interval => Ok(interval),
    }
}

/// Shows the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("top")?;
    if !args.once {
        if output.is_json() {
            return Err(Failure::usage("the live view has no JSON: use 'hold top --once' for it"));
        }
        ensure_screen(is_terminal(), std::env::var_os("TERM").as_deref())?;
    }
    let name = args.hold.clone().map_or_else(|| only_hold(directory), Ok)?;
    let hold = directory.open_to_read(&name)?;
    let service = Service::begin_strictly(&hold, GRACE)?;
    let watch = Watch::new(hold, args.all);
    match args.once {
        true => once(watch, &service, args.interval, &output),
        false => live(watch, &service, args.interval),
    }
}

/// The name of the hold if there is only one.
fn only_hold(directory: &Directory) -> Result<PathBuf> {
    let holds = commonhold::hold::list(directory.path())?;
    match &holds[..] {
        [one] => Ok(one.name.clone().into()),
        [] => Err(Failure::failed("found no hold with a bare name: give a name or a path")),
        many => {
            let names: Vec<_> = many.iter().map(|hold| hold.name.as_str()).collect();
            Err(Failure::failed(format!(
                "expected the name of a hold, because there are several: {}",
                names.join(", ")
            )))
        }
    }
}

/// Prints one look, with the rates of one interval.
fn once(
    mut watch: Watch,
    service: &Service,
    interval: Duration,
    output: &Output,
) -> Result<ExitCode> {
    watch.look()?;
    watch.count_during(interval, |time| service.is_over_within(time));
    if service.is_over() {
        return Err(Failure::Interrupted);
    }
    service.ensure_hold()?;
    let view = watch.look()?;
    match output.is_json() {
        true => output.json(&serde_json::to_value(&view).map_err(Failure::failed)?)?,
        false => output.text(&text(&view))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the hold until a key or a signal ends it.
fn live(mut watch: Watch, service: &Service, interval: Duration) -> Result<ExitCode> {
    let theme = Theme { has_colours: has_colours(std::env::var_os("NO_COLOR").as_deref()) };
    let (mut keys, mut view, mut due) = (Keys::default(), None, Instant::now());
    let mut terminal = FullScreen::begin()?;
    while !keys.is_over && !service.is_over() {
        service.ensure_hold()?;
        if Instant::now() >= due && !(keys.is_paused && view.is_some()) {
            let began = Instant::now();
            view = Some(watch.look()?);
            due = Instant::now() + interval.max(began.elapsed() * SHARE);
        }
        let Some(view) = &view else { continue };
        terminal.draw(|frame| screen::draw(frame, view, &mut keys, interval, theme))?;
        wait(&mut watch, service, due, &keys);
        follow_events(&mut keys)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the time of the next look, a key, another size of the screen, or a signal.
fn wait(watch: &mut Watch, service: &Service, due: Instant, keys: &Keys) {
    let left = match keys.is_paused {
        // The hold may be deleted meanwhile.
        true => Duration::from_secs(1),
        false => due.saturating_duration_since(Instant::now()),
    };
    watch.count_during(left, |time| FullScreen::has_event(time) || service.is_over());
}

fn follow_events(keys: &mut Keys) -> Result<()> {
    while let Some(event) = FullScreen::event()? {
        if let Event::Key(key) = event {
            keys.press(key);
        }
    }
    Ok(())
}
