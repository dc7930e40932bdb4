//! The front end of the crate `log`.

use crate::log::handle::Log;
use crate::log::options::LogLevel;
use ::log::{Level, Log as Logger, Metadata, Record};

/// A [`Log`] as the logger of the crate `log`: its macros then write into the hold. Each line is
/// the record's target, a colon, and its text.
///
/// A line that cannot be written (the handle was closed, the ring is full) is dropped.
/// `log::set_max_level` decides which levels the crate lets through.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-facade-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, log::{LogFacade, LogOptions}};
///
/// let hold = Hold::open_or_create(&path)?;
/// let events = hold.logs().open_or_create("events", LogOptions::new())?;
/// log::set_boxed_logger(Box::new(LogFacade::new(events.clone()))).unwrap();
/// log::set_max_level(log::LevelFilter::Info);
/// log::info!("{} crates of apples", 12);
/// assert!(events.dump()?.iter().any(|line| line.text.ends_with(b": 12 crates of apples")));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogFacade(Log);

impl LogFacade {
    /// A logger that writes into this log.
    pub fn new(log: Log) -> LogFacade {
        LogFacade(log)
    }
}

fn level(of: Level) -> LogLevel {
    match of {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug => LogLevel::Debug,
        Level::Trace => LogLevel::Trace,
    }
}

impl Logger for LogFacade {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(level(metadata.level()))
    }

    fn log(&self, record: &Record<'_>) {
        let (target, text) = (record.target(), record.args());
        let _ = self.0.print(level(record.level()), format_args!("{target}: {text}"));
    }

    /// Does nothing: accepted lines are in the hold already.
    fn flush(&self) {}
}
