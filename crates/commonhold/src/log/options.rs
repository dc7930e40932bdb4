//! Options of a log, levels, and the result of writing a line.

use std::fmt;

/// How a full ring treats a new line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Overflow {
    /// The new line is dropped and counted: the first lines are kept until they are collected.
    Drop,
    /// The oldest lines are overwritten, and counted if they were not collected: the last lines are
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

/// The importance of a line, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[repr(u32)]
pub enum LogLevel {
    /// A failure.
    Error = 1,
    /// Something odd.
    Warn = 2,
    /// Information for users.
    Info = 3,
    /// Details for finding faults.
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

    /// The level of this code; for a damaged code the nearest one.
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

/// The result of writing a line. None of these is an error: a log must not stop its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full ring drops lines"]
pub enum Written {
    /// The line is in the hold, and survives its writer's death.
    Accepted,
    /// The log does not accept the line's level.
    Filtered,
    /// The ring was full, no ring was free, or a forked child could not begin to use the log,
    /// because the hold was frozen; the loss is counted.
    Dropped,
}

/// Options of a log, fixed when it is created. Only `direct` belongs to the handle, not to the log.
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

    /// The number of threads, in all processes, that can write, 1 to 4096. A ring becomes free when
    /// its thread has ended. A signal handler that interrupts another line needs a free ring for a
    /// moment, so configure a few more than necessary.
    pub fn rings(mut self, rings: u32) -> LogOptions {
        self.rings = rings;
        self
    }

    /// Bytes of each ring, 4 KiB to 1 GiB, rounded up to a power of two. All rings are allocated
    /// when the log is created. The longest line is a quarter of the ring less 64 bytes, and at
    /// most 16 MiB less 64 bytes.
    pub fn ring_bytes(mut self, bytes: u64) -> LogOptions {
        // A number that is too large stays unchanged, and the check refuses it.
        self.ring_bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        self
    }

    /// Sets how a full ring treats a new line.
    pub fn overflow(mut self, overflow: Overflow) -> LogOptions {
        self.overflow = overflow;
        self
    }

    /// The least important level that the log accepts at first;
    /// [`Log::set_level`](crate::log::Log::set_level) changes it for all handles.
    pub fn level(mut self, level: LogLevel) -> LogOptions {
        self.level = level;
        self
    }

    /// While no collector runs, this handle also writes each accepted line to standard error at
    /// once, so that the first lines of a program are visible before a collector starts. Costs a
    /// system call per line.
    pub fn direct(mut self, yes: bool) -> LogOptions {
        self.direct = yes;
        self
    }
}

/// Writes one formatted line, `log_line!(log, Info, "{} crates", 12)`. It evaluates nothing if the
/// log does not accept the level. Returns the result of [`Log::print`](crate::log::Log::print).
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
