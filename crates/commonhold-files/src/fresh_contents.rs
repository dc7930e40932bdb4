//! Where a worker takes contents from: kept contents while they are known to be fresh, or the
//! source.
//!
//! Each worker checks freshness itself. It remembers for each id the version that the source had at
//! its last look ([`FreshnessChecks`]), and looks again when that is longer ago than the bound. It
//! uses kept contents and open files only if they are of that version. So no worker serves contents
//! that were replaced or removed longer ago than the bound, whichever process keeps them.
//!
//! The source's own place is checked as often. If another directory, or database, is there now,
//! earlier looks do not count.
//!
//! Contents are kept only if the opened file is the one of the look, did not change while it was
//! read, and had been quiet by then ([`Stamp::is_stable`](super::Stamp)): kept contents are those
//! of the version they are kept under. The opened file may be another one, because names above it
//! change between a look and the opening; then the worker looks again.

use super::freshness_checks::{FreshnessChecks, OpenFile, Seen};
use super::http::answer::{Facts, Lines};
use super::http::types;
use super::packed::{Packed, pack};
use super::payload::Contents;
use super::source::{Coding, Opened, Source};
use super::stamp::{Stamp, mixed_numbers};
use super::store::Store;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Contents of at most this many bytes have an entity tag made from the contents, even if they are
/// not kept.
const MOST_READ: u64 = 1 << 20;

/// The first byte of a description's key; the key of the contents follows.
const DESCRIPTION: u8 = b'#';

/// How often contents are taken that are never those of the look.
const TRIES: usize = 3;

/// The contents that a worker serves.
pub(crate) struct FreshContents<S, F: Source> {
    store: Arc<S>,
    source: F,
    /// When the source's place was checked last.
    refreshed: Option<Instant>,
    looks: FreshnessChecks<F::Handle>,
    /// How long a look stays valid.
    bound: Duration,
    /// Contents of more bytes are never kept.
    most_kept: u64,
    /// A key, while it is needed.
    key: Vec<u8>,
}

/// Contents that can be sent.
pub(crate) enum Stock<H> {
    /// Kept, or read completely: [`Packed`].
    Packed(Contents),
    /// Sent from the source.
    Open(Arc<OpenFile<H>>),
}

/// Contents that were taken.
struct Taken<H> {
    stock: Stock<H>,
    origin: Origin,
    /// They are of the version that was seen.
    is_as_seen: bool,
}

impl<H> Taken<H> {
    fn as_seen(stock: Stock<H>, origin: Origin) -> Taken<H> {
        Taken { stock, origin, is_as_seen: true }
    }
}

/// The origin of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They were in the cache.
    Kept,
    /// They were not in the cache, and could have been.
    Read,
    /// They are too large to be kept.
    Source,
}

impl<S: Store, F: Source> FreshContents<S, F> {
    pub(crate) fn new(
        store: Arc<S>,
        source: F,
        bound: Duration,
        most_kept: u64,
    ) -> FreshContents<S, F> {
        let (refreshed, looks, key) = (None, FreshnessChecks::new(), Vec::new());
        FreshContents { store, source, refreshed, looks, bound, most_kept, key }
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

    /// Closes files without a request for a while.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.looks.close_unused(now);
    }

    /// The contents under an id, in the coding that `choose` selects, and their origin; `None` if
    /// there are none.
    pub(crate) fn find(
        &mut self,
        id: &[u8],
        now: Instant,
        choose: impl Fn(&Seen) -> Coding,
    ) -> io::Result<Option<(Stock<F::Handle>, Origin)>> {
        self.refresh(now)?;
        let mut taken = None;
        // A file that was seen a while ago may have been removed or replaced; if a coded one was,
        // the plain one is there.
        for _ in 0..TRIES {
            let Some(seen) = self.look(id, now)? else { return Ok(None) };
            taken = self.take(id, &seen, choose(&seen))?;
            if taken.as_ref().is_some_and(|taken| taken.is_as_seen) {
                break;
            }
            self.looks.forget(id);
        }
        // Contents that change all the time are sent as they were when the file was opened.
        Ok(taken.map(|taken| (taken.stock, taken.origin)))
    }

