//! Where a worker takes contents from: what is kept, as long as it is known to be fresh, or the source.
//!
//! Freshness is the worker's own affair: it remembers for each id which version the source had when it last looked, and looks
//! again when that is longer ago than the bound. Kept contents are used only if they are of that version. So no worker serves
//! anything that was replaced or removed longer ago than the bound, whoever keeps it, and for whomever it was kept.
//!
//! Contents are read after the look that gives them their version, and kept only if they had been quiet by then
//! ([`Stamp::is_settled`]): kept contents are never older than the version they are kept under.

use super::http::answer::{Facts, Lines};
use super::http::types;
use super::packed::{Packed, pack};
use super::payload::Contents;
use super::source::{Coding, Found, Opened, Source};
use super::stamp::{Stamp, mixed};
use super::store::Store;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Looks that a worker remembers; two ids for one place push each other out. Each takes 40 bytes.
const PLACES: usize = 8192;

/// What a worker serves from.
pub(crate) struct Shelf<S, F> {
    store: Arc<S>,
    source: F,
    looks: Vec<Look>,
    /// Looks are believed so long.
    bound: Duration,
    /// Contents of more bytes are never kept.
    most_kept: u64,
    /// A key, while it is needed.
    key: Vec<u8>,
}

/// A look at the source.
#[derive(Clone, Copy, Debug)]
struct Look {
    id: u64,
    at: Instant,
    seen: Seen,
}

/// What is there under an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    version: u64,
    /// In the order of [`Coding::BESIDE`].
    beside: [bool; 2],
}

impl Seen {
    fn of(found: &Found) -> Seen {
        Seen { version: found.to_bits(), beside: found.beside.map(|stamp| stamp.is_some()) }
    }

    /// The best coding that is there and wanted.
    pub(crate) fn coding(&self, wanted: impl Fn(Coding) -> bool) -> Coding {
        let mut beside = Coding::BESIDE.into_iter().zip(self.beside);
        let best = beside.find(|&(coding, there)| there && wanted(coding));
        best.map_or(Coding::Plain, |(coding, _)| coding)
    }
}

/// Contents that can be sent.
pub(crate) enum Stock<H> {
    /// Kept, or read whole: [`Packed`].
    Packed(Contents),
    /// To be sent from the source.
    Open { handle: H, len: u64, modified: SystemTime, lines: Lines<'static> },
}

/// Contents, and whether they had been kept.
pub(crate) struct Taken<H> {
    pub(crate) stock: Stock<H>,
    pub(crate) hit: bool,
}

impl<S: Store, F: Source> Shelf<S, F> {
    pub(crate) fn new(store: Arc<S>, source: F, bound: Duration, most_kept: u64) -> Shelf<S, F> {
        let never =
            Look { id: 0, at: Instant::now(), seen: Seen { version: 0, beside: [false; 2] } };
        Shelf { store, source, looks: vec![never; PLACES], bound, most_kept, key: Vec::new() }
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

    /// What is there under an id, as far as is known.
    pub(crate) fn look(&mut self, id: &[u8], now: Instant) -> io::Result<Option<Seen>> {
        let hash = mixed(id) | 1;
        let place = (hash >> 32) as usize % PLACES;
        let look = &self.looks[place];
        if look.id == hash && now.saturating_duration_since(look.at) < self.bound {
            return Ok(Some(look.seen));
        }
        // The time before the look: what changes after it may go unnoticed until `bound` after that.
        let at = Instant::now();
        match self.source.look(id)? {
            Some(found) => {
                let seen = Seen::of(&found);
                self.looks[place] = Look { id: hash, at, seen };
                Ok(Some(seen))
            }
            None => {
                if look.id == hash {
                    self.looks[place].id = 0;
                    self.forget(id);
                }
                Ok(None)
            }
        }
    }

    /// Looks again the next time.
    pub(crate) fn doubt(&mut self, id: &[u8]) {
        let hash = mixed(id) | 1;
        let look = &mut self.looks[(hash >> 32) as usize % PLACES];
        if look.id == hash {
            look.id = 0;
        }
    }

    /// Drops what is kept under an id that is gone.
    fn forget(&mut self, id: &[u8]) {
        for coding in [Coding::Plain, Coding::Brotli, Coding::Gzip] {
            set_key(&mut self.key, id, coding);
            self.store.remove(&self.key);
        }
    }

    /// The contents in one coding; `None` if they are gone meanwhile.
    pub(crate) fn take(
        &mut self,
        id: &[u8],
        seen: &Seen,
        coding: Coding,
    ) -> io::Result<Option<Taken<F::Handle>>> {
        set_key(&mut self.key, id, coding);
        if let Some(kept) = self.store.get(&self.key) {
            let contents = kept.into();
            if Packed::of(contents.as_ref()).is_some_and(|packed| packed.version == seen.version) {
                return Ok(Some(Taken { stock: Stock::Packed(contents), hit: true }));
            }
        }
        let Some(opened) = self.source.open(id, coding)? else { return Ok(None) };
        let varies = seen.beside.contains(&true);
        let stock = match opened.stamp.len <= self.most_kept {
            true => self.read(seen, coding, varies, &opened)?,
            false => open(opened, coding, varies),
        };
        Ok(Some(Taken { stock, hit: false }))
    }

    /// Reads contents whole, and keeps them.
    fn read(
        &mut self,
        seen: &Seen,
        coding: Coding,
        varies: bool,
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
            varies,
        });
        let packed = pack(seen.version, stamp.modified(), &lines, &contents);
        if contents.len() as u64 == stamp.len && stamp.is_settled() {
            self.store.put(&self.key, packed.clone());
        }
        Ok(Stock::Packed(packed.into()))
    }
}

/// Contents that are sent from the source: too large to be kept.
fn open<H>(opened: Opened<H>, coding: Coding, varies: bool) -> Stock<H> {
    let Opened { handle, stamp, name } = opened;
    let modified = stamp.modified();
    let lines = Lines::new(&Facts {
        len: stamp.len,
        kind: &types::of(&name),
        etag: tag_of_version(&stamp),
        modified,
        coding,
        varies,
    });
    Stock::Open { handle, len: stamp.len, modified, lines }
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
