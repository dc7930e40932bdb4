//! A record: one key and value in memory, written once, then only published or retired. A short
//! value may change in place ([`short_value`](crate::map::layout::short_value)).
//!
//! Layout: state word, a sequence once published (8 bytes) | header (8: value length 14 bits, key
//! length 14, map id 12, directory hash bits 24) | lengths (8, only if either does not fit) |
//! expiry (8, cache maps, hold clock in milliseconds, 0 for never) | checksum (8, file holds) | key
//! | value.

use crate::map::layout::hash::Hash;
use crate::map::layout::segment::OFFSET_BITS;
use crate::map::layout::short_value::ShortValue;
use crate::memory::classes::EXTENT;
use crate::memory::copy;
use crate::memory::extents::{self, Kind, State, committed, header, header_of};
use crate::memory::fetch::{LARGE, Large};
use crate::memory::{runs, slab};
use crate::steps::step;
use crate::sync::space::Space;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_seeded};
use std::sync::atomic::{AtomicU64, Ordering};

const LENGTH_BITS: u32 = 14;
const ESCAPE: u64 = (1 << LENGTH_BITS) - 1;

/// The optional fields that precede the key, by kind of map and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) expiry: bool,
    pub(crate) checksum: bool,
    /// Bytes before the key, if both lengths fit into the header.
    short: u32,
}

/// The bits of a record's header that say whose it is.
#[inline(always)]
fn owner_bits(map: u32, hash: Hash) -> u64 {
    map_bits(map) | hash_bits(hash)
}

/// Those that name the map.
#[inline(always)]
pub(crate) fn map_bits(map: u32) -> u64 {
    u64::from(map) << (2 * LENGTH_BITS)
}

/// Those of the key's hash.
#[inline(always)]
pub(crate) fn hash_bits(hash: Hash) -> u64 {
    u64::from(hash.directory()) << 40
}

/// The slot word of a record.
#[inline]
pub(crate) fn slot_word(offset: u64, hash: Hash) -> u64 {
    hash.tag() << OFFSET_BITS | (offset / 8)
}

/// The offset in a slot word.
#[inline]
pub(crate) fn offset_of(word: u64) -> u64 {
    (word & ((1 << OFFSET_BITS) - 1)) * 8
}

/// The tag in a slot word.
#[inline]
pub(crate) fn tag_of(word: u64) -> u64 {
    word >> OFFSET_BITS
}

/// True if a slot holds a record with this tag.
#[inline(always)]
pub(crate) fn has_tag(tag: u64, word: u64) -> bool {
    tag_of(word) == tag && word != 0
}

/// A record as it was seen: its lengths are within bounds, its contents may be changing.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// The record's address. Invariant: all of its [`len`](Record::len) bytes exist.
    start: *mut u8,
    space: &'a Space,
    pub(crate) offset: u64,
    pub(crate) sequence: u64,
    header: u64,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
    /// Bytes before the key.
    body: u32,
    shape: Shape,
    /// The record was published when it was found, so it may be freed during a copy. False for a
    /// draft, and for a record that is salvaged.
    may_go: bool,
}

/// A record that was seen, without the reference to its hold.
#[derive(Clone, Copy)]
pub(crate) struct SeenRecord {
    start: *mut u8,
    pub(crate) offset: u64,
    sequence: u64,
    header: u64,
    key_len: u32,
    value_len: u32,
    body: u32,
    shape: Shape,
}

impl SeenRecord {
    /// The record as it was seen, in the space in which it was: whether it is still there is
    /// another question. Its bytes existed, and the file never becomes shorter.
    #[inline(always)]
    pub(crate) fn again(self, space: &Space) -> Record<'_> {
        let SeenRecord { start, offset, sequence, header, key_len, value_len, body, shape } = self;
        let may_go = true;
        Record { start, space, offset, sequence, header, key_len, value_len, body, shape, may_go }
    }
}

impl Shape {
    pub(crate) fn new(expiry: bool, checksum: bool) -> Shape {
        Shape { expiry, checksum, short: 16 + 8 * (u32::from(expiry) + u32::from(checksum)) }
    }

