//! Killing or stopping the process at a step.

use super::list::ALL;
use super::signal;
use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock};

struct Armed {
    name: String,
    stop: bool,
}

static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
static LEFT: AtomicU64 = AtomicU64::new(0);
static FROM_ENVIRONMENT: Once = Once::new();
static OBSERVER: OnceLock<Box<dyn Fn(&'static str) + Send + Sync>> = OnceLock::new();

/// Calls `observer` with every step that this process passes from now on; the first one stays.
pub fn observe(observer: impl Fn(&'static str) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

/// Arms one step of this process: `name:kill` or `name:stop`, optionally `:N` for the N-th
/// passing. An empty text disarms.
///
/// # Errors
/// `Invalid` if the text is malformed or names no step.
pub fn arm(spec: &str) -> Result<()> {
    FROM_ENVIRONMENT.call_once(|| {});
    put(None, 0);
    if spec.is_empty() {
        return Ok(());
    }
    let (armed, count) = parse(spec).ok_or_else(|| malformed(spec))?;
    put(Some(armed), count);
    Ok(())
}

fn malformed(spec: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("step '{spec}': want NAME:kill|stop[:N]"))
}

fn parse(spec: &str) -> Option<(Armed, u64)> {
    let mut parts = spec.split(':');
    let name = parts.next().filter(|name| ALL.contains(name))?.to_owned();
    let stop = match parts.next()? {
        "kill" => false,
        "stop" => true,
        _ => return None,
    };
    let count = parts.next().map_or(Some(1), |n| n.parse::<u64>().ok())?;
    (count > 0).then_some((Armed { name, stop }, count))
}

fn put(armed: Option<Armed>, count: u64) {
    let mut now = ARMED.lock().unwrap_or_else(|e| e.into_inner());
    *now = armed;
    LEFT.store(count, Ordering::SeqCst);
}

/// Passes a step; what `step!` calls.
pub fn pass(name: &'static str) {
    FROM_ENVIRONMENT.call_once(|| {
        if let Some((armed, count)) =
            std::env::var("COMMONHOLD_STEP").ok().and_then(|spec| parse(&spec))
        {
            put(Some(armed), count);
        }
    });
    if let Some(observer) = OBSERVER.get() {
        observer(name);
    }
    if LEFT.load(Ordering::SeqCst) == 0 {
        return;
    }
    let signal = {
        let armed = ARMED.lock().unwrap_or_else(|e| e.into_inner());
        match armed.as_ref() {
            Some(a) if a.name == name => {
                if LEFT.fetch_sub(1, Ordering::SeqCst) != 1 {
                    return;
                }
                if a.stop { libc::SIGSTOP } else { libc::SIGKILL }
            }
            _ => return,
        }
    };
    signal::signal_self(signal);
}
