//! Making a call fail at a fault.
//!
//! Invariant: a fault replaces the call that follows it, and that call is then not made. The error
//! that the fault returns is therefore true of a call that has changed nothing.

use super::table::{ERRORS, FAULTS, SHORT};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock};

struct Armed {
    name: String,
    /// The number of the error, or [`SHORT`] for a short count.
    error: i32,
    always: bool,
    /// Passes that remain, the failing one included; 0 once it has failed.
    left: u64,
}

static ARMED: Mutex<Vec<Armed>> = Mutex::new(Vec::new());
/// False if nothing is armed: the only check in a process that is not a victim.
static ANY: AtomicBool = AtomicBool::new(false);
static FROM_ENVIRONMENT: Once = Once::new();
static OBSERVER: OnceLock<Box<dyn Fn(&'static str) + Send + Sync>> = OnceLock::new();

/// Calls `observer` with every fault that this process passes from now on. Only the first observer
/// is kept.
pub fn observe_faults(observer: impl Fn(&'static str) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

/// Arms faults of this process in place of those armed before: `name:ERROR:once` or
/// `name:ERROR:always`, optionally `:N` for the N-th passing, several separated by commas. An empty
/// text disarms.
///
/// # Errors
/// `Invalid` if the text is malformed, or names no fault or none of its errors.
pub fn arm_fault(spec: &str) -> Result<()> {
    arm_fault_of(FAULTS, spec)
}

/// The same with faults of another crate's table, and of the library's.
///
/// # Errors
/// As [`arm_fault`].
pub fn arm_fault_of(table: &[(&str, &[&str])], spec: &str) -> Result<()> {
    FROM_ENVIRONMENT.call_once(|| {});
    put(Vec::new());
    let malformed = |spec: &str| {
        let text = format!("fault '{spec}': expected NAME:ERROR:once|always[:N] from the table");
        Error::new(ErrorKind::Invalid, text)
    };
    let is_known = |name: &str, error: &str| {
        let mut all = table.iter().chain(FAULTS);
        all.any(|(known, errors)| *known == name && errors.contains(&error))
    };
    let specs = spec.split(',').filter(|spec| !spec.is_empty());
    let all = specs.map(|spec| parse(spec, is_known).ok_or_else(|| malformed(spec)));
    put(all.collect::<Result<_>>()?);
    Ok(())
}

fn parse(spec: &str, is_known: impl Fn(&str, &str) -> bool) -> Option<Armed> {
    let mut parts = spec.split(':');
    let (name, error) = (parts.next()?, parts.next()?);
    let always = match parts.next()? {
        "once" => false,
        "always" => true,
        _ => return None,
    };
    let left = parts.next().map_or(Some(1), |n| n.parse::<u64>().ok()).filter(|n| *n > 0)?;
    if !is_known(name, error) {
        return None;
    }
    let error = ERRORS.iter().find(|(known, _)| *known == error)?.1;
    Some(Armed { name: name.to_owned(), error, always, left })
}

fn put(armed: Vec<Armed>) {
    let mut now = ARMED.lock().unwrap_or_else(|e| e.into_inner());
    ANY.store(!armed.is_empty(), Ordering::SeqCst);
    *now = armed;
}

/// The current result of the fault with this name. `fault!` calls this.
///
/// # Errors
/// The error that the fault was armed with.
pub fn strike(name: &'static str) -> io::Result<()> {
    match due(name) {
        Some(error) if error != SHORT => Err(io::Error::from_raw_os_error(error)),
        _ => Ok(()),
    }
}

/// The number of bytes, of `len`, that a call should ask for: a sixteenth if a short count is
/// armed. Single bytes would take minutes where all sends of a file are short. `shortened!` calls
/// this.
pub fn shorten(name: &'static str, len: usize) -> usize {
    match due(name) {
        Some(SHORT) => len.div_ceil(16),
        _ => len,
    }
}

/// As [`read_environment`](super::read_environment), for faults.
pub fn read_faults_of_environment() {
    FROM_ENVIRONMENT.call_once(|| {
        if let Ok(spec) = std::env::var("COMMONHOLD_FAULT") {
            // From any table: this crate does not know the tables of the crates above it.
            put(spec.split(',').filter_map(|spec| parse(spec, |_, _| true)).collect());
        }
    });
}

fn due(name: &'static str) -> Option<i32> {
    read_faults_of_environment();
    if let Some(observer) = OBSERVER.get() {
        observer(name);
    }
    if !ANY.load(Ordering::SeqCst) {
        return None;
    }
    let mut armed = ARMED.lock().unwrap_or_else(|e| e.into_inner());
    let armed = armed.iter_mut().find(|armed| armed.name == name)?;
    match armed.left {
        0 => armed.always.then_some(armed.error),
        1 => {
            armed.left = 0;
            Some(armed.error)
        }
        _ => {
            armed.left -= 1;
            None
        }
    }
}
