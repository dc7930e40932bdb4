//! The map of a mirror, as a process sees it that has written to the bucket: it waits until the
//! map shows the change.

use crate::bucket::Bucket;
use crate::mirror::place::stored;
use crate::reader::nanoseconds;
use commonhold::map::Map;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::time::{Duration, Instant};

/// How long it waits between two looks at the position.
const NAP: Duration = Duration::from_millis(1);

/// A mirror's map on this machine.
#[derive(Debug)]
pub struct LocalCopy {
    hold: Hold,
    map: Map,
    bucket: Bucket,
    created_ns: i64,
}

impl LocalCopy {
    /// Opens the map of a mirror of this bucket.
    ///
    /// # Errors
    /// `NotFound` if there is no such map or no such bucket; `Io`.
    pub async fn open(hold: &Hold, map: &str, bucket: &Bucket) -> Result<LocalCopy> {
        let map = hold.maps().open(map)?;
        let created_ns = nanoseconds(bucket.info().await?.created);
        Ok(LocalCopy { hold: hold.clone(), map, bucket: bucket.clone(), created_ns })
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Whether the map shows the change of this revision.
    ///
    /// # Errors
    /// Those of reading a map.
    pub fn shows(&self, revision: u64) -> Result<bool> {
        // The mirror may have replaced the map since this handle was opened.
        let map = match self.hold.maps().open(self.map.name()) {
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(false),
            map => map?,
        };
        let at = stored(&self.hold, &map, &self.bucket)?;
        let at = at.filter(|at| at.created_ns == self.created_ns);
        Ok(at
            .is_some_and(|at| at.sequence > revision || (at.sequence == revision && at.is_applied)))
    }

    /// Waits until the map shows the change of this revision, at most for `time`.
    ///
    /// # Errors
    /// `TimedOut`, which names the map and the revision; those of reading a map.
    pub async fn wait(&self, revision: u64, time: Duration) -> Result<()> {
        let end = Instant::now().checked_add(time);
        while !self.shows(revision)? {
            if end.is_some_and(|end| Instant::now() >= end) {
                let (map, bucket) = (self.map.name(), self.bucket.name());
                let text = format!(
                    "map '{map}' does not show revision {revision} of bucket '{bucket}' yet; the \
                     change was made: check that 'hold nats mirror' runs for this map"
                );
                return Err(Error::new(ErrorKind::TimedOut, text));
            }
            tokio::time::sleep(NAP).await;
        }
        Ok(())
    }
}