    #[inline(always)]
    fn before_key(self, long: bool) -> u64 {
        u64::from(self.short) + 8 * u64::from(long)
    }

    /// Bytes of a record.
    pub(crate) fn record_len(self, key_len: u64, value_len: u64) -> u64 {
        let long = key_len >= ESCAPE || value_len >= ESCAPE;
        self.before_key(long) + key_len + value_len
    }

    /// Writes a record that the caller has allocated, except for its sequence and checksum.
    #[allow(unsafe_code)]
    pub(crate) fn write(
        self,
        space: &Space,
        offset: u64,
        ids: (u32, Hash),
        key: &[u8],
        value: &[u8],
        expiry: u64,
    ) {
        let (key_len, value_len) = (key.len() as u64, value.len() as u64);
        let long = key_len >= ESCAPE || value_len >= ESCAPE;
        let lengths = if long { (ESCAPE, ESCAPE) } else { (value_len, key_len) };
        let (map, hash) = ids;
        let header = lengths.0 | lengths.1 << LENGTH_BITS | owner_bits(map, hash);
        // Relaxed: the sequence publishes all of it.
        space.word(offset + 8).store(header, Ordering::Relaxed);
        let mut at = offset + 16;
        if long {
            space.word(at).store(value_len << 32 | key_len, Ordering::Relaxed);
            at += 8;
        }
        if self.expiry {
            space.word(at).store(expiry, Ordering::Relaxed);
            at += 8;
        }
        if self.checksum {
            let sum = content_sum(header, expiry, key, value);
            space.word(at).store(sum, Ordering::Relaxed);
            at += 8;
        }
        // SAFETY: the caller allocated `record_len` bytes at `offset`.
        unsafe {
            copy::write(space.at(at, key_len), key);
            copy::write(space.at(at + key_len, value_len), value);
        }
    }

    /// Bytes of a record whose lengths fit into its header.
    #[inline(always)]
    pub(crate) fn short_len(self, key_len: usize, value_len: u64) -> u64 {
        u64::from(self.short) + key_len as u64 + value_len
    }

