//! [`TypedMap`]: a map whose keys and values have types.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::codec::{Codec, I64, U64};
use crate::map::api::handle::Map;
use crate::map::api::walk::Iter;
use crate::map::engine::iterate::Pair;
use crate::map::engine::many::Values;
use crate::map::options::Uid;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A handle to a map whose keys and values have types; see [`Map::typed`].
///
/// The [`Codec`]s translate keys and values to the bytes that the map stores. Other handles, with
/// other types or in other languages, may use the map at the same time. Every operation behaves
/// like that of [`Map`] with the same name and returns the same errors, and also: `Mismatch` if the
/// codec cannot read the map's bytes, `Invalid` if it cannot write a value.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-typed-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// use commonhold::map::{MapOptions, Text, U64};
///
/// let map = hold.maps().open_or_create("visits", MapOptions::general())?;
/// let visits = map.typed::<Text, U64>();
/// visits.set("home", 41)?;
/// assert_eq!(visits.increment("home", 1)?, 42);
/// for pair in &visits {
///     let (page, count) = pair?;
///     println!("{page}: {count}");
/// }
/// # drop((map, visits));
/// # drop(hold);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
pub struct TypedMap<K, V> {
    map: Map,
    codecs: PhantomData<fn() -> (K, V)>,
}

impl Map {
    /// A handle to the same map whose keys and values have types.
    #[must_use]
    pub fn typed<K: Codec, V: Codec>(&self) -> TypedMap<K, V> {
        TypedMap { map: self.clone(), codecs: PhantomData }
    }
}

