//! Lists as values: push, pop, shift and unshift on a key, each one atomic step.
//!
//! A list is an ordinary value: it expires and is copied like any other. Every change rewrites the
//! whole list, so its cost is proportional to the list's length in bytes. That suits lists of up to
//! a few kilobytes; queues and channels suit longer ones.
//!
//! ```text
//! list    = count (u32), element* ;
//! element = length (u32), bytes, length (u32) ;
//! ```
//!
//! Numbers are little-endian. The second length leads from the end to the last element. An empty
//! list has no value: its key is absent.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::codec::Codec;
#[cfg(doc)]
use crate::map::api::handle::Map;
use crate::map::api::typed::TypedMap;

/// The codec of lists of byte strings. The value of a key is the list in order from its first
/// element. While the list is empty, the key is absent.
///
/// A typed map with this codec has operations on both ends of a list. Each is one atomic step, even
/// if the process is killed: a reader sees the list before the change or after it. Each costs time
/// in proportion to the list's bytes. When changes of one list by several threads or processes
/// collide, they are repeated; none is lost.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-lists-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// use commonhold::map::{List, MapOptions, Text};
///
/// let jobs = hold.maps().open_or_create("jobs", MapOptions::general())?.typed::<Text, List>();
/// jobs.push("mail", "first")?;
/// jobs.push("mail", "second")?;
/// assert_eq!(jobs.shift("mail")?.as_deref(), Some(&b"first"[..]));
/// assert_eq!(jobs.list_len("mail")?, 1);
/// # drop(jobs);
/// # drop(hold);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum List {}

impl Codec for List {
    type Value<'a> = &'a [Vec<u8>];
    type Owned = Vec<Vec<u8>>;
    type Encoded<'a> = Vec<u8>;

    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
        let length = |len: usize| u32::try_from(len).map(u32::to_le_bytes);
        let too_large = |_| Error::new(ErrorKind::TooLarge, TOO_LARGE);
        if value.is_empty() {
            let text = "an empty list has no bytes; delete its key";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let mut bytes = length(value.len()).map_err(too_large)?.to_vec();
        for element in value {
            let len = length(element.len()).map_err(too_large)?;
            bytes.extend_from_slice(&len);
            bytes.extend_from_slice(element);
            bytes.extend_from_slice(&len);
        }
        Ok(bytes)
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<Vec<Vec<u8>>, String> {
        elements(&bytes).ok_or_else(|| "a list".to_owned())
    }

    fn borrow(owned: &Vec<Vec<u8>>) -> &[Vec<u8>] {
        owned
    }
}

const TOO_LARGE: &str = "a list has at most 2^32 - 1 elements of at most 2^32 - 1 bytes";

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// Lists.
impl<K: Codec> TypedMap<K, List> {
    /// Appends an element at the back. An absent key counts as an empty list. Returns the new
    /// length.
    ///
    /// # Errors
    /// `Mismatch` if the value is not a list; `TooLarge`; those of [`Map::set`]. After an error the
    /// list is unchanged. All changes of lists return these errors.
    pub fn push(&self, key: K::Value<'_>, element: impl AsRef<[u8]>) -> Result<u32> {
        self.insert(key, element.as_ref(), End::Back)
    }

    /// Inserts an element at the front. Returns the new length.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn unshift(&self, key: K::Value<'_>, element: impl AsRef<[u8]>) -> Result<u32> {
        self.insert(key, element.as_ref(), End::Front)
    }

    /// Removes and returns the last element; `None` if the list is empty.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn pop(&self, key: K::Value<'_>) -> Result<Option<Vec<u8>>> {
        self.remove(key, End::Back)
    }

    /// Removes and returns the first element; `None` if the list is empty.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn shift(&self, key: K::Value<'_>) -> Result<Option<Vec<u8>>> {
        self.remove(key, End::Front)
    }

    /// The number of elements of a list; 0 if the key is absent.
    ///
    /// # Errors
    /// `Mismatch` if the value is not a list; those of [`Map::get`].
    pub fn list_len(&self, key: K::Value<'_>) -> Result<u32> {
        let value = self.map().get(K::encode(key)?)?;
        Ok(self.list(value.as_deref())?.0)
    }

    fn insert(&self, key: K::Value<'_>, element: &[u8], end: End) -> Result<u32> {
        let len = u32::try_from(element.len()).map_err(|_| self.too_large())?.to_le_bytes();
        let mut count = 0;
        self.map().try_update(K::encode(key)?, |value| {
            let (before, elements) = self.list(value)?;
            count = before.checked_add(1).ok_or_else(|| self.too_large())?;
            let number = count.to_le_bytes();
            let added: [&[u8]; 3] = [&len, element, &len];
            let parts: [&[u8]; 3] = match end {
                End::Front => [&number, &added.concat(), elements],
                End::Back => [&number, elements, &added.concat()],
            };
            Ok::<_, Error>(Some(parts.concat()))
        })?;
        Ok(count)
    }

    fn remove(&self, key: K::Value<'_>, end: End) -> Result<Option<Vec<u8>>> {
        let mut removed = None;
        self.map().try_update(K::encode(key)?, |value| {
            let (count, elements) = self.list(value)?;
            removed = None;
            if count == 0 {
                return Ok::<_, Error>(None);
            }
            let taken = if end == End::Front { front(elements) } else { back(elements) };
            let (element, rest) = taken.ok_or_else(|| self.no_list())?;
            if (count == 1) != rest.is_empty() {
                return Err(self.no_list());
            }
            removed = Some(element.to_vec());
            Ok((count > 1).then(|| [&(count - 1).to_le_bytes(), rest].concat()))
        })?;
        Ok(removed)
    }

    /// The count and the elements of a value.
    fn list<'v>(&self, value: Option<&'v [u8]>) -> Result<(u32, &'v [u8])> {
        let Some(value) = value else { return Ok((0, &[])) };
        let (count, elements) = value.split_first_chunk().ok_or_else(|| self.no_list())?;
        let count = u32::from_le_bytes(*count);
        if count > 0 && !elements.is_empty() { Ok((count, elements)) } else { Err(self.no_list()) }
    }

    fn no_list(&self) -> Error {
        let text = format!("map '{}': a value is not a list", self.map().name());
        Error::new(ErrorKind::Mismatch, text)
    }

    fn too_large(&self) -> Error {
        let text = format!("map '{}': {TOO_LARGE}", self.map().name());
        Error::new(ErrorKind::TooLarge, text)
    }
}

/// The elements of a list that is not empty.
fn elements(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let mut elements = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (element, others) = front(rest)?;
        elements.push(element.to_vec());
        rest = others;
    }
    (rest.is_empty() && !elements.is_empty()).then_some(elements)
}

/// The first element and the others.
fn front(elements: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = elements.split_first_chunk()?;
    let (element, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let (again, rest) = rest.split_first_chunk()?;
    (again == len).then_some((element, rest))
}

/// The last element and the others.
fn back(elements: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, len) = elements.split_last_chunk()?;
    let at = rest.len().checked_sub(u32::from_le_bytes(*len) as usize)?;
    let (rest, element) = rest.split_at(at);
    let (rest, again) = rest.split_last_chunk()?;
    (again == len).then_some((element, rest))
}
