//! The front end of the crate `tracing`.

use crate::log::handle::Log;
use crate::log::options::LogLevel;
use std::fmt::{self, Write};
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// A [`Log`] as a layer of `tracing-subscriber`: events are then written into the hold. Each line
/// is the event's target, a colon, its message, and its other fields as `name=value`. Spans are
/// left out.
///
/// A line that cannot be written (the handle was closed, the ring is full) is dropped.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-layer-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, log::{LogLayer, LogOptions}};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let hold = Hold::open_or_create(&path)?;
/// let events = hold.logs().open_or_create("events", LogOptions::new())?;
/// let subscriber = tracing_subscriber::registry().with(LogLayer::new(events.clone()));
/// tracing::subscriber::with_default(subscriber, || tracing::info!(crates = 12, "apples came"));
/// assert!(events.dump()?.iter().any(|line| line.text.ends_with(b": apples came crates=12")));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogLayer(Log);

impl LogLayer {
    /// A layer that writes into this log.
    pub fn new(log: Log) -> LogLayer {
        LogLayer(log)
    }
}

fn level(of: &Level) -> LogLevel {
    match *of {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        _ => LogLevel::Trace,
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata: &Metadata<'_> = event.metadata();
        let level = level(metadata.level());
        // Here and not in `enabled`, which would decide for the other layers, too.
        if self.0.enabled(level) {
            let _ = self.0.print(level, format_args!("{}:{}", metadata.target(), Fields(event)));
        }
    }
}

/// The message, then the other fields.
struct Fields<'a>(&'a Event<'a>);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in [true, false] {
            let mut show = Show { out: f, message, result: Ok(()) };
            self.0.record(&mut show);
            show.result?;
        }
        Ok(())
    }
}

struct Show<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    message: bool,
    result: fmt::Result,
}

impl Visit for Show<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let is_message = field.name() == "message";
        if is_message != self.message || self.result.is_err() {
            return;
        }
        self.result = match is_message {
            true => write!(self.out, " {value:?}"),
            false => self.out.write_char(' ').and_then(|()| write!(self.out, "{field}={value:?}")),
        };
    }
}
