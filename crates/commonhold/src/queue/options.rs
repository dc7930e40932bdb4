//! Options of a queue.

use crate::error::{Error, ErrorKind, Result};
use crate::queue::layout::{MAX_QUEUES, NAME_BYTES};
use std::fmt;

/// Options of a queue, fixed when it is created: the number and the size of the elements, and the
/// named queues that they move between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    pub(crate) elements: u32,
    pub(crate) element_bytes: u32,
    pub(crate) names: Vec<String>,
    pub(crate) orphans: String,
}

impl fmt::Display for QueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueOptions { elements, element_bytes, names, orphans } = self;
        let names = names.join(", ").escape_default().to_string();
        let orphans = orphans.escape_default();
        write!(f, "{elements} elements of {element_bytes} bytes in {names} (orphans: {orphans})")
    }
}

impl QueueOptions {
    /// A queue of `elements` elements (1 to 2^31) of `element_bytes` bytes each (at least 1), with
    /// one named queue, `free`.
    ///
    /// Elements of 64 bytes and more begin on cache lines.
    pub fn new(elements: u32, element_bytes: u32) -> QueueOptions {
        let free = String::from("free");
        QueueOptions { elements, element_bytes, names: vec![free.clone()], orphans: free }
    }

    /// Sets the named queues, 1 to 64, with names of 1 to 63 bytes. All elements begin in the first
    /// one. It also receives the elements of processes that died, unless [`orphans`](Self::orphans)
    /// names another one.
    pub fn queues<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> QueueOptions {
        self.names = names.into_iter().map(Into::into).collect();
        self.orphans = self.names.first().cloned().unwrap_or_default();
        self
    }

    /// Sets the named orphan queue. It receives the elements that a process had in flight when
    /// it died, or dropped without pushing them. Call this after [`queues`](Self::queues).
    pub fn orphans(mut self, name: impl Into<String>) -> QueueOptions {
        self.orphans = name.into();
        self
    }

    /// # Errors
    /// `Invalid`.
    pub(crate) fn validate(&self, name: &str) -> Result<()> {
        let invalid = |what: &str| {
            let text = format!("queue '{}': {what}", name.escape_default());
            Err(Error::new(ErrorKind::Invalid, text))
        };
        if self.elements == 0 || self.elements > 1 << 31 || self.element_bytes == 0 {
            return invalid("expected 1 to 2^31 elements of at least 1 byte");
        }
        if self.names.is_empty() || self.names.len() > MAX_QUEUES as usize {
            return invalid("expected 1 to 64 named queues");
        }
        let bad = |n: &String| n.is_empty() || n.len() >= NAME_BYTES || n.contains('\0');
        if self.names.iter().any(bad) {
            return invalid("expected names of 1 to 63 bytes without NUL for its queues");
        }
        if (1..self.names.len()).any(|n| self.names[..n].contains(&self.names[n])) {
            return invalid("two of its queues have the same name");
        }
        if !self.names.contains(&self.orphans) {
            return invalid("the orphan queue is not one of its queues");
        }
        Ok(())
    }

    pub(crate) fn orphans_number(&self) -> u32 {
        self.names.iter().position(|name| *name == self.orphans).unwrap_or(0) as u32
    }
}