    /// As [`write`](Self::write), for a record of fewer than 16 KiB without expiry and checksum.
    /// Returns its state word; `None` if its memory does not exist.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn write_short<'a>(
        self,
        space: &'a Space,
        offset: u64,
        (map, hash): (u32, Hash),
        key: &[u8],
        value: &[u8],
    ) -> Option<&'a AtomicU64> {
        let len = self.short_len(key.len(), value.len() as u64);
        let start = space.reach(offset, len)?;
        let lengths = value.len() as u64 | (key.len() as u64) << LENGTH_BITS;
        // SAFETY: the caller allocated `len` bytes at `offset`, which exist.
        unsafe {
            // Relaxed: the sequence publishes all of it.
            space.word_there(offset + 8).store(owner_bits(map, hash) | lengths, Ordering::Relaxed);
            let at = start.add(self.short as usize);
            copy::write(at, key);
            copy::write(at.add(key.len()), value);
            Some(space.word_there(offset))
        }
    }

    /// Overwrites the 8-byte value of a record of [`write_short`](Self::write_short) that the
    /// caller is still writing.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn rewrite_short(
        self,
        space: &Space,
        offset: u64,
        key_len: usize,
        value: [u8; 8],
    ) -> Option<()> {
        let at = offset + self.short_len(key_len, 0);
        // SAFETY: the caller owns the record, and its value has 8 bytes.
        unsafe { copy::write(space.reach(at, 8)?, &value) };
        Some(())
    }

    /// The record in `word`; `None` if it is not published there at this moment, or out of bounds.
    pub(crate) fn open(self, space: &Space, word: u64) -> Option<Record<'_>> {
        let offset = offset_of(word);
        let state = header_of(space, offset)?.state();
        step!("read.located");
        if !state.is(Kind::Records) {
            return self.open_run(space, offset, state);
        }
        let sequence = published(space, offset)?;
        let record = self.measure(space, offset, sequence, EXTENT - offset % EXTENT)?;
        Some(Record { may_go: true, ..record })
    }

    /// The same, but `None` also for a record that is not this key's, or whose lengths do not fit
    /// into its header. `owner` are the bits of map and hash. Without calls, so that a lookup keeps
    /// the record in registers.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn open_short_of<'a>(
        &self,
        space: &'a Space,
        word: u64,
        owner: u64,
        key: &[u8],
    ) -> Option<Record<'a>> {
        let offset = offset_of(word);
        let within = offset % EXTENT;
        let (extent, start) = extents::header_and_address(space, offset)?;
        let is_there = extent.state().is(Kind::Records);
        if !is_there || within > EXTENT - 16 || key.len() as u64 >= ESCAPE {
            return None;
        }
        step!("read.located");
        // SAFETY: the extent exists, the offset is a multiple of 8, and both words are inside.
        let words = unsafe { [start.cast(), start.add(8).cast::<AtomicU64>()].map(|p| p.as_ref()) };
        // Acquire pairs with the release of the sequence: the bytes are visible.
        let sequence = words[0].load(Ordering::Acquire);
        let header = words[1].load(Ordering::Relaxed);
        // One comparison for map, hash, the key's length and a value whose length fits: if the
        // others are right, its length is all that is left.
        let value_len = header ^ (owner | (key.len() as u64) << LENGTH_BITS);
        if !slab::is_sequence(sequence) || value_len >= ESCAPE {
            return None;
        }
        if within + self.short_len(key.len(), value_len) > EXTENT {
            return None;
        }
        let record = Record {
            start: start.as_ptr(),
            space,
            offset,
            sequence,
            key_len: key.len() as u32,
            value_len: value_len as u32,
            body: self.short,
            header,
            shape: *self,
            may_go: true,
        };
        // SAFETY: all bytes of the record exist.
        unsafe { copy::equal(record.key(), key) }.then_some(record)
    }

    /// The same for a record in a run of extents.
    #[inline(never)]
    fn open_run(self, space: &Space, offset: u64, state: State) -> Option<Record<'_>> {
        if !state.is(Kind::Run) || !offset.is_multiple_of(EXTENT) {
            return None;
        }
        let room = runs::length(space, offset / EXTENT) * EXTENT;
        let record = self.measure(space, offset, published(space, offset)?, room)?;
        Some(Record { may_go: true, ..record })
    }

    /// Reads the lengths of the record at `offset`, if its bytes exist. It has `room` bytes.
    pub(crate) fn measure(
        self,
        space: &Space,
        offset: u64,
        sequence: u64,
        room: u64,
    ) -> Option<Record<'_>> {
        // Bytes that do not exist read as zeros, which is detected below.
        let header = space.word(offset + 8).load(Ordering::Relaxed);
        let (mut value_len, mut key_len) = (header & ESCAPE, header >> LENGTH_BITS & ESCAPE);
        let long = value_len == ESCAPE;
        let body = self.before_key(long);
        if long && body <= room {
            let lengths = space.word(offset + 16).load(Ordering::Relaxed);
            (value_len, key_len) = (lengths >> 32, lengths & 0xffff_ffff);
        }
        let len = body + key_len + value_len;
        let start = if len <= room { space.reach(offset, len) } else { None };
        Some(Record {
            start: start?,
            space,
            offset,
            sequence,
            key_len: key_len as u32,
            value_len: value_len as u32,
            body: body as u32,
            header,
            shape: self,
            may_go: false,
        })
    }
}

/// The sequence of the record at `offset`, if it is published.
fn published(space: &Space, offset: u64) -> Option<u64> {
    // Acquire pairs with the release of the sequence: the bytes are visible.
    let sequence = space.word(offset).load(Ordering::Acquire);
    slab::is_sequence(sequence).then_some(sequence)
}

