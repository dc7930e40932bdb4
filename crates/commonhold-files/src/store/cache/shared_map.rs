//! [`SharedMap`]: a map of a hold as a cache uses it. Its errors never reach a request: a change
//! that is not possible now is left out, and no change is tried for a moment, so that threads do
//! not wait again and again.
//!
//! Readers of a hold never wait. Writers wait for each other, for a stopped process too; so the map
//! is written through a handle of its own with a short time limit. Invariant: a key whose value had
//! to be removed and could not be is *doomed*. This process no longer finds it, and removes the
//! doomed keys before it puts a new value.

use super::buffers::Buffers;
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a change waits for another process.
const PATIENCE: Duration = Duration::from_millis(5);
/// How long no change is tried after a change that failed.
const QUIET: Duration = Duration::from_millis(50);

/// A map, with the state of its pauses.
pub(in crate::store) struct SharedMap {
    map: Map,
    buffers: Buffers,
    begun: Instant,
    /// Milliseconds since `begun` until which no change is tried.
    quiet_until_ms: AtomicU64,
    doomed: Mutex<HashSet<Box<[u8]>>>,
    /// The number of doomed keys: a look-up that finds 0 takes no lock.
    doomed_len: AtomicUsize,
}

/// A handle with a short time limit, on the same hold.
///
/// # Errors
/// Those of opening a hold.
pub(in crate::store) fn impatient(hold: &Hold) -> Result<Hold> {
    Hold::options().lock_timeout(PATIENCE).open(hold.path())
}

/// The map of this name, of the [`impatient`] handle. The other handle creates it, because the
/// first opening may have to wait for other processes. A map with other options is dropped: its
/// contents were for another limit, and can all be read again.
///
/// # Errors
/// `Mismatch` if the name is that of another kind of structure; those of making maps.
pub(in crate::store) fn open(
    hold: &Hold,
    impatient: &Hold,
    name: &str,
    options: MapOptions,
) -> Result<Map> {
    match hold.maps().open_or_create(name, options.clone()) {
        Err(e) if e.kind() == ErrorKind::Mismatch => {
            hold.maps().drop(name)?;
            hold.maps().open_or_create(name, options.clone())
        }
        opened => opened,
    }?;
    impatient.maps().open_or_create(name, options)
}

impl SharedMap {
    /// `map` should be one of an [`impatient`] handle.
    pub(in crate::store) fn new(map: Map) -> SharedMap {
        SharedMap {
            map,
            buffers: Buffers::default(),
            begun: Instant::now(),
            quiet_until_ms: AtomicU64::new(0),
            doomed: Mutex::default(),
            doomed_len: AtomicUsize::new(0),
        }
    }

    /// The map, for reading.
    pub(in crate::store) fn map(&self) -> &Map {
        &self.map
    }

    /// A copy of a value.
    pub(in crate::store) fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        if self.is_doomed(key) {
            return None;
        }
        let mut value = self.buffers.take();
        if self.map.get_into(key, &mut value).unwrap_or(false) {
            return Some(value);
        }
        self.buffers.give(value);
        None
    }

    /// Takes a copy back.
    pub(in crate::store) fn recycle(&self, value: Vec<u8>) {
        self.buffers.give(value);
    }

    /// Makes a change; `None` if it failed, or if changes pause at the moment.
    pub(in crate::store) fn change<R>(&self, change: impl FnOnce() -> Result<R>) -> Option<R> {
        // Relaxed: a moment too early or too late does not matter.
        if self.now_ms() < self.quiet_until_ms.load(Ordering::Relaxed) {
            return None;
        }
        let result = change();
        if result.is_err() {
            let until = self.now_ms() + QUIET.as_millis() as u64;
            self.quiet_until_ms.store(until, Ordering::Relaxed);
        }
        result.ok()
    }

    /// Removes with `remove`, which returns whether there was something. If it fails, the key is
    /// doomed.
    pub(in crate::store) fn remove<R>(
        &self,
        key: &[u8],
        remove: impl FnOnce() -> Result<Option<R>>,
    ) -> Option<R> {
        // A look is not a change, and never waits.
        let present = self.map.contains(key).unwrap_or(false);
        let removed = if present { self.change(remove) } else { Some(None) };
        match (&removed, self.is_doomed(key)) {
            (None, false) => self.doomed(|doomed| _ = doomed.insert(key.into())),
            (Some(_), true) => self.doomed(|doomed| _ = doomed.remove(key)),
            _ => {}
        }
        removed.flatten()
    }

    /// Removes the doomed keys, each with `remove`; false if `key` is still doomed.
    pub(in crate::store) fn remove_doomed(&self, key: &[u8], remove: impl Fn(&[u8])) -> bool {
        if self.doomed_len.load(Ordering::Acquire) == 0 {
            return true;
        }
        let all: Vec<Box<[u8]>> = self.lock().iter().cloned().collect();
        all.iter().for_each(|doomed| remove(doomed));
        !self.is_doomed(key)
    }

    fn is_doomed(&self, key: &[u8]) -> bool {
        // Acquire pairs with the release in `doomed`: a thread that learns that a key had to go
        // does not find it.
        self.doomed_len.load(Ordering::Acquire) > 0 && self.lock().contains(key)
    }

    fn doomed(&self, change: impl FnOnce(&mut HashSet<Box<[u8]>>)) {
        let mut doomed = self.lock();
        change(&mut doomed);
        self.doomed_len.store(doomed.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.doomed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}
