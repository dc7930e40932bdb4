//! Lists as values: push, pop, shift and unshift on a key, each one atomic step.
//!
//! A list is an ordinary value, so it lives, expires and is copied as any other. It is written anew with every
//! change: a change costs time and memory traffic in proportion to the bytes of the list, which suits lists of up to some
//! kilobytes. For longer ones there are queues and channels.
//!
//! ```text
//! list    = count (u32), element* ;
//! element = length (u32), bytes, length (u32) ;
//! ```
//!
//! Numbers are little-endian. The second length leads from the end to the last element. An empty list is no value:
//! the key is absent.

use crate::error::{Error, ErrorKind, Result};
use crate::map::handle::Map;

/// Values are lists of byte strings; see [`Map::as_lists`].
///
/// Every change is atomic, also under kills: a reader sees the list before it or after it. Changes of one list by
/// several threads or processes repeat their work when they collide; none is lost.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-lists-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// let jobs = hold.map("jobs", commonhold::MapOptions::general())?.as_lists();
/// jobs.push("mail", "first")?;
/// jobs.push("mail", "second")?;
/// assert_eq!(jobs.shift("mail")?.as_deref(), Some(&b"first"[..]));
/// assert_eq!(jobs.len("mail")?, 1);
/// # drop(jobs);
/// # drop(hold);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ListView(Map);

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Map {
    /// A view of the values as lists.
    pub fn as_lists(&self) -> ListView {
        ListView(self.clone())
    }
}

impl ListView {
    /// Appends an element; an absent key counts as an empty list. Returns the new length.
    ///
    /// # Errors
    /// `Mismatch` if the value is no list; `TooLarge`; those of [`Map::set`]. Nothing is changed then. The same for every
    /// other change.
    pub fn push(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<u32> {
        self.insert(key.as_ref(), element.as_ref(), End::Back)
    }

    /// Puts an element in front. Returns the new length.
    pub fn unshift(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<u32> {
        self.insert(key.as_ref(), element.as_ref(), End::Front)
    }

    /// Takes the last element; `None` if there is none.
    pub fn pop(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.remove(key.as_ref(), End::Back)
    }

    /// Takes the first element; `None` if there is none.
    pub fn shift(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.remove(key.as_ref(), End::Front)
    }

    /// The number of elements; 0 if the key is absent.
    pub fn len(&self, key: impl AsRef<[u8]>) -> Result<u32> {
        let value = self.0.get(key)?;
        Ok(self.list(value.as_deref())?.0)
    }

    /// True if there are none.
    pub fn is_empty(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.len(key)? == 0)
    }

    /// All elements, from the first, as they were at one moment.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let value = self.0.get(key)?;
        let (count, mut rest) = self.list(value.as_deref())?;
        let mut elements = Vec::new();
        for _ in 0..count {
            let (element, others) = front(rest).ok_or_else(|| self.no_list())?;
            elements.push(element.to_vec());
            rest = others;
        }
        if rest.is_empty() { Ok(elements) } else { Err(self.no_list()) }
    }

    fn insert(&self, key: &[u8], element: &[u8], end: End) -> Result<u32> {
        let len = u32::try_from(element.len()).map_err(|_| self.too_large())?.to_le_bytes();
        let mut count = 0;
        self.0.try_update(key, |value| {
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

    fn remove(&self, key: &[u8], end: End) -> Result<Option<Vec<u8>>> {
        let mut removed = None;
        self.0.try_update(key, |value| {
            let (count, elements) = self.list(value)?;
            removed = None;
            if count == 0 {
                return Ok::<_, Error>(None);
            }
            let taken = if end == End::Front { front(elements) } else { back(elements) };
            let (element, rest) = taken.ok_or_else(|| self.no_list())?;
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
        let text = format!("map '{}': a value is not a list", self.0.name());
        Error::new(ErrorKind::Mismatch, text)
    }

    fn too_large(&self) -> Error {
        let text =
            format!("map '{}': a list and each element have at most 2^32 - 1 bytes", self.0.name());
        Error::new(ErrorKind::TooLarge, text)
    }
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