impl Record<'_> {
    pub(crate) fn map(&self) -> u32 {
        (self.header >> (2 * LENGTH_BITS)) as u32 & 0xfff
    }

    /// The 24 directory bits of its key's hash.
    #[inline]
    pub(crate) fn directory(&self) -> u32 {
        (self.header >> 40) as u32
    }

    #[inline]
    pub(crate) fn is_of(&self, map: u32, hash: Hash) -> bool {
        self.header >> (2 * LENGTH_BITS) << (2 * LENGTH_BITS) == owner_bits(map, hash)
    }

    pub(crate) fn seen(&self) -> SeenRecord {
        let Record { start, offset, sequence, header, key_len, value_len, body, shape, .. } = *self;
        SeenRecord { start, offset, sequence, header, key_len, value_len, body, shape }
    }

    /// Bytes of the whole record.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.body) + u64::from(self.key_len) + u64::from(self.value_len)
    }

    /// The word at `bytes` (a multiple of 8) before the key.
    #[inline]
    #[allow(unsafe_code)]
    fn before(&self, bytes: u32) -> &AtomicU64 {
        // SAFETY: `body` is at least 16, and `bytes` at most that; records begin at multiples of 8.
        unsafe { &*self.start.add((self.body - bytes.min(self.body)) as usize).cast() }
    }

    /// Its state word: the sequence, while the record is published.
    #[inline]
    pub(crate) fn state_word(&self) -> &AtomicU64 {
        self.before(self.body)
    }

    #[inline]
    #[allow(unsafe_code)]
    fn key(&self) -> *mut u8 {
        // SAFETY: inside the record.
        unsafe { self.start.add(self.body as usize) }
    }

    #[inline]
    #[allow(unsafe_code)]
    fn value(&self) -> *mut u8 {
        // SAFETY: inside the record, or its end.
        unsafe { self.key().add(self.key_len as usize) }
    }

    /// When it expires on the hold clock; 0 for never.
    #[inline]
    pub(crate) fn expiry(&self) -> u64 {
        if !self.shape.expiry {
            return 0;
        }
        self.before(u32::from(self.shape.checksum) * 8 + 8).load(Ordering::Relaxed)
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn key_is(&self, key: &[u8]) -> bool {
        if key.len() != self.key_len as usize {
            return false;
        }
        if key.len() >= LARGE {
            return self.large(self.key_offset()).equals(key);
        }
        // SAFETY: all bytes of the record exist.
        unsafe { copy::equal(self.key(), key) }
    }

    fn key_offset(&self) -> u64 {
        self.offset + u64::from(self.body)
    }

    /// Large contents are copied by other means, and only while this is still the record that was
    /// seen.
    fn large(&self, offset: u64) -> Large<'_, impl Fn() -> bool> {
        let header = header(self.space, self.offset / EXTENT);
        // The state first: it lies in a table, which keeps its memory. Both are hints, because the
        // reader checks again at the end.
        let is_there = move || {
            !self.may_go
                || (matches!(header.state().kind(), Kind::Run | Kind::Records)
                    && self.state_word().load(Ordering::Relaxed) == self.sequence)
        };
        Large { space: self.space, offset, is_there }
    }

    #[allow(unsafe_code)]
    pub(crate) fn value_is(&self, value: &[u8]) -> bool {
        // SAFETY: all bytes of the record exist.
        value.len() == self.value_len as usize && unsafe { copy::equal(self.value(), value) }
    }

    #[allow(unsafe_code)]
    pub(crate) fn append_key(&self, out: &mut Vec<u8>) {
        if self.key_len as usize >= LARGE {
            return self.large(self.key_offset()).append(self.key_len as usize, out);
        }
        // SAFETY: all bytes of the record exist.
        unsafe { copy::append(self.key(), self.key_len as usize, out) }
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn append_value(&self, out: &mut Vec<u8>) {
        if self.value_len as usize >= LARGE {
            let value = self.large(self.key_offset() + u64::from(self.key_len));
            return value.append(self.value_len as usize, out);
        }
        // SAFETY: all bytes of the record exist.
        unsafe { copy::append(self.value(), self.value_len as usize, out) }
    }

    /// Copies as much of the value as fits into `out`. Returns the value's length.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn read_value<B: copy::Byte>(&self, out: &mut [B]) -> usize {
        let len = self.value_len as usize;
        if len == out.len() && len < LARGE {
            // The usual case first, which a constant length makes short.
            // SAFETY: all bytes of the record exist.
            unsafe { copy::read(self.value(), out) };
            return len;
        }
        let room = out.len().min(len);
        if room >= LARGE {
            self.large(self.key_offset() + u64::from(self.key_len)).read(&mut out[..room]);
            return len;
        }
        if room < len && len <= 8 {
            // SAFETY: all bytes of the record exist.
            unsafe { copy::read_part(self.value(), len, &mut out[..room]) };
            return len;
        }
        // SAFETY: all bytes of the record exist.
        unsafe { copy::read(self.value(), &mut out[..room]) };
        len
    }

    /// True if the value may change in place: one load reads it whole.
    #[inline(always)]
    pub(crate) fn has_short_value(&self) -> bool {
        let len = self.value_len;
        let is_aligned = |to: u32| (self.body + self.key_len) & (to - 1) == 0;
        let is_short = len.is_power_of_two() && len <= 8 && is_aligned(len);
        is_short && !self.shape.expiry && !self.shape.checksum
    }

    /// Replaces a short value by one store, under the lock of the segment whose slot names the
    /// record.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn replace_value(&self, ShortValue { bits, len }: ShortValue) {
        debug_assert!(self.has_short_value() && self.value_len == len);
        // SAFETY: the value is inside the record and lies in one word. Only the holder of the lock
        // writes a published record.
        unsafe { copy::replace(self.value(), bits, len) }
    }

    /// True if the value is the one that was read together with this sequence.
    pub(crate) fn still_has(&self, sequence: u64, value: &[u8]) -> bool {
        self.sequence == sequence && (!self.has_short_value() || self.value_is(value))
    }

    /// Overwrites the 8-byte value of a record that the caller is still writing.
    #[allow(unsafe_code)]
    pub(crate) fn rewrite_value(&self, value: &[u8; 8]) {
        assert_eq!(self.value_len, 8);
        // SAFETY: the caller owns the record, and its value has 8 bytes.
        unsafe { copy::write(self.value(), value) }
    }

    /// Stores the checksum for `sequence`, just before the record is published.
    #[inline]
    pub(crate) fn seal(&self, sequence: u64) {
        if self.shape.checksum {
            let word = self.before(8);
            word.store(word.load(Ordering::Relaxed) ^ sealed(sequence), Ordering::Relaxed);
        }
    }

    /// Recomputes the unsealed checksum, after the value was rewritten.
    pub(crate) fn resum(&self, key: &[u8], value: &[u8; 8]) {
        if self.shape.checksum {
            let sum = content_sum(self.header, self.expiry(), key, value);
            self.before(8).store(sum, Ordering::Relaxed);
        }
    }

    /// True if the checksum over map, lengths, key, value and sequence is intact.
    pub(crate) fn is_intact(&self, key: &[u8], value: &[u8]) -> bool {
        let stored = self.before(8).load(Ordering::Relaxed);
        !self.shape.checksum
            || stored == content_sum(self.header, self.expiry(), key, value) ^ sealed(self.sequence)
    }
}

