//! Killing or stopping the process at a step, or panicking there.

use super::list::ALL;
use super::signal;
use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock};

struct Armed {
    name: String,
    act: Act,
}

/// The action at the step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Kill,
    Stop,
    /// Has no effect while the thread already unwinds: a second panic would end the process.
    Panic,
}

static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
static LEFT: AtomicU64 = AtomicU64::new(0);
static FROM_ENVIRONMENT: Once = Once::new();
static OBSERVER: OnceLock<Box<dyn Fn(&'static str) + Send + Sync>> = OnceLock::new();

/// Calls `observer` with every step that this process passes from now on. Only the first observer
/// is kept.
pub fn observe(observer: impl Fn(&'static str) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

/// Arms one step of this process: `name:kill`, `name:stop` or `name:panic`, optionally `:N` for the
/// N-th passing. An empty text disarms.
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
    Error::new(ErrorKind::Invalid, format!("step '{spec}': expected NAME:kill|stop|panic[:N]"))
}

fn parse(spec: &str) -> Option<(Armed, u64)> {
    let mut parts = spec.split(':');
    let name = parts.next().filter(|name| ALL.contains(name))?.to_owned();
    let act = match parts.next()? {
        "kill" => Act::Kill,
        "stop" => Act::Stop,
        "panic" => Act::Panic,
        _ => return None,
    };
    let count = parts.next().map_or(Some(1), |n| n.parse::<u64>().ok())?;
    (count > 0).then_some((Armed { name, act }, count))
}

fn put(armed: Option<Armed>, count: u64) {
    let mut now = ARMED.lock().unwrap_or_else(|e| e.into_inner());
    *now = armed;
    LEFT.store(count, Ordering::SeqCst);
}

/// Reads the step that the environment arms, at the first call. A process with threads calls this
/// before it forks: a child would never see the end of a reading that another thread has begun.
pub fn read_environment() {
    FROM_ENVIRONMENT.call_once(|| {
        if let Some((armed, count)) =
            std::env::var("COMMONHOLD_STEP").ok().and_then(|spec| parse(&spec))
        {
            put(Some(armed), count);
        }
    });
}

/// Passes a step. `step!` calls this.
pub fn pass(name: &'static str) {
    read_environment();
    if let Some(observer) = OBSERVER.get() {
        observer(name);
    }
    if LEFT.load(Ordering::SeqCst) == 0 {
        return;
    }
    match due(name) {
        Some(Act::Kill) => signal::signal_self(libc::SIGKILL),
        Some(Act::Stop) => signal::signal_self(libc::SIGSTOP),
        Some(Act::Panic) => panic!("armed at step {name}"),
        None => {}
    }
}

/// The action that is due at this pass.
fn due(name: &str) -> Option<Act> {
    let armed = ARMED.lock().unwrap_or_else(|e| e.into_inner());
    let act = armed.as_ref().filter(|armed| armed.name == name)?.act;
    if act == Act::Panic && std::thread::panicking() {
        return None;
    }
    let last = |left: u64| left.checked_sub(1);
    let before = LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, last);
    (before == Ok(1)).then_some(act)
}
