//! Times to live of a cache's pairs.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::handle::Map;
use crate::map::engine::change::{Act, Change, Expiry, Rule};
use crate::map::engine::read;
use crate::map::engine::take::{Fresh, ReadExpiry};
use crate::map::layout::segment::CACHE_BUCKETS;
use crate::map::options::{Uid, milliseconds};
use crate::sync::hold_clock;
use std::time::Duration;

impl Map {
    /// Sets a value that expires after `ttl` (rounded up to a millisecond). Cache mode only.
    ///
    /// # Errors
    /// `Mismatch` in other modes.
    pub fn set_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Uid> {
        self.ensure_forgets()?;
        let mut change = Change::new(key.as_ref(), Rule::Always, Act::Put(value.as_ref()));
        change.expiry = Expiry::After(milliseconds(ttl));
        Ok(Uid(self.apply(&change, None)?.uid))
    }

    /// A handle of the same map: everything that it stores, by any operation, expires after `ttl`
    /// (rounded up to a millisecond). Cache mode only.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("commonhold-ttl-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir).unwrap();
    /// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
    /// use std::time::Duration;
    ///
    /// let cache = hold.maps().open_or_create("cache", commonhold::map::MapOptions::cache())?;
    /// let brief = cache.with_ttl(Duration::from_millis(1))?;
    /// assert!(brief.add("leader", "me")?.is_some());
    /// std::thread::sleep(Duration::from_millis(5));
    /// assert_eq!(cache.get("leader")?, None);
    /// # drop((brief, cache));
    /// # drop(hold);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), commonhold::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Mismatch` in other modes.
    pub fn with_ttl(&self, ttl: Duration) -> Result<Map> {
        self.ensure_forgets()?;
        let mut map = self.clone();
        map.expiry = Expiry::After(milliseconds(ttl));
        Ok(map)
    }

    /// The time until a pair expires, in whole milliseconds, at least one; `Duration::MAX` if it
    /// never does, as in maps that are not caches; `None` if the key is absent. Does not count
    /// as a use of the pair.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn remaining_ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>> {
        let key = key.as_ref();
        self.begin_read(key)?;
        let expiry = self.bound.read(self.space(), |bound| {
            let key = (bound.hasher.hash(key), key);
            if !bound.is_cache() {
                return self.lookup(bound, key, ReadExpiry);
            }
            let fresh = Fresh { of: ReadExpiry, marks: false };
            Ok(read::find::<CACHE_BUCKETS, _>(self.space(), bound, key, fresh)?.flatten())
        })?;
        Ok(expiry.map(|expiry| match expiry {
            0 => Duration::MAX,
            at => Duration::from_millis(at.saturating_sub(hold_clock::now(self.space())).max(1)),
        }))
    }

    /// Makes a pair expire `ttl` from now (rounded up to a millisecond), and keeps its value, in
    /// one atomic step. False if the key is absent. Cache mode only. Followers and
    /// replicas receive it as a set.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let hold = commonhold::Hold::open_or_create(dir.path().join("it.hold"))?;
    /// use std::time::Duration;
    ///
    /// let options = commonhold::map::MapOptions::cache();
    /// let sessions = hold.maps().open_or_create("sessions", options)?;
    /// sessions.set_with_ttl("ann", "token", Duration::from_secs(60))?;
    /// assert!(sessions.touch("ann", Duration::from_secs(3600))?);
    /// assert!(sessions.remaining_ttl("ann")? > Some(Duration::from_secs(60)));
    /// # Ok::<(), commonhold::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Mismatch` in other modes; those of [`set`](Self::set).
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let kept = self.with_ttl(ttl)?.update(key, |value| value.map(<[u8]>::to_vec))?;
        Ok(kept.is_some())
    }

    fn ensure_forgets(&self) -> Result<()> {
        if self.bound.is_cache() {
            return Ok(());
        }
        let text = format!("map '{}' is not a cache: its pairs do not expire", self.name());
        Err(Error::new(ErrorKind::Mismatch, text))
    }
}
