//! `--faults`: calls that fail while other processes die and stop, and the life of a worker whose
//! calls fail.
//!
//! A failed call has happened or has not, like one whose process died in it. So a worker whose call
//! fails does what the successor of a killed one does: it reads the state, and continues from
//! there. Invariant: a call fails only with an error that a fault explains; `Damaged` and the like
//! are findings.

use super::plan::{Ledger, Order};
use crate::workload::{Result, RunError, worker::Worker};
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// The maximum size of the hold: small enough for one tenant to take all the room.
pub const HOLD_BYTES: u64 = 128 << 20;
/// The most that a worker waits for a lock; the supervisor stops processes for longer.
const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(50);
/// The map of a tenant that takes all the room for a moment.
const BALLAST: &str = "ballast";
const BALLAST_BYTES: usize = 1 << 20;

/// Opens the hold of `order` as its run requires.
pub fn open(order: &Order, read_only: bool) -> Result<Hold> {
    let options = Hold::options().read_only(read_only);
    let options = if order.faults { options.lock_timeout(LOCK_TIMEOUT) } else { options };
    Ok(options.open(&order.hold)?)
}

/// Whether a fault explains this.
pub fn explains(error: &RunError) -> bool {
    use ErrorKind::{Busy, Damaged, Full, Io, Mismatch, NotFound, Permission, Reentrant, TimedOut};
    let RunError::Hold(error) = error else { return false };
    match error.kind() {
        Busy | Full | Io | Permission | TimedOut => true,
        // A named fault may be any error of its call, and none that blames the hold. Only the
        // system can have lost a file; a map that is lost is a finding.
        NotFound => cfg!(feature = "steps") && error.to_string().contains("(os error 2)"),
        Damaged | Mismatch | Reentrant => false,
        _ => cfg!(feature = "steps"),
    }
}

/// Runs `work`, again and again while it fails for a reason that a fault explains. A failure counts
/// for thread `thread` of the process at `order.place`. Returns `None` if the run is over.
pub fn persist<T>(
    order: &Order,
    ledger: &Ledger,
    thread: u32,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<Option<T>> {
    loop {
        match attempt() {
            Err(error) if order.faults && explains(&error) => {
                ledger.count_failure(order.place, thread)?;
                if ledger.over()? {
                    return Ok(None);
                }
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            other => return other.map(Some),
        }
    }
}

/// Lowers a worker's limit of descriptors to those that it has, or restores the limit.
pub fn limit_descriptors(worker: &Worker, limited: bool) -> Result<()> {
    let usual = getrlimit(Resource::Nofile);
    let current = if limited { Some(0) } else { usual.current };
    let limit = Rlimit { current, maximum: usual.maximum };
    match prlimit(Pid::from_raw(worker.pid() as i32), Resource::Nofile, limit) {
        // It has ended, and has been waited for or not.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// Takes all the room of the hold, and frees it after `meanwhile`.
pub fn without_room(hold: &Hold, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    let ballast = hold.maps().open_or_create(BALLAST, MapOptions::general())?;
    let value = vec![0xba; BALLAST_BYTES];
    for number in 0u32.. {
        match ballast.set(number.to_le_bytes(), &value) {
            Err(error) if error.kind() == ErrorKind::Full => break,
            other => other?,
        };
    }
    let done = meanwhile();
    drop(ballast);
    hold.maps().drop(BALLAST)?;
    done
}

/// Arms one named fault of the library after another in this process, each for a moment.
#[cfg(feature = "steps")]
pub fn harass(order: &Order) {
    use crate::workload::random::log_uniform;
    use commonhold::steps::{FAULTS, arm_fault};
    use std::time::Duration;

    if !order.faults {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(order.seed);
    std::thread::spawn(move || {
        loop {
            let quiet = log_uniform(&mut rng, 500..50_000);
            std::thread::sleep(Duration::from_micros(quiet));
            let (name, errors) = FAULTS[rng.usize(..FAULTS.len())];
            let error = errors[rng.usize(..errors.len())];
            let how = if rng.bool() { "once" } else { "always" };
            arm_fault(&format!("{name}:{error}:{how}")).expect("a fault of the table");
            let moment = log_uniform(&mut rng, 100..20_000);
            std::thread::sleep(Duration::from_micros(moment));
            arm_fault("").expect("nothing");
        }
    });
}

/// This build has no named faults.
#[cfg(not(feature = "steps"))]
pub fn harass(_: &Order) {}