/// rapidhash V3 over the contents: it misses a damaged page with a probability of 2^-64.
fn content_sum(header: u64, expiry: u64, key: &[u8], value: &[u8]) -> u64 {
    let sum = |bytes: &[u8]| rapidhash_v3_seeded(bytes, &DEFAULT_RAPID_SECRETS);
    let words = [header, expiry, key.len() as u64, value.len() as u64, sum(key), sum(value)];
    let mut bytes = [0u8; 48];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    sum(&bytes)
}

fn sealed(sequence: u64) -> u64 {
    rapidhash_v3_seeded(&sequence.to_le_bytes(), &DEFAULT_RAPID_SECRETS)
}

/// Fetches the record in a slot word.
#[inline(always)]
pub(crate) fn prefetch(space: &Space, word: u64) {
    copy::prefetch(space.perhaps_at(offset_of(word)));
}

/// The map that the record at `offset` names. For checks and for compaction.
pub(crate) fn map_at(space: &Space, offset: u64) -> u32 {
    (space.word(offset + 8).load(Ordering::Relaxed) >> (2 * LENGTH_BITS)) as u32 & 0xfff
}

/// The kind of extent at a record's offset. For checks.
pub(crate) fn extent_kind(space: &Space, offset: u64) -> Kind {
    let extent = offset / EXTENT;
    if extent < committed(space) {
        extents::header(space, extent).state().kind()
    } else {
        Kind::Unknown
    }
}
