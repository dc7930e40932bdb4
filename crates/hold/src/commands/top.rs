//! `hold top`: a live view of a hold in the terminal, or the view once as text or JSON.

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
/// The time to restore the terminal after a signal. Without this limit, a terminal that is gone, or
/// that no process reads, would keep this process running.
const GRACE: Duration = Duration::from_secs(2);

/// Examples of `hold top`.
pub const EXAMPLES: &str = "\
Examples:
  hold top shop                                 # until 'q' or Ctrl-C
  hold top shop --interval 250ms
  hold top                                      # the only hold with a bare name
  hold top shop --once                          # the view once, as text, after one interval
  hold top shop --once --format json | jq '.maps[] | {name, pairs, stream}'

Keys: 'q' quits; 'p' pauses or resumes; the arrow keys, Page Up and Page Down scroll; 's' changes
the sort order (by name, by rate or by size).

Rates are computed from two successive readings. A dash stands for an unknown number: at the first
reading, for a map without a stream, for a counter that began again, or for changes that the stream
has already overwritten. The command counts the changes in the map's stream, which an origin, a
journal or 'hold watch' creates. The hits and misses of a cache are totals without a rate, because
each process adds its own only when it closes the map or requests its statistics. Origins and
replicas report once a second.

A suspended process (SIGSTOP, Ctrl-Z, a debugger) keeps its locks, and processes that need them
wait. The view names these locks. If a process is not visible, for example because it is in another
container, its state is a dash.

The command only reads the hold, so it needs only read permission.

Exit codes:
  0     a key or a signal ended the live view, or the view was printed
  2, 3  error (see 'hold help'); for example, the hold was deleted
  130   with --once: stopped by a signal before the interval was over";

/// Options of `hold top`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name, or a path [default: the only hold with a bare name]
    #[arg(value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// Time between two updates, at least 100ms. In very large holds, the live view is updated less
    /// often, so that reading takes at most a twentieth of the time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Print the view once, as text or (with '--format json') as JSON, and exit. The command waits
    /// for one interval first, so that it can compute rates
    #[arg(long)]
    once: bool,

    /// Include Commonhold's own structures, whose names begin with a dot
    #[arg(long, short)]
    all: bool,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match sizes::wait(text)? {
        short if short < LEAST => Err(format!("expected at least 100ms, got {text}")),
        interval => Ok(interval),
    }
}

/// Shows the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("top")?;
    if !args.once {
        if output.is_json() {
            return Err(Failure::usage("the live view cannot be JSON; use 'hold top --once'"));
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
        [] => Err(Failure::failed("found no hold with a bare name; give a name or a path")),
        many => {
            let names: Vec<_> = many.iter().map(|hold| hold.name.as_str()).collect();
            Err(Failure::failed(format!(
                "found several holds; give the name of one: {}",
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

/// Shows the hold until a key, a signal or the end of the terminal ends it.
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

/// Waits until the next look is due, a key is pressed, the screen is resized, or a signal arrives.
fn wait(watch: &mut Watch, service: &Service, due: Instant, keys: &Keys) {
    let left = match keys.is_paused {
        // The loop also checks whether the hold was deleted.
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
