//! Named steps: the instants at which a test stops or kills a process.
//!
//! With the feature `steps` every `step!` asks whether it is armed, through the environment
//! (`COMMONHOLD_STEP=name:kill`, `name:stop`, an optional third field `:N` for the N-th passing)
//! or [`arm`]. Without the feature nothing is compiled in. Every name stands in [`ALL`], and a
//! test proves that the list and the sources agree.

/// Marks a named instant; see [`crate::steps`].
macro_rules! step {
    ($name:literal) => {
        #[cfg(feature = "steps")]
        $crate::steps::pass($name);
    };
}
pub(crate) use step;

#[cfg(feature = "steps")]
pub(crate) use active::pass;
#[cfg(feature = "steps")]
pub use active::{ALL, arm, observe};

#[cfg(feature = "steps")]
mod active {
    use crate::error::{Error, ErrorKind, Result};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, Once, OnceLock};

    /// The names of all steps, grouped by what passes them.
    pub const ALL: &[&str] = &[
        // Writing a record.
        "record.marked",
        "record.allocated",
        "write.prepared",
        "write.listed",
        "write.locked",
        "write.armed-fields",
        "write.armed",
        "write.sequenced",
        "write.committed",
        "write.counted",
        "write.retired",
        "write.disarmed",
        "write.unlocked",
        "retire.marked",
        "retire.cleared",
        // Fixed-length pairs.
        "inline.locked",
        "cell.written",
        "inline.committed",
        "stream.locked",
        "stream.claimed",
        "stream.written",
        "stream.positioned",
        "stream.armed-fields",
        "stream.armed",
        "stream.announced",
        "stream.disarmed",
        "stream.unlocked",
        "stream.claimed-memory",
        "stream.linked",
        "stream.begun",
        // Reading a record.
        "read.found",
        "read.copied",
        // Splits and the directory.
        "split.child-written",
        "split.child-listed",
        "split.copying",
        "split.copied",
        "split.publishing",
        "split.entries-locked",
        "split.entry-stored",
        "split.entries-stored",
        "split.clearing",
        "split.cleared",
        "split.finished",
        "split.child-unlocked",
        "fill.locked",
        "double.locked",
        "double.claimed",
        "double.linked",
        "double.committed",
        // Extents.
        "extent.claimed",
        "extent.populated",
        "extent.owned",
        "extent.released",
        "run.head-claimed",
        "run.body-claimed",
        "run.claimed",
        "run.body-freed",
        "grow.locked",
        "grow.extended",
        "grow.committed",
        "free.closing",
        "free.freed",
        // Participants.
        "slot.locked",
        "slot.claimed",
        "slot.released",
        // Recovery.
        "recover.locked",
        "recover.begun",
        "recover.stream-decided",
        "recover.stream-unlocked",
        "recover.adopted",
        "recover.locks-released",
        "recover.segment",
        "recover.settled",
        "recover.split",
        "recover.unlocked",
        "recover.lanes",
        "recover.undoing",
        "recover.undone",
        "recover.locks-settled",
        "recover.given-back",
        "recover.blocks",
        "recover.maps",
        "recover.block-forgotten",
        "recover.forgotten",
        "recover.extents",
        "recover.finished",
        // Maps.
        "create.claimed",
        "create.directory",
        "create.segment",
        "create.filled",
        "create.live",
        "drop.marked",
        "drop.begun",
        "drop.segment-emptied",
        "drop.emptied",
        "drop.segment-freed",
        "drop.directory-taken",
        "drop.directory-unlinked",
        "drop.directory-freed",
        "drop.done",
        "succeed.claimed",
        "succeed.committed",
        "succeed.renamed",
        "succeed.named",
        // Blocks of the other structures.
        "block.claimed",
        "block.linked",
        "block.filled",
        "block.attached",
        "block.taken",
        "block.unlinked",
        // Moving elements of queues.
        "queue.listed",
        "queue.locked",
        "queue.unlocked",
        "pull.armed",
        "pull.holding",
        "pull.held",
        "pull.committed",
        "push.written",
        "push.armed",
        "push.letting-go",
        "push.let-go",
        "push.committed",
        "push.woken",
        // Logs: writers, then the collector.
        "log.claimed",
        "log.copied",
        "log.committed",
        "log.made-room",
        "log.returned",
        "log.refused",
        "log.handed-back",
        "collect.claimed",
        "collect.emptied",
        "collect.taken-back",
        "collect.placing",
        "collect.placed",
        "collect.written",
        "collect.committed",
        "collect.marking",
        "collect.marked",
        "collect.cleared",
        "collect.released",
        "table.made",
        "table.linked",
        "cache.charged",
        "freeze.closed",
        // Channels.
        "channel.producer-claimed",
        "channel.takeover-woken",
        "channel.walked",
        "channel.mark-written",
        "channel.marked",
        "channel.limited",
        "channel.scanned",
        "channel.dropped",
        "channel.woken",
        "channel.filler-zeroed",
        "channel.filled",
        "channel.written",
        "channel.zeroed",
        "channel.sent",
        "channel.waits",
        "channel.leaving",
        "channel.left",
        "channel.line-claimed",
        "channel.cursor-stored",
        "channel.joining",
        "channel.joined",
        "channel.line-left",
        "channel.copied",
        "channel.publishing",
        "channel.published",
        "channel.idle",
    ];

    struct Armed {
        name: String,
        stop: bool,
    }

    static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
    static LEFT: AtomicU64 = AtomicU64::new(0);
    static FROM_ENVIRONMENT: Once = Once::new();
    static OBSERVER: OnceLock<Box<dyn Fn(&'static str) + Send + Sync>> = OnceLock::new();

    /// Has every step that this process passes from now on told to `observer`; the first one stays.
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
        let bad =
            || Error::new(ErrorKind::Invalid, format!("step '{spec}': want NAME:kill|stop[:N]"));
        let mut armed = ARMED.lock().unwrap_or_else(|e| e.into_inner());
        LEFT.store(0, Ordering::SeqCst);
        *armed = None;
        if spec.is_empty() {
            return Ok(());
        }
        let mut parts = spec.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let stop = match parts.next() {
            Some("kill") => false,
            Some("stop") => true,
            _ => return Err(bad()),
        };
        let count = parts.next().map_or(Ok(1), str::parse::<u64>).map_err(|_| bad())?;
        if !ALL.contains(&name.as_str()) || count == 0 {
            return Err(bad());
        }
        *armed = Some(Armed { name, stop });
        LEFT.store(count, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn pass(name: &'static str) {
        FROM_ENVIRONMENT.call_once(|| {
            if let Ok(spec) = std::env::var("COMMONHOLD_STEP") {
                arm_from_environment(&spec);
            }
        });
        debug_assert!(ALL.contains(&name), "step {name} is not in the list");
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
        crate::os::signal::signal_self(signal);
    }

    fn arm_from_environment(spec: &str) {
        // `arm` would enter the Once again: do its work on a fresh thread-free path.
        let mut parts = spec.split(':');
        let (Some(name), Some(action)) = (parts.next(), parts.next()) else { return };
        let count = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        *ARMED.lock().unwrap_or_else(|e| e.into_inner()) =
            Some(Armed { name: name.to_owned(), stop: action == "stop" });
        LEFT.store(count, Ordering::SeqCst);
    }
}