    /// Checks whether the source's place is still the same, if that is longer ago than the
    /// bound.
    fn refresh(&mut self, now: Instant) -> io::Result<()> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < self.bound;
        if self.refreshed.is_some_and(is_recent) {
            return Ok(());
        }
        let at = Instant::now();
        if self.source.refresh()? {
            self.looks = FreshnessChecks::new();
        }
        self.refreshed = Some(at);
        Ok(())
    }

    /// The version under an id, as far as it is known.
    fn look(&mut self, id: &[u8], now: Instant) -> io::Result<Option<Seen>> {
        if let Some(seen) = self.looks.recall(id, now, self.bound) {
            return Ok(Some(seen));
        }
        // The time before the look: a change after it may go unnoticed until `bound` after that.
        let at = Instant::now();
        let found = self.source.look(id)?;
        match &found {
            Some(found) => self.looks.note(id, at, Seen::of(found)),
            None if self.looks.forget(id) => self.forget(id),
            None => {}
        }
        Ok(found.as_ref().map(Seen::of))
    }

    /// Drops the contents that are kept under an id without a file.
    fn forget(&mut self, id: &[u8]) {
        for coding in Coding::ALL {
            set_key(&mut self.key, id, coding);
            self.store.remove(&self.key);
            self.key.insert(0, DESCRIPTION);
            self.store.remove(&self.key);
        }
    }

    /// The contents in one coding; `None` if they were removed meanwhile.
    fn take(
        &mut self,
        id: &[u8],
        seen: &Seen,
        coding: Coding,
    ) -> io::Result<Option<Taken<F::Handle>>> {
        if let Some(file) = self.looks.file(id, seen, coding) {
            let taken = Taken::as_seen(Stock::Open(Arc::clone(&file)), Origin::Source);
            return Ok(self.is_still(&file.handle, &file.stamp).then_some(taken));
        }
        if let Some(contents) = self.looks.contents(id, seen, coding) {
            return Ok(Some(Taken::as_seen(Stock::Packed(contents), Origin::Kept)));
        }
        set_key(&mut self.key, id, coding);
        if let Some(kept) = self.store.get(&self.key) {
            let mut contents: Contents = kept.into();
            if Packed::of(contents.as_ref()).is_some_and(|packed| packed.version == seen.version) {
                if let (Contents::Own(_), true) = (&contents, self.looks.was_asked(id, seen)) {
                    contents = contents.into_shared();
                    self.looks.lay(id, seen, coding, &contents);
                }
                return Ok(Some(Taken::as_seen(Stock::Packed(contents), Origin::Kept)));
            }
        }
        let Some(opened) = self.source.open(id, coding)? else { return Ok(None) };
        if opened.stamp.len <= self.most_kept {
            return self.read(seen, coding, &opened).map(Some);
        }
        let is_as_seen = seen.is_of(coding, &opened.stamp);
        let is_stable = opened.stamp.is_stable();
        let file = Arc::new(self.open(id, seen, coding, opened)?);
        if is_as_seen && is_stable {
            self.looks.keep(id, seen, coding, &file);
        }
        Ok(Some(Taken { stock: Stock::Open(file), origin: Origin::Source, is_as_seen }))
    }

    /// Whether an open file still has this version.
    fn is_still(&self, handle: &F::Handle, stamp: &Stamp) -> bool {
        self.source.stamp(handle).is_ok_and(|now| now == *stamp)
    }

    /// Reads contents completely, and keeps them.
    fn read(
        &mut self,
        seen: &Seen,
        coding: Coding,
        opened: &Opened<F::Handle>,
    ) -> io::Result<Taken<F::Handle>> {
        let stamp = &opened.stamp;
        // One byte more, to notice that the file has grown.
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
        let is_whole = contents.len() as u64 == stamp.len && self.is_still(&opened.handle, stamp);
        let is_as_seen = is_whole && seen.is_of(coding, stamp);
        if is_as_seen && stamp.is_stable() {
            self.store.put(&self.key, packed.clone());
        }
        Ok(Taken { stock: Stock::Packed(packed.into()), origin: Origin::Read, is_as_seen })
    }

    /// Describes contents that are sent from the source. The description is kept, because making it
    /// may require reading them.
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
        // The opened file may be newer than the one of the look.
        let version = mixed_numbers(&[seen.version, stamp.to_bits()]);
        if let Some(lines) = self.description(version) {
            return Ok(OpenFile { handle, stamp, lines });
        }
        let etag = match len <= MOST_READ {
            true => tag_of_contents(&self.source.read(&handle, 0, len as usize)?),
            false => tag_of_version(&stamp),
        };
        let (kind, varies) = (&*types::of(&name), seen.varies());
        let lines = Lines::new(&Facts { len, kind, etag, modified, coding, varies });
        if stamp.is_stable() {
            self.store.put(&self.key, pack(version, modified, &lines, &[]));
        }
        Ok(OpenFile { handle, stamp, lines })
    }

    /// The lines that are kept under the key, if they are of this version.
    fn description(&self, version: u64) -> Option<Lines<'static>> {
        let contents: Contents = self.store.get(&self.key)?.into();
        let packed = Packed::of(contents.as_ref()).filter(|p| p.version == version)?;
        Some(packed.lines.into_owned())
    }
}

