//! `Map`: a map of bytes. The package's class derives from it and from `MutableMapping`.

use crate::by_name::How;
use crate::convert::{bytes, invalid, json, pair, uid};
use crate::errors::{Answer, Failure};
use crate::ffi::input::Input;
use crate::ffi::scratch::{Scratch, look_into};
use crate::follow::Follower;
use crate::hold::Hold;
use crate::pair::Pair;
use crate::shared_hold::SharedHold;
use crate::waiting::{Patience, at_once, patiently, time_span};
use crate::walk::{Keys, Pairs};
use commonhold::Error;
use commonhold::map::{Cursor, MapMode, MapOptions, Values};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::sync::Arc;
use std::time::Duration;

/// The longest value that is stored with the interpreter held: copying it takes a microsecond.
const SHORT: usize = 16 << 10;

type Two<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A map of bytes in a hold.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Map {
    map: commonhold::map::Map,
    pub shared: Arc<SharedHold>,
}

impl Map {
    #[inline]
    pub fn map(&self) -> Answer<&commonhold::map::Map> {
        self.shared.ensure()?;
        Ok(&self.map)
    }

    /// The value of a key, as Python's bytes: copied once if it is short or was guessed right,
    /// twice otherwise.
    // Not always inlined into both of its callers otherwise; that takes 26 instructions of each.
    #[inline(always)]
    fn find<'py>(&self, py: Python<'py>, key: &[u8]) -> Answer<Option<Bound<'py, PyBytes>>> {
        let map = self.map()?;
        match Scratch::new().look(map, key)? {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(PyBytes::new(py, value))),
            Some(Err(len)) => self.find_long(py, key, len),
        }
    }

    #[cold]
    fn find_long<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        mut len: usize,
    ) -> Answer<Option<Bound<'py, PyBytes>>> {
        // It may change meanwhile.
        for _ in 0..8 {
            let mut found = Some(len);
            let value = PyBytes::new_with(py, len, |out| {
                found =
                    look_into(&self.map, key, out).map_err(|e| PyErr::from(Failure::from(e)))?;
                Ok(())
            })?;
            match found {
                None => return Ok(None),
                Some(real) if real == len => return Ok(Some(value)),
                Some(real) => len = real,
            }
        }
        Ok(self.map.get(key)?.map(|value| bytes(py, &value)))
    }

    /// Stores, with the interpreter released: a lock's holder may be stopped.
    pub fn store<T: Send>(
        &self,
        py: Python<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
        mut act: impl FnMut(&commonhold::map::Map) -> commonhold::Result<T> + Send,
    ) -> Answer<T> {
        self.with_ttl(ttl, |map| patiently(py, self.shared.patience, || Ok(act(map)?)))
    }

    /// Stores a value of `len` bytes, of which a short one is stored before the interpreter could
    /// be released.
    #[inline]
    fn store_value<T: Send>(
        &self,
        py: Python<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
        len: usize,
        mut act: impl FnMut(&commonhold::map::Map) -> commonhold::Result<T> + Send,
    ) -> Answer<T> {
        if len > SHORT {
            return self.store(py, ttl, act);
        }
        self.with_ttl(ttl, |map| at_once(py, self.shared.patience, || act(map)))
    }

    #[inline]
    fn with_ttl<T>(
        &self,
        ttl: Option<&Bound<'_, PyAny>>,
        act: impl FnOnce(&commonhold::map::Map) -> Answer<T>,
    ) -> Answer<T> {
        match ttl {
            None => act(self.map()?),
            Some(time) => act(&self.map()?.with_ttl(time_span(time)?)?),
        }
    }
}

