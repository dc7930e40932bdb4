//! How old a replica's contents may be, for readers that need recent data.
//!
//! The replica notes a time of its first origin with every batch of changes that it has applied.
//! A reader that takes this time first, then the data, and then looks at the clock knows an age
//! that the data do not exceed, however long it was stopped in between.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::handle::Map;
use crate::map::engine::bound;
use crate::os::clock::realtime_ms;
use std::sync::Arc;
use std::time::Duration;

/// The key of the hidden map `.applied/NAME` whose value begins with a time, in milliseconds since
/// 1970: the replica has everything that its first origin had then.
pub const AS_OF: &[u8; 8] = b"as of\0\0\0";

/// How recent the contents of a map are.
enum AsOf {
    /// The map belongs to no replica: nothing is more recent.
    Original,
    /// A replica contains everything that its first origin had at this time, since 1970.
    Time(Duration),
    /// A replica has not noted a time yet.
    Unknown,
}

impl Map {
    /// The age of a replica's contents: everything that the first origin had so long ago is here.
    /// It is measured by the clocks of this machine and of the first origin's machine, also behind
    /// relays, and grows while any link between them is down. `None` if the map is not a replica,
    /// or if its replica does not know the age.
    ///
    /// # Errors
    /// Those of reading.
    pub fn lag(&self) -> Result<Option<Duration>> {
        Ok(match self.as_of()? {
            AsOf::Time(time) => Some(age(time)),
            AsOf::Original | AsOf::Unknown => None,
        })
    }

    /// Checks that a replica's contents are at most as old as `max_age`. Reads that follow see
    /// these contents or later ones. A map that is not a replica is never too old.
    ///
    /// # Errors
    /// `Stale` if the contents are older, or if their age is not known; those of reading.
    ///
    /// ```
    /// # use commonhold::{Hold, map::MapOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let hold = Hold::open_or_create(dir.path().join("shop")).unwrap();
    /// # let prices = hold.maps().open_or_create("prices", MapOptions::general()).unwrap();
    /// prices.ensure_fresh(std::time::Duration::from_secs(2))?;
    /// for pair in prices.iter() {
    ///     let (product, price) = pair?;
    /// }
    /// # Ok::<(), commonhold::Error>(())
    /// ```
    pub fn ensure_fresh(&self, max_age: Duration) -> Result<()> {
        self.within(&self.as_of()?, max_age)
    }

    /// The value of `key`, unless it comes from a replica's contents that are older than `max_age`
    /// when this call returns. Of a map that is not a replica, any value is recent enough.
    ///
    /// # Errors
    /// `Stale` as for [`ensure_fresh`](Self::ensure_fresh); those of [`get`](Self::get).
    pub fn get_fresh(&self, key: impl AsRef<[u8]>, max_age: Duration) -> Result<Option<Vec<u8>>> {
        let as_of = self.as_of()?;
        let value = self.get(key)?;
        self.within(&as_of, max_age)?;
        Ok(value)
    }

    fn as_of(&self) -> Result<AsOf> {
        if !self.is_replica() {
            return Ok(AsOf::Original);
        }
        let name = format!(".applied/{}", self.name());
        let Some(bound) = bound::open(self.space(), &name)? else { return Ok(AsOf::Unknown) };
        let noted = Map::new(Arc::clone(&self.arena), bound).get(AS_OF)?;
        let noted = noted.as_ref().and_then(|value| value.first_chunk()).copied();
        let time = noted.map(u64::from_le_bytes).map(Duration::from_millis);
        Ok(time.map_or(AsOf::Unknown, AsOf::Time))
    }

    fn within(&self, as_of: &AsOf, max_age: Duration) -> Result<()> {
        let found = match as_of {
            AsOf::Original => return Ok(()),
            AsOf::Time(time) if age(*time) <= max_age => return Ok(()),
            AsOf::Time(time) => format!("they are {:?} old", age(*time)),
            AsOf::Unknown => "their age is not known".to_string(),
        };
        let text = format!(
            "the contents of replica \"{}\" must not be older than {max_age:?}, but {found}; check \
             in `hold stat` that its process runs and is connected, or allow a greater age",
            self.name()
        );
        Err(Error::new(ErrorKind::Stale, text).about(self.name()))
    }
}

fn age(time: Duration) -> Duration {
    Duration::from_millis(realtime_ms()).saturating_sub(time)
}
