//! Where a worker takes contents from: what is kept, as long as it is known to be fresh, or the source.
//!
//! Freshness is the worker's own affair: it remembers for each id which version the source had when it last looked
//! ([`Looks`]), and looks again when that is longer ago than the bound. Kept contents, and files that are open, are used only if
//! they are of that version. So no worker serves anything that was replaced or removed longer ago than the bound, whoever
//! keeps it, and for whomever it was kept.
//!
//! Contents are read after the look that gives them their version, and kept only if they had been quiet by then
//! ([`Stamp::is_settled`](super::Stamp)): kept contents are never older than the version they are kept under.

use super::http::answer::{Facts, Lines};
use super::http::types;
use super::looks::{Looks, OpenFile, Seen};
use super::packed::{Packed, pack};
use super::payload::Contents;
use super::source::{Coding, Opened, Source};
use super::stamp::{Stamp, mixed_numbers};
use super::store::Store;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of contents of at most so many bytes the entity tag is made from the contents, even if they are not kept.
const MOST_READ: u64 = 1 << 20;

/// What the key of a description begins with, before what that of the contents does.
const DESCRIPTION: u8 = b'#';

/// What a worker serves from.
pub(crate) struct Shelf<S, F: Source> {
    store: Arc<S>,
    source: F,
    looks: Looks<F::Handle>,
    /// Looks are believed so long.
    bound: Duration,
    /// Contents of more bytes are never kept.
    most_kept: u64,
    /// A key, while it is needed.
    key: Vec<u8>,
}

/// Contents that can be sent.
pub(crate) enum Stock<H> {
    /// Kept, or read whole: [`Packed`].
    Packed(Contents),
    /// To be sent from the source.
    Open(Arc<OpenFile<H>>),
}

/// Where contents came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They had been kept.
    Kept,
    /// They had not, and could have been.
    Read,
    /// They are too large to be kept.
    Source,
}

impl<S: Store, F: Source> Shelf<S, F> {
    pub(crate) fn new(store: Arc<S>, source: F, bound: Duration, most_kept: u64) -> Shelf<S, F> {
        Shelf { store, source, looks: Looks::new(), bound, most_kept, key: Vec::new() }
    }

    pub(crate) fn source(&self) -> &F {
        &self.source
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    /// Takes contents back that were sent.
    pub(crate) fn recycle(&self, contents: Contents) {
        self.store.recycle(contents);
    }

    /// Closes files that nobody has asked for in a while.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.looks.close_unused(now);
    }

    /// What is there under an id, as far as is known.
    pub(crate) fn look(&mut self, id: &[u8], now: Instant) -> io::Result<Option<Seen>> {
        if let Some(seen) = self.looks.recall(id, now, self.bound) {
            return Ok(Some(seen));
        }
        // The time before the look: what changes after it may go unnoticed until `bound` after that.
        let at = Instant::now();
        let found = self.source.look(id)?;
        match &found {
            Some(found) => self.looks.note(id, at, Seen::of(found)),
            None if self.looks.forget(id) => self.forget(id),
            None => {}
        }
        Ok(found.as_ref().map(Seen::of))
    }

    /// Looks again the next time.
    pub(crate) fn doubt(&mut self, id: &[u8]) {
        self.looks.forget(id);
    }

    /// Drops what is kept under an id that is gone.
    fn forget(&mut self, id: &[u8]) {
        for coding in [Coding::Plain, Coding::Brotli, Coding::Gzip] {
            set_key(&mut self.key, id, coding);
            self.store.remove(&self.key);
            self.key.insert(0, DESCRIPTION);
            self.store.remove(&self.key);
        }
    }