/// Sets the key of contents: a coding, then the id.
fn set_key(key: &mut Vec<u8>, id: &[u8], coding: Coding) {
    key.clear();
    key.push(match coding {
        Coding::Plain => b'=',
        Coding::Brotli => b'b',
        Coding::Gzip => b'g',
    });
    key.extend_from_slice(id);
}

/// The same tag for the same contents, on every machine.
fn tag_of_contents(contents: &[u8]) -> u128 {
    let digest = Sha256::digest(contents);
    digest.iter().take(16).fold(0, |tag, &byte| tag << 8 | u128::from(byte))
}

/// Another tag whenever the file may have changed; it needs no read.
fn tag_of_version(stamp: &Stamp) -> u128 {
    u128::from(stamp.to_bits()) << 64 | u128::from(stamp.len)
}

#[cfg(test)]
mod tests {
    use super::super::source::Found;
    use super::super::store::cache::{HashbrownTable, Private};
    use super::super::store::{Bounded, eviction::NoEviction};
    use super::*;
    use std::cell::Cell;
    use std::os::fd::OwnedFd;

    const BOUND: Duration = Duration::from_secs(3600);
    const MOST_KEPT: u64 = 100;

    /// One file after the other under one name, each full of its number. A name that changes
    /// between a look and the opening names two files at once.
    #[derive(Default)]
    struct Flipping {
        seen: Cell<u8>,
        opened: Cell<u8>,
        /// The number of the file that is being read.
        by_now: Cell<Option<u8>>,
        /// The place is another one.
        moved: Cell<bool>,
        looks: Cell<usize>,
        len: u64,
    }

    impl Flipping {
        fn of(len: u64) -> Flipping {
            Flipping { len, ..Flipping::default() }
        }

        fn stamp_of(&self, number: u8) -> Stamp {
            Stamp { file: number.into(), len: self.len, modified_ns: 1, changed_ns: 1 }
        }
    }

    impl Source for Flipping {
        type Handle = u8;

        fn refresh(&self) -> io::Result<bool> {
            Ok(self.moved.take())
        }

        fn look(&self, _: &[u8]) -> io::Result<Option<Found>> {
            self.looks.set(self.looks.get() + 1);
            Ok(Some(Found::alone(self.stamp_of(self.seen.get()))))
        }

        fn open(&self, _: &[u8], _: Coding) -> io::Result<Option<Opened<u8>>> {
            let handle = self.opened.get();
            Ok(Some(Opened { handle, stamp: self.stamp_of(handle), name: b"it".to_vec() }))
        }

        fn stamp(&self, handle: &u8) -> io::Result<Stamp> {
            Ok(self.stamp_of(self.by_now.get().unwrap_or(*handle)))
        }

