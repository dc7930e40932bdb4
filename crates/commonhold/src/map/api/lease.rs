//! Times to live of a cache's pairs.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::handle::Map;
use crate::map::engine::change::{Act, Change, Expiry, Rule};
use crate::map::options::{Uid, milliseconds};
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

    fn ensure_forgets(&self) -> Result<()> {
        if self.bound.is_cache() {
            return Ok(());
        }
        let text = format!("map '{}' is not a cache: its pairs do not expire", self.name());
        Err(Error::new(ErrorKind::Mismatch, text))
    }
}