    /// The contents in one coding, and where they come from; `None` if they are gone meanwhile.
    pub(crate) fn take(
        &mut self,
        id: &[u8],
        seen: &Seen,
        coding: Coding,
    ) -> io::Result<Option<(Stock<F::Handle>, Origin)>> {
        if let Some(file) = self.looks.file(id, seen, coding) {
            return Ok(Some((Stock::Open(file), Origin::Source)));
        }
        if let Some(contents) = self.looks.contents(id, seen, coding) {
            return Ok(Some((Stock::Packed(contents), Origin::Kept)));
        }
        set_key(&mut self.key, id, coding);
        if let Some(kept) = self.store.get(&self.key) {
            let mut contents: Contents = kept.into();
            if Packed::of(contents.as_ref()).is_some_and(|packed| packed.version == seen.version) {
                if let (Contents::Own(_), true) = (&contents, self.looks.was_asked(id, seen)) {
                    contents = contents.into_shared();
                    self.looks.lay(id, seen, coding, &contents);
                }
                return Ok(Some((Stock::Packed(contents), Origin::Kept)));
            }
        }
        let Some(opened) = self.source.open(id, coding)? else { return Ok(None) };
        if opened.stamp.len <= self.most_kept {
            return Ok(Some((self.read(seen, coding, &opened)?, Origin::Read)));
        }
        let is_settled = opened.stamp.is_settled();
        let file = Arc::new(self.open(id, seen, coding, opened)?);
        if is_settled {
            self.looks.keep(id, seen, coding, &file);
        }
        Ok(Some((Stock::Open(file), Origin::Source)))
    }

    /// Reads contents whole, and keeps them.
    fn read(
        &mut self,
        seen: &Seen,
        coding: Coding,
        opened: &Opened<F::Handle>,
    ) -> io::Result<Stock<F::Handle>> {
        let stamp = &opened.stamp;
        // One more, to notice that it has grown.
        let contents = self.source.read(&opened.handle, 0, stamp.len as usize + 1)?;
        let lines = Lines::new(&Facts {
            len: contents.len() as u64,
            kind: &types::of(&opened.name),
            etag: tag_of_contents(&contents),
            modified: stamp.modified(),
            coding,
            varies: seen.varies(),
        });
        let packed = pack(seen.version, stamp.modified(), &lines, &contents);
        if contents.len() as u64 == stamp.len && stamp.is_settled() {
            self.store.put(&self.key, packed.clone());
        }
        Ok(Stock::Packed(packed.into()))
    }

    /// Describes contents that are sent from the source. The description is kept, because making it may mean to read them.
    fn open(
        &mut self,
        id: &[u8],
        seen: &Seen,
        coding: Coding,
        opened: Opened<F::Handle>,
    ) -> io::Result<OpenFile<F::Handle>> {
        let Opened { handle, stamp, name } = opened;
        let (len, modified) = (stamp.len, stamp.modified());
        set_key(&mut self.key, id, coding);
        self.key.insert(0, DESCRIPTION);
        // What is open may be newer than what was seen.
        let version = mixed_numbers(&[seen.version, stamp.to_bits()]);
        if let Some(lines) = self.description(version) {
            return Ok(OpenFile { handle, len, modified, lines });
        }
        let etag = match len <= MOST_READ {
            true => tag_of_contents(&self.source.read(&handle, 0, len as usize)?),
            false => tag_of_version(&stamp),
        };
        let (kind, varies) = (&*types::of(&name), seen.varies());
        let lines = Lines::new(&Facts { len, kind, etag, modified, coding, varies });
        if stamp.is_settled() {
            self.store.put(&self.key, pack(version, modified, &lines, &[]));
        }
        Ok(OpenFile { handle, len, modified, lines })
    }

    /// The lines that are kept under the key, if they are of this version.
    fn description(&self, version: u64) -> Option<Lines<'static>> {
        let contents: Contents = self.store.get(&self.key)?.into();
        let packed = Packed::of(contents.as_ref()).filter(|p| p.version == version)?;
        Some(packed.lines.into_owned())
    }
}

/// Under which contents are kept: a coding, then the id.
fn set_key(key: &mut Vec<u8>, id: &[u8], coding: Coding) {
    key.clear();
    key.push(match coding {
        Coding::Plain => b'=',
        Coding::Brotli => b'b',
        Coding::Gzip => b'g',
    });
    key.extend_from_slice(id);
}

/// The same for the same contents, on every machine.
fn tag_of_contents(contents: &[u8]) -> u128 {
    let digest = Sha256::digest(contents);
    digest.iter().take(16).fold(0, |tag, &byte| tag << 8 | u128::from(byte))
}

/// Another one whenever the file may have changed; nobody has to read it.
fn tag_of_version(stamp: &Stamp) -> u128 {
    u128::from(stamp.to_bits()) << 64 | u128::from(stamp.len)
}
