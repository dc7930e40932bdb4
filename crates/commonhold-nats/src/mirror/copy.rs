//! The map of a mirror: changes of the bucket in it, and a new one that is built and swapped in.

use crate::bridge::Control;
use crate::bucket::{Bucket, is_removal};
use crate::reader::Arrival;
use crate::trouble::Session;
use async_nats::jetstream::stream::Info;
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::raw::{
    IterStep, create_shadow_map, create_unready_map, hold_time_ms, is_unready, iter_steps,
    next_name, open_unready_map, realtime_ms, replay_frame, swap_in_shadow_map,
};
use commonhold::stream::{ChangeKind, StreamFrame};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::time::Duration;

/// The header of a message's time to live (server 2.11).
const TTL: &str = "Nats-TTL";
/// The times to live of a message that stays, whatever the age limit of its stream is.
const NEVER: [&str; 2] = ["never", "-1"];

/// How the values of a bucket expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The age at which every value expires; zero for never.
    pub(crate) max_age: Duration,
    /// A message may have a time to live of its own.
    pub(crate) has_ttl: bool,
}

impl Expiry {
    /// That of a bucket.
    pub(crate) fn of_bucket(info: &Info) -> Expiry {
        Expiry { max_age: info.config.max_age, has_ttl: info.config.allow_message_ttl }
    }

    /// A number that differs if values expire differently.
    pub(crate) fn number(self) -> u64 {
        let nanoseconds = u64::try_from(self.max_age.as_nanos()).unwrap_or(u64::MAX >> 1);
        nanoseconds << 1 | u64::from(self.has_ttl)
    }

    /// The mode of the map: only the pairs of a cache expire.
    pub(crate) fn mode(self) -> MapMode {
        let expires = self.has_ttl || !self.max_age.is_zero();
        let options = match expires {
            true => MapOptions::from(MapOptions::cache()),
            false => MapOptions::general(),
        };
        options.mode()
    }

    /// When a message expires, in milliseconds since 1970; 0 for never.
    fn of(self, arrival: &Arrival) -> u64 {
        let own = arrival.headers().filter(|_| self.has_ttl).and_then(|headers| headers.get(TTL));
        if own.is_some_and(|ttl| NEVER.contains(&ttl.as_str())) {
            return 0;
        }
        let own = own.and_then(|ttl| seconds(ttl.as_str()));
        let age = Some(self.max_age).filter(|age| !age.is_zero());
        let Some(life) = own.into_iter().chain(age).min() else { return 0 };
        let stored_ms = u64::try_from(arrival.time_ns / 1_000_000).unwrap_or(0);
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        stored_ms.saturating_add(life).max(1)
    }
}

/// A time to live: seconds, or a text such as `1h30m`; `None` for anything else.
fn seconds(text: &str) -> Option<Duration> {
    let plain = text.parse::<u64>().ok().map(Duration::from_secs);
    plain.or_else(|| humantime::parse_duration(text).ok()).filter(|life| !life.is_zero())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Copy {
    hold: Hold,
    bucket: Bucket,
    pub(crate) map: Map,
    expiry: Expiry,
}

impl Copy {
    /// Opens the map, or creates it without contents. A map of another mode is dropped first.
    ///
    /// # Errors
    /// `Mismatch` if the map is an ordinary one.
    pub(crate) fn open(hold: &Hold, name: &str, bucket: &Bucket, expiry: Expiry) -> Result<Copy> {
        let old = match open_unready_map(hold, name) {
            Ok(map) if !map.is_replica() => return Err(ordinary(name)),
            Ok(map) => Some(map).filter(|map| map.options().mode() == expiry.mode()),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let map = match old {
            Some(map) => hold.maps().open_replica(name, map.options().clone())?,
            None => {
                hold.maps().drop(name)?;
                // From now on nobody makes an ordinary map of this name.
                create_unready_map(hold, name, MapOptions::from(expiry.mode()))?
            }
        };
        Ok(Copy { hold: hold.clone(), bucket: bucket.clone(), map, expiry })
    }

    /// How its pairs expire.
    pub(crate) fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Whether it has contents.
    pub(crate) fn is_ready(&self) -> bool {
        !is_unready(&self.map)
    }

    /// A shadow map, empty.
    pub(crate) fn begin_shadow(&self) -> Result<Copy> {
        let map = create_shadow_map(&self.hold, &next_name(self.map.name()), self.map.name())?;
        Ok(Copy { hold: self.hold.clone(), bucket: self.bucket.clone(), map, expiry: self.expiry })
    }

    /// Lets the shadow map take the place of this map, with a stream if this map has one.
    pub(crate) fn replace_by(self, shadow: Copy) -> Result<Copy> {
        let name = self.map.name().to_owned();
        if let Ok(follower) = self.map.follow() {
            let (_, bytes) = follower.lag_bytes()?;
            self.hold.maps().begin_stream(shadow.map.name(), bytes)?;
        }
        swap_in_shadow_map(&self.hold, shadow.map.name(), &name)?;
        Ok(shadow)
    }

    /// Drops a shadow map that is not complete.
    pub(crate) fn drop_shadow(&self) {
        // If it stays, the next one drops it.
        let _ = self.hold.maps().drop(&next_name(self.map.name()));
    }

    /// Applies a message.
    ///
    /// # Errors
    /// `Invalid` for the value of a key of another style; those of the map.
    pub(crate) fn apply(&self, arrival: &Arrival) -> Result<()> {
        let key = match self.bucket.key_of(&arrival.message.subject) {
            // The map cannot have such a key.
            Err(_) if is_removal(arrival.headers()) => return Ok(()),
            key => key?,
        };
        if is_removal(arrival.headers()) {
            return self.remove(&key, ChangeKind::Delete);
        }
        let expires_ms = self.expiry.of(arrival);
        let value = &arrival.message.payload;
        self.replay(ChangeKind::Set, &key, value, expires_ms)
    }

    /// Removes a key.
    pub(crate) fn remove(&self, key: &[u8], kind: ChangeKind) -> Result<()> {
        self.replay(kind, key, &[], 0)
    }

    fn replay(&self, kind: ChangeKind, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        let frame = StreamFrame { kind, key, value, expires_ms, offset: 0, end: 0 };
        let expiry = match expires_ms {
            0 => 0,
            // A time that has passed leaves a pair that reads as absent.
            _ => hold_time_ms(&self.hold)
                .saturating_add(expires_ms)
                .saturating_sub(realtime_ms())
                .max(1),
        };
        replay_frame(&self.map, &frame, expiry)
    }

    /// Removes the pairs that have expired: the bucket does not report them.
    pub(crate) fn sweep(&self, control: &Control<'_>) -> Session<()> {
        if self.expiry.mode() == MapOptions::general().mode() {
            return Ok(());
        }
        let now = hold_time_ms(&self.hold);
        let mut pairs = iter_steps(&self.map, &[], true);
        loop {
            control.ensure_runs()?;
            match pairs.step()? {
                IterStep::Pair((key, _), expiry) if expiry != 0 && expiry <= now => {
                    self.remove(&key, ChangeKind::Expire)?;
                }
                IterStep::Pair(..) | IterStep::Segment => {}
                IterStep::End => return Ok(()),
            }
        }
    }
}

fn ordinary(name: &str) -> Error {
    let text = format!(
        "map '{name}' is an ordinary map, which programs write; a mirror needs a map of its own: \
         choose another name, or drop the map first"
    );
    Error::new(ErrorKind::Mismatch, text)
}