#[pymethods]
impl Map {
    #[new]
    #[pyo3(signature = (hold, name, *, fixed=None, cache=false, max_bytes=None, max_entries=None, ttl=None, value_room=0, how="open_or_create"))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        fixed: Option<(u32, u32)>,
        cache: bool,
        max_bytes: Option<u64>,
        max_entries: Option<u64>,
        ttl: Option<&Bound<'_, PyAny>>,
        value_room: u32,
        how: &str,
    ) -> Answer<Map> {
        let (how, shared) = (How::of(how)?, Arc::clone(&hold.get().shared));
        if matches!(how, How::Open) {
            let map = shared.act(py, |hold| hold.maps().open(name))?;
            return Ok(Map { map, shared });
        }
        let options = match (fixed, cache) {
            (Some(_), true) => return Err(invalid("a map is fixed or a cache, not both")),
            (Some((key, value)), false) => MapOptions::fixed(key, value),
            (None, false) => MapOptions::general(),
            (None, true) => {
                let mut options = MapOptions::cache();
                if let Some(bytes) = max_bytes {
                    options = options.max_bytes(bytes);
                }
                if let Some(entries) = max_entries {
                    options = options.max_entries(entries);
                }
                if let Some(time) = ttl {
                    options = options.ttl(time_span(time)?);
                }
                options.into()
            }
        };
        if !cache && (max_bytes.is_some() || max_entries.is_some() || ttl.is_some()) {
            return Err(invalid("max_bytes, max_entries and ttl apply only to caches"));
        }
        let options = options.value_room(value_room);
        let map = shared.act(py, |hold| match how {
            How::Create => hold.maps().create(name, options.clone()),
            How::Open | How::OpenOrCreate => hold.maps().open_or_create(name, options.clone()),
        })?;
        Ok(Map { map, shared })
    }

    /// The map's name.
    #[getter]
    fn name(&self) -> &str {
        self.map.name()
    }

    /// The kind of the map: `"general"`, `"fixed"` or `"cache"`.
    #[getter]
    fn mode(&self) -> &'static str {
        match self.map.options().mode() {
            MapMode::General => "general",
            MapMode::Fixed { .. } => "fixed",
            MapMode::Cache { .. } => "cache",
        }
    }

    /// The options it was made with, as keywords for `Hold.map`.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        match self.map.options().mode() {
            MapMode::General => {}
            MapMode::Fixed { key_bytes, value_bytes } => {
                options.set_item("fixed", (key_bytes, value_bytes))?;
            }
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                options.set_item("cache", true)?;
                options.set_item("max_bytes", max_bytes)?;
                options.set_item("max_entries", max_entries)?;
                options.set_item("ttl", ttl_ms.map(|ms| ms as f64 / 1000.0))?;
            }
        }
        Ok(options)
    }

    /// True if only a replica writes it.
    #[getter]
    fn is_replica(&self) -> bool {
        self.map.is_replica()
    }

    #[inline]
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Bound<'py, PyBytes>> {
        let found = self.find(key.py(), &key.extract::<Input<'_>>()?)?;
        found.ok_or_else(|| PyKeyError::new_err((key.clone().unbind(),)).into())
    }

    #[inline]
    fn __setitem__(&self, py: Python<'_>, key: Input<'_>, value: Input<'_>) -> Answer<()> {
        self.store_value(py, None, value.len(), |map| map.set(&key, &value).map(drop))
    }

    /// The value of a key; `default` if it is absent.
    #[inline]
    #[pyo3(signature = (key, /, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        let found = self.find(key.py(), &key.extract::<Input<'_>>()?)?;
        Ok(found.map(Bound::into_any).or_else(|| default.cloned()))
    }

    /// Sets the value of a key; returns its uid. `ttl`: seconds or a timedelta, in a cache.
    #[inline]
    #[pyo3(signature = (key, value, /, *, ttl=None))]
    fn set(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<u32> {
        Ok(self.store_value(py, ttl, value.len(), |map| map.set(&key, &value))?.0)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> Answer<()> {
        let wanted = key.extract::<Input<'_>>()?;
        match self.store_value(key.py(), None, 0, |map| map.delete(&wanted))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err((key.clone().unbind(),)).into()),
        }
    }

    fn __contains__(&self, key: Input<'_>) -> Answer<bool> {
        Ok(self.map()?.contains(&key)?)
    }

    fn __len__(&self) -> Answer<usize> {
        Ok(self.map()?.len()? as usize)
    }

    fn __bool__(&self) -> Answer<bool> {
        Ok(!self.map()?.is_empty()?)
    }

    fn __iter__(&self) -> Answer<Keys> {
        Ok(Keys::new(self.map()?.keys(), &self.shared))
    }

    fn _pairs(&self, cursor: Option<u64>) -> Answer<Pairs> {
        let cursor = cursor.map_or(Cursor::START, Cursor);
        Ok(Pairs::new(self.map()?.iter_from(cursor), &self.shared))
    }

    fn _get_many<'py>(&self, keys: &Bound<'py, PyAny>) -> Answer<Bound<'py, PyList>> {
        let py = keys.py();
        let all = PyList::empty(py);
        for key in keys.try_iter()? {
            all.append(key?)?;
        }
        let items: Vec<Bound<'py, PyAny>> = all.iter().collect();
        let keys = items.iter().map(|key| key.extract()).collect::<PyResult<Vec<Input<'_>>>>()?;
        let mut values = Values::new();
        self.map()?.get_many(&keys, &mut values)?;
        let values = values.iter().map(|value| value.map(|value| bytes(py, value)));
        Ok(PyList::new(py, values.collect::<Vec<_>>())?)
    }

    /// Sets many pairs, in order: a mapping, or an iterable of pairs. Each is atomic, the batch is
    /// not. Faster than one by one.
    #[pyo3(signature = (pairs, *, ttl=None))]
    fn set_many(&self, pairs: &Bound<'_, PyAny>, ttl: Option<&Bound<'_, PyAny>>) -> Answer<()> {
        let listed = match pairs.hasattr("keys")? {
            true => pairs.call_method0("items")?,
            false => pairs.clone(),
        };
        let mut kept = Vec::new();
        for pair in listed.try_iter()? {
            kept.push(pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?);
        }
        let all = kept.iter().map(|(key, value)| Ok((key.extract()?, value.extract()?)));
        let all = all.collect::<PyResult<Vec<(Input<'_>, Input<'_>)>>>()?;
        let mut done = 0;
        self.store(pairs.py(), ttl, |map| map.set_many_from(&all, &mut done))
    }

    /// Sets a value only if the key is absent; false if it is present.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn add(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<bool> {
        self.store(py, ttl, |map| Ok(map.add(&key, &value)?.is_some()))
    }

    /// Sets a value only if the key is present; false if it is absent.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn replace(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<bool> {
        self.store(py, ttl, |map| Ok(map.replace(&key, &value)?.is_some()))
    }

    /// Changes a key from one value to another (`None`: absent), if it has the first. True if it
    /// had.
    #[pyo3(signature = (key, expected, new, *, ttl=None))]
    fn compare_exchange(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        expected: Option<Input<'_>>,
        new: Option<Input<'_>>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<bool> {
        self.store(py, ttl, |map| map.compare_exchange(&key, expected.as_deref(), new.as_deref()))
    }

    /// Deletes a key; false if it is absent.
    fn delete(&self, py: Python<'_>, key: Input<'_>) -> Answer<bool> {
        self.store_value(py, None, 0, |map| map.delete(&key))
    }

    /// Deletes a key and returns the value it had, as one atomic step; `None` if it is absent.
    fn take<'py>(&self, py: Python<'py>, key: Input<'_>) -> Answer<Option<Bound<'py, PyBytes>>> {
        let value = self.store(py, None, |map| map.take(&key))?;
        Ok(value.map(|value| bytes(py, &value)))
    }

    /// Adds to a value that is an 8-byte little-endian number (wrapping), as one atomic step; an
    /// absent key counts as 0. Returns the sum.
    #[pyo3(signature = (key, by=1, *, ttl=None))]
    fn increment(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        by: i64,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<i64> {
        self.store_value(py, ttl, 0, |map| map.increment(&key, by))
    }

    /// A handle on the pair with this key, which may be absent: for a key that is used often.
    fn pair(&self, key: Input<'_>) -> Answer<Pair> {
        Pair::new(self.map()?, &key, &self.shared)
    }

    /// Lets `change` decide on the new value (`None`: absent, in and out) again after each change
    /// by another process meanwhile.
    #[pyo3(signature = (key, change, *, ttl=None))]
    fn _update(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        change: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> Answer<bool> {
        let change = change.clone().unbind();
        let map = match ttl {
            Some(time) => self.map()?.with_ttl(time_span(time)?)?,
            None => self.map()?.clone(),
        };
        let key: &[u8] = &key;
        let mut decide = |value: Option<&[u8]>| -> Answer<Option<Vec<u8>>> {
            // Its use of other handles does not belong to this wait.
            let _patience = Patience::unlimited();
            Python::attach(|py| {
                let new = change.bind(py).call1((value.map(|value| bytes(py, value)),))?;
                Ok(new.extract::<Option<Input<'_>>>()?.map(|new| new.to_vec()))
            })
        };
        let done = patiently(py, self.shared.patience, || map.try_update(key, &mut decide))?;
        Ok(done.is_some())
    }

    /// The uid of a key: a stable number, while the key exists; `None` if it is absent.
    fn uid(&self, key: Input<'_>) -> Answer<Option<u32>> {
        Ok(self.map()?.uid(&key)?.map(|uid| uid.0))
    }

    /// Key and value of a uid, without looking for a key; `None` if there is none (any more).
    fn get_uid<'py>(&self, py: Python<'py>, number: u32) -> Answer<Option<Two<'py>>> {
        Ok(self.map()?.get_uid(uid(number))?.map(|found| pair(py, &found)))
    }

    /// Sets the value of the key that a uid names, if it still names `key`; false if not.
    fn set_uid(
        &self,
        py: Python<'_>,
        number: u32,
        key: Input<'_>,
        value: Input<'_>,
    ) -> Answer<bool> {
        self.store(py, None, |map| map.set_uid(uid(number), &key, &value))
    }

    /// Deletes the key that a uid names, if it still names `key`; false if not.
    fn delete_uid(&self, py: Python<'_>, number: u32, key: Input<'_>) -> Answer<bool> {
        self.store(py, None, |map| map.delete_uid(uid(number), &key))
    }

    /// Adds to the number that a uid names, if it still names `key`; `None` if not.
    #[pyo3(signature = (number, key, by=1))]
    fn increment_uid(
        &self,
        py: Python<'_>,
        number: u32,
        key: Input<'_>,
        by: i64,
    ) -> Answer<Option<i64>> {
        self.store(py, None, |map| map.increment_uid(uid(number), &key, by))
    }

    /// Deletes the key that a uid names, if it still names `key`, and returns the value it had;
    /// `None` if not.
    fn take_uid<'py>(
        &self,
        py: Python<'py>,
        number: u32,
        key: Input<'_>,
    ) -> Answer<Option<Bound<'py, PyBytes>>> {
        let value = self.store(py, None, |map| map.take_uid(uid(number), &key))?;
        Ok(value.map(|value| bytes(py, &value)))
    }

    /// Changes the value that a uid names (`None` deletes), if it still names `key` and the value
    /// is `expected`.
    fn compare_exchange_uid(
        &self,
        py: Python<'_>,
        number: u32,
        key: Input<'_>,
        expected: Input<'_>,
        new: Option<Input<'_>>,
    ) -> Answer<bool> {
        self.store(py, None, |map| {
            map.compare_exchange_uid(uid(number), &key, &expected, new.as_deref())
        })
    }

    /// Some pair, every one about equally likely; `None` if the map is empty.
    fn random_pair<'py>(&self, py: Python<'py>) -> Answer<Option<Two<'py>>> {
        Ok(self.map()?.random_pair()?.map(|found| pair(py, &found)))
    }

    /// Deletes every key. Not one atomic step. Returns how many there were.
    fn clear(&self, py: Python<'_>) -> Answer<u64> {
        self.store(py, None, commonhold::map::Map::clear)
    }

    /// A digest of all pairs, as text: equal for maps with the same pairs, here and elsewhere.
    fn digest(&self, py: Python<'_>) -> Answer<String> {
        self.store(py, None, commonhold_replicate::digest)
    }

    /// Removes expired pairs from a cache; returns their number. They are absent in any case, but
    /// use memory until then.
    fn expire(&self, py: Python<'_>) -> Answer<u64> {
        self.store(py, None, |map| {
            let (mut cursor, mut removed) = (Cursor::START, 0);
            while !cursor.is_end() {
                let before = cursor;
                removed += map.try_expire(&mut cursor, 10_000)?;
                if cursor == before {
                    break; // Frozen, or the stream is locked.
                }
            }
            Ok(removed)
        })
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        json(&self.store(py, None, commonhold::map::Map::stat)?)
    }

    fn _follow(&self, py: Python<'_>, position: Option<&str>) -> Answer<Follower> {
        let map = self.map()?;
        let position = position.map(str::parse).transpose().map_err(|error: Error| error)?;
        let follower = patiently(py, self.shared.patience, || {
            Ok(match position {
                Some(position) => map.follow_from(position)?,
                None => map.follow()?,
            })
        })?;
        Ok(Follower::new(follower, &self.shared))
    }

    /// Waits until every change made so far is in the map's journal and safe on the disk, for
    /// `timeout` seconds at most. Returns the position in the stream up to which that is so.
    #[pyo3(signature = (timeout=30.0))]
    fn sync(&self, py: Python<'_>, timeout: f64) -> Answer<String> {
        self.wait_for_earlier_changes(py, timeout, |map, end, slice| {
            map.sync_to(end, slice).map(|()| end.to_string())
        })
    }

    /// Waits until at least `count` replicas have applied every change made so far, so that their
    /// readers see it; for `timeout` seconds at most. Returns the number of replicas that have.
    #[pyo3(signature = (count, timeout=30.0))]
    fn wait_for_replicas(&self, py: Python<'_>, count: usize, timeout: f64) -> Answer<usize> {
        self.wait_for_earlier_changes(py, timeout, |map, end, slice| {
            map.wait_for_replicas_to(end, count, slice)
        })
    }

    /// The same for the replica with this name; if several have it, for one of them.
    #[pyo3(signature = (name, timeout=30.0))]
    fn wait_for_replica(&self, py: Python<'_>, name: &str, timeout: f64) -> Answer<()> {
        self.wait_for_earlier_changes(py, timeout, |map, end, slice| {
            map.wait_for_replica_to(end, name, slice)
        })
    }

    /// The seconds after which a pair expires: `math.inf` if it never does, as in maps that are not
    /// caches; `None` if the key is absent. Does not count as a use of the pair.
    fn remaining_ttl(&self, key: Input<'_>) -> Answer<Option<f64>> {
        Ok(self.map()?.remaining_ttl(&key)?.map(|left| match left {
            Duration::MAX => f64::INFINITY,
            left => left.as_secs_f64(),
        }))
    }

    /// Makes a pair expire `ttl` (seconds, or a timedelta) from now, and keeps its value, in one
    /// atomic step; false if the key is absent. Caches only.
    fn touch(&self, py: Python<'_>, key: Input<'_>, ttl: &Bound<'_, PyAny>) -> Answer<bool> {
        let (key, ttl) = (&*key, time_span(ttl)?);
        self.store(py, None, |map| map.touch(key, ttl))
    }

    /// The age of a replica's contents in seconds, by the clocks of this machine and of the first
    /// origin's machine; `None` if the map is not a replica, or if its replica does not know the age.
    fn lag(&self) -> Answer<Option<f64>> {
        Ok(self.map()?.lag()?.map(|lag| lag.as_secs_f64()))
    }

    /// Raises `StaleError` if a replica's contents are older than `max_age` (seconds, or a
    /// timedelta), or if their age is not known. Reads that follow see these contents or later ones.
    fn ensure_fresh(&self, max_age: &Bound<'_, PyAny>) -> Answer<()> {
        Ok(self.map()?.ensure_fresh(time_span(max_age)?)?)
    }

    /// The value of a key, or `None`; raises `StaleError` as `ensure_fresh` does, if the value comes
    /// from older contents.
    fn get_fresh<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        max_age: &Bound<'py, PyAny>,
    ) -> Answer<Option<Bound<'py, PyBytes>>> {
        let value = self.map()?.get_fresh(&key, time_span(max_age)?)?;
        Ok(value.map(|value| bytes(py, &value)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<commonhold map {:?} in {}>",
            self.map.name(),
            self.shared.name_of().path().display()
        )
    }
}