        fn is_directory(&self, _: &[u8]) -> io::Result<bool> {
            Ok(false)
        }

        fn read(&self, handle: &u8, offset: u64, most: usize) -> io::Result<Vec<u8>> {
            Ok(vec![*handle; most.min((self.len - offset) as usize)])
        }

        fn file(_: &u8) -> Option<Arc<OwnedFd>> {
            None
        }
    }

    type Memory = Bounded<Private<HashbrownTable<()>>, NoEviction>;

    fn contents(len: u64) -> FreshContents<Memory, Flipping> {
        let store = Arc::new(Bounded::new(Private::default(), 1 << 20));
        FreshContents::new(store, Flipping::of(len), BOUND, MOST_KEPT)
    }

    /// The number of the file that the contents are of.
    fn found(contents: &mut FreshContents<Memory, Flipping>, now: Instant) -> u8 {
        match contents.find(b"it", now, |_| Coding::Plain).unwrap().unwrap().0 {
            Stock::Packed(contents) => *contents.as_ref().last().unwrap(),
            Stock::Open(file) => file.handle,
        }
    }

    #[test]
    fn another_file_than_was_seen_is_kept_under_no_version() {
        for len in [MOST_KEPT, MOST_KEPT + 1] {
            let mut contents = contents(len);
            let now = Instant::now();
            (contents.source.seen, contents.source.opened) = (1.into(), 2.into());
            assert_eq!(found(&mut contents, now), 2, "it is what there is by now");
            assert_eq!(contents.source.looks.get(), TRIES);
            contents.source.opened.set(1);
            assert_eq!(found(&mut contents, now), 1);
            assert_eq!(found(&mut contents, now), 1);
            // The look is trusted; the opening shows that another look is needed.
            let mut contents = self::contents(len);
            assert!(contents.look(b"it", now).unwrap().is_some());
            (contents.source.seen, contents.source.opened) = (3.into(), 3.into());
            assert_eq!(found(&mut contents, now), 3);
            assert_eq!(contents.source.looks.get(), 2);
            assert_eq!(found(&mut contents, now), 3);
            assert_eq!(contents.source.looks.get(), 2, "it is kept under its own version");
        }
    }

    #[test]
    fn a_file_that_is_written_during_the_read_is_not_kept() {
        let mut contents = contents(MOST_KEPT);
        let now = Instant::now();
        contents.source.by_now.set(Some(9));
        assert_eq!(found(&mut contents, now), 0);
        assert_eq!(contents.store.stat().entries, 0);
        contents.source.by_now.set(None);
        assert_eq!(found(&mut contents, now), 0);
        assert_eq!(contents.store.stat().entries, 1);
    }

    #[test]
    fn an_open_file_that_was_written_to_is_opened_again() {
        let mut contents = contents(MOST_KEPT + 1);
        let now = Instant::now();
        assert_eq!(found(&mut contents, now), 0);
        assert_eq!(contents.source.looks.get(), 1);
        (contents.source.seen, contents.source.opened) = (1.into(), 1.into());
        assert_eq!(found(&mut contents, now), 0, "it is believed to be what it was");
        contents.source.by_now.set(Some(1));
        assert_eq!(found(&mut contents, now), 1);
        assert_eq!(contents.source.looks.get(), 2);
    }

    #[test]
    fn nothing_counts_that_was_seen_in_another_place() {
        for len in [MOST_KEPT, MOST_KEPT + 1] {
            let mut contents = contents(len);
            let now = Instant::now();
            assert_eq!(found(&mut contents, now), 0);
            (contents.source.seen, contents.source.opened) = (1.into(), 1.into());
            contents.source.moved.set(true);
            assert_eq!(found(&mut contents, now), 0, "it was looked at just now");
            // Looks with a later time were made in the old place.
            contents.looks.note(
                b"it",
                now + BOUND * 2,
                Seen::of(&Found::alone(contents.source.stamp_of(0))),
            );
            assert_eq!(found(&mut contents, now + BOUND * 2), 1);
            assert!(!contents.source.moved.get());
        }
    }
}