impl<K, V> Clone for TypedMap<K, V> {
    fn clone(&self) -> TypedMap<K, V> {
        TypedMap { map: self.map.clone(), codecs: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

/// Reading.
impl<K: Codec, V: Codec> TypedMap<K, V> {
    /// The underlying map of bytes.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The value of a key, `None` if the key is absent.
    pub fn get(&self, key: K::Value<'_>) -> Result<Option<V::Owned>> {
        self.map.get(K::encode(key)?)?.map(|value| self.value(value)).transpose()
    }

    /// The values of many keys, in their order; see [`Map::get_many`].
    pub fn get_many(&self, keys: &[K::Value<'_>]) -> Result<Vec<Option<V::Owned>>> {
        let keys: Vec<_> = keys.iter().map(|key| K::encode(*key)).collect::<Result<_>>()?;
        let mut found = Values::new();
        self.map.get_many(&keys, &mut found)?;
        let read = |value: Option<&[u8]>| value.map(|v| self.value(v.to_vec())).transpose();
        found.iter().map(read).collect()
    }

    /// True if a key is present.
    pub fn contains(&self, key: K::Value<'_>) -> Result<bool> {
        self.map.contains(K::encode(key)?)
    }

    /// The uid of a key, `None` if the key is absent.
    pub fn uid(&self, key: K::Value<'_>) -> Result<Option<Uid>> {
        self.map.uid(K::encode(key)?)
    }

    /// The key and the value that a uid names, `None` if it names none.
    pub fn get_uid(&self, uid: Uid) -> Result<Option<(K::Owned, V::Owned)>> {
        self.map.get_uid(uid)?.map(|pair| self.pair(pair)).transpose()
    }

    /// A random pair, `None` if the map is empty.
    pub fn random_pair(&self) -> Result<Option<(K::Owned, V::Owned)>> {
        self.map.random_pair()?.map(|pair| self.pair(pair)).transpose()
    }

    /// The number of pairs.
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// True if there are no pairs.
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// Iterates over all pairs, like [`Map::iter`].
    pub fn iter(&self) -> TypedIter<K, V> {
        TypedIter { pairs: self.map.iter(), map: self.clone() }
    }

    /// Iterates over all keys, like [`Map::keys`].
    pub fn keys(&self) -> impl Iterator<Item = Result<K::Owned>> + use<K, V> {
        let map = self.clone();
        self.map.keys().map(move |key| map.key(key?))
    }

    fn key(&self, bytes: Vec<u8>) -> Result<K::Owned> {
        let len = bytes.len();
        K::decode(bytes).map_err(|expected| self.mismatch("a key", &expected, len))
    }

    fn value(&self, bytes: Vec<u8>) -> Result<V::Owned> {
        let len = bytes.len();
        V::decode(bytes).map_err(|expected| self.mismatch("a value", &expected, len))
    }

    fn pair(&self, (key, value): Pair) -> Result<(K::Owned, V::Owned)> {
        Ok((self.key(key)?, self.value(value)?))
    }

    #[cold]
    fn mismatch(&self, what: &str, expected: &str, len: usize) -> Error {
        let name = self.map.name();
        let text = format!(
            "map '{name}': expected {expected} as {what}, got {len} bytes of another kind; \
             open the map with the types that it was written with"
        );
        Error::new(ErrorKind::Mismatch, text)
    }
}

/// Writing.
impl<K: Codec, V: Codec> TypedMap<K, V> {
    /// Sets the value of a key, present or not. Returns its uid.
    pub fn set(&self, key: K::Value<'_>, value: V::Value<'_>) -> Result<Uid> {
        self.map.set(K::encode(key)?, V::encode(value)?)
    }

    /// Sets many pairs, in order; see [`Map::set_many`].
    pub fn set_many(&self, pairs: &[(K::Value<'_>, V::Value<'_>)]) -> Result<()> {
        let encode = |(key, value): &(_, _)| Ok((K::encode(*key)?, V::encode(*value)?));
        self.map.set_many(&pairs.iter().map(encode).collect::<Result<Vec<_>>>()?)
    }

    /// Sets a value that expires after `ttl`. Caches only.
    pub fn set_with_ttl(
        &self,
        key: K::Value<'_>,
        value: V::Value<'_>,
        ttl: Duration,
    ) -> Result<Uid> {
        self.map.set_with_ttl(K::encode(key)?, V::encode(value)?, ttl)
    }

    /// A handle to the same map: all pairs that it stores expire after `ttl`. Caches only.
    pub fn with_ttl(&self, ttl: Duration) -> Result<TypedMap<K, V>> {
        Ok(self.map.with_ttl(ttl)?.typed())
    }

    /// The time until a pair expires; see [`Map::remaining_ttl`].
    pub fn remaining_ttl(&self, key: K::Value<'_>) -> Result<Option<Duration>> {
        self.map.remaining_ttl(K::encode(key)?)
    }

    /// Makes a pair expire `ttl` from now, and keeps its value; see [`Map::touch`].
    pub fn touch(&self, key: K::Value<'_>, ttl: Duration) -> Result<bool> {
        self.map.touch(K::encode(key)?, ttl)
    }

    /// Sets a value only if the key is absent. Returns its uid, `None` if the key is present.
    pub fn add(&self, key: K::Value<'_>, value: V::Value<'_>) -> Result<Option<Uid>> {
        self.map.add(K::encode(key)?, V::encode(value)?)
    }

    /// Sets a value only if the key is present. Returns its uid, `None` if the key is absent.
    pub fn replace(&self, key: K::Value<'_>, value: V::Value<'_>) -> Result<Option<Uid>> {
        self.map.replace(K::encode(key)?, V::encode(value)?)
    }

    /// Changes a key from `expected` to `new` in one atomic step (`None` stands for absent); see
    /// [`Map::compare_exchange`]. Compares the bytes that the codec writes.
    pub fn compare_exchange(
        &self,
        key: K::Value<'_>,
        expected: Option<V::Value<'_>>,
        new: Option<V::Value<'_>>,
    ) -> Result<bool> {
        let (expected, new) =
            (expected.map(V::encode).transpose()?, new.map(V::encode).transpose()?);
        let key = K::encode(key)?;
        self.map.compare_exchange(
            key,
            expected.as_ref().map(AsRef::as_ref),
            new.as_ref().map(AsRef::as_ref),
        )
    }

    /// Deletes a key. Returns false if it is absent.
    pub fn delete(&self, key: K::Value<'_>) -> Result<bool> {
        self.map.delete(K::encode(key)?)
    }

    /// Deletes a key and returns the value it had, in one atomic step. Deletes the key even if the
    /// codec cannot read its value.
    pub fn take(&self, key: K::Value<'_>) -> Result<Option<V::Owned>> {
        self.map.take(K::encode(key)?)?.map(|value| self.value(value)).transpose()
    }

    /// Changes a value atomically: stores the value that `change` returns for the current one
    /// (`None` deletes the key). `change` runs again if the key has changed meanwhile; see
    /// [`Map::update`].
    pub fn update(
        &self,
        key: K::Value<'_>,
        mut change: impl FnMut(Option<V::Owned>) -> Option<V::Owned>,
    ) -> Result<Option<Uid>> {
        self.try_update(key, |value| Ok(change(value)))
    }

    /// Like [`update`](Self::update); an error of `change` ends the call and changes nothing.
    ///
    /// # Errors
    /// Those of [`Map::update`] and those of `change`.
    pub fn try_update<E: From<Error>>(
        &self,
        key: K::Value<'_>,
        mut change: impl FnMut(Option<V::Owned>) -> std::result::Result<Option<V::Owned>, E>,
    ) -> std::result::Result<Option<Uid>, E> {
        self.map.try_update(K::encode(key)?, |value| {
            let value = value.map(|value| self.value(value.to_vec())).transpose()?;
            let Some(new) = change(value)? else { return Ok(None) };
            Ok(Some(V::encode(V::borrow(&new))?.as_ref().to_vec()))
        })
    }

    /// Sets the value of the key that a uid names; false if it no longer names `expected_key`.
    pub fn set_uid(
        &self,
        uid: Uid,
        expected_key: K::Value<'_>,
        value: V::Value<'_>,
    ) -> Result<bool> {
        self.map.set_uid(uid, K::encode(expected_key)?, V::encode(value)?)
    }

    /// Deletes the key that a uid names; false if it no longer names `expected_key`.
    pub fn delete_uid(&self, uid: Uid, expected_key: K::Value<'_>) -> Result<bool> {
        self.map.delete_uid(uid, K::encode(expected_key)?)
    }

    /// Deletes all pairs and returns their number; see [`Map::clear`].
    pub fn clear(&self) -> Result<u64> {
        self.map.clear()
    }
}

/// Unsigned numbers.
impl<K: Codec> TypedMap<K, U64> {
    /// Adds to a value in one atomic step. The addition wraps, and an absent key counts as 0.
    /// Returns the sum.
    pub fn increment(&self, key: K::Value<'_>, by: u64) -> Result<u64> {
        Ok(self.map.increment(K::encode(key)?, by.cast_signed())?.cast_unsigned())
    }
}

/// Signed numbers.
impl<K: Codec> TypedMap<K, I64> {
    /// Adds to a value in one atomic step. The addition wraps, and an absent key counts as 0.
    /// Returns the sum.
    pub fn increment(&self, key: K::Value<'_>, by: i64) -> Result<i64> {
        self.map.increment(K::encode(key)?, by)
    }
}

/// Iterator over the pairs of a typed map; see [`TypedMap::iter`].
pub struct TypedIter<K, V> {
    pairs: Iter,
    map: TypedMap<K, V>,
}

impl<K: Codec, V: Codec> Iterator for TypedIter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pairs.next()?.and_then(|pair| self.map.pair(pair)))
    }
}

impl<K: Codec, V: Codec> IntoIterator for &TypedMap<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;
    type IntoIter = TypedIter<K, V>;

    fn into_iter(self) -> TypedIter<K, V> {
        self.iter()
    }
}
