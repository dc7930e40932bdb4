//! Options of a log, levels, and what became of a line.

use std::fmt;

/// What a full ring does with a new line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Overflow {
    /// The new line is dropped, and counted: what was logged first is kept until it is collected.
    Drop,
    /// The oldest lines are overwritten, and counted if nobody collected them: the last lines are
    /// kept.
    Overwrite,
}

impl Overflow {
    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    pub(crate) fn from_code(code: u32) -> Option<Overflow> {
        [Overflow::Drop, Overflow::Overwrite].into_iter().find(|o| o.code() == code)
    }
}

/// How much a line matters, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[repr(u32)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something is odd.
    Warn = 2,
    /// What people want to know.
    Info = 3,
    /// What who looks for a fault wants to know.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

impl LogLevel {
    /// All levels, the most important first.
    pub const ALL: [LogLevel; 5] =
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    #[inline]
    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    /// The level of this code, the nearest one for damage.
    pub(crate) fn from_code(code: u32) -> LogLevel {
        LogLevel::ALL[(code.clamp(1, 5) - 1) as usize]
    }

    /// Its name: `error`, `warn`, `info`, `debug`, `trace`.
    pub fn name(self) -> &'static str {
        ["error", "warn", "info", "debug", "trace"][self as usize - 1]
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for LogLevel {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<LogLevel, Self::Err> {
        LogLevel::ALL
            .into_iter()
            .find(|level| level.name() == text.to_ascii_lowercase())
            .ok_or_else(|| {
                let text = format!(
                    "expected the log level error, warn, info, debug or trace, got '{text}'"
                );
                crate::error::Error::new(crate::error::ErrorKind::Invalid, text)
            })
    }
}

/// What became of a line that was written. None of these is an error: a log must not stop its
/// writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full ring drops lines"]
pub enum Written {
    /// It is in the hold, whatever happens to the writer.
    Accepted,
    /// Its level is not wanted.
    Filtered,
    /// The ring was full, or no ring was free; it was counted.
    Dropped,
}

/// How a log is made. Rings and overflow are the log's; `direct` is the handle's own.
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub(crate) rings: u32,
    pub(crate) ring_bytes: u64,
    pub(crate) overflow: Overflow,
    pub(crate) level: LogLevel,
    pub(crate) direct: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            rings: 64,
            ring_bytes: 256 << 10,
            overflow: Overflow::Drop,
            level: LogLevel::Info,
            direct: false,
        }
    }
}

impl LogOptions {
    /// 64 rings of 256 KiB that drop new lines when they are full; level info.
    pub fn new() -> LogOptions {
        LogOptions::default()
    }

    /// How many threads of all processes can write, 1 to 4096; a ring is free again when its thread
    /// has ended. A line of a signal handler that interrupts another line needs a free ring for a
    /// moment, so have some to spare.
    pub fn rings(mut self, rings: u32) -> LogOptions {
        self.rings = rings;
        self
    }

    /// Bytes of each ring, rounded up to a power of two, 4 KiB to 1 GiB. All rings are allocated
    /// when the log is made. The longest line is a quarter of it less 64 bytes, and never more than
    /// 16 MiB less that.
    pub fn ring_bytes(mut self, bytes: u64) -> LogOptions {
        // Too large a number stays what it is, and is refused.
        self.ring_bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        self
    }

    /// What a full ring does.
    pub fn overflow(mut self, overflow: Overflow) -> LogOptions {
        self.overflow = overflow;
        self
    }

    /// Lines less important than this are not accepted, at first;
    /// [`Log::set_level`](crate::log::Log::set_level) changes it for all.
    pub fn level(mut self, level: LogLevel) -> LogOptions {
        self.level = level;
        self
    }

    /// As long as nobody collects, this handle also writes each accepted line to standard error at
    /// once: the first lines of a program are seen before a collector is there. Costs a system call
    /// per line.
    pub fn direct(mut self, yes: bool) -> LogOptions {
        self.direct = yes;
        self
    }
}

/// Writes one formatted line, `log_line!(log, Info, "{} crates", 12)`, and evaluates nothing if the
/// level is not wanted. Gives what [`Log::print`](crate::log::Log::print) gives.
#[macro_export]
macro_rules! log_line {
    ($log:expr, $level:ident, $($text:tt)+) => {{
        let log: &$crate::log::Log = &$log;
        if log.enabled($crate::log::LogLevel::$level) {
            log.print($crate::log::LogLevel::$level, format_args!($($text)+))
        } else {
            Ok($crate::log::Written::Filtered)
        }
    }};
}
