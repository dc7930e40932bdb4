//! Fixed-length pairs of at most 8 bytes: the pair itself is in the slot.
//!
//! A slot holds `key | value << 8 * key bytes`, XOR the bucket's **filler**: the word of a key that
//! cannot occur in that bucket, because neither of its two buckets is this one. So no pair is stored as zero, every
//! pair is legal, one store commits, and a hit needs no second look.

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::change::{Act, Change, Outcome, Rule};
use crate::map::directory;
use crate::map::hash::{Hash, Hasher};
use crate::map::locked;
use crate::map::read::Place;
use crate::map::segment::{BUCKET_SLOTS, BUCKETS, Segment};
use crate::map::split;
use crate::map::write::not_a_number;
use crate::memory::arena::{Arena, Writer};
use crate::memory::lane::LaneGuard;
use crate::steps::step;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

const TRIES: u32 = 1 << 20;

/// How pairs are packed into words.
pub(crate) struct Words {
    key_bytes: usize,
    value_bytes: usize,
    fillers: [u64; BUCKETS as usize],
}

impl Words {
    /// `None` if pairs of these lengths do not fit a word, or (for tiny keys and an unlucky seed) some bucket
    /// has no filler.
    pub(crate) fn new(hasher: &Hasher, key_bytes: u32, value_bytes: u32) -> Option<Words> {
        if key_bytes == 0 || u64::from(key_bytes) + u64::from(value_bytes) > 8 {
            return None;
        }
        let (key_bytes, value_bytes) = (key_bytes as usize, value_bytes as usize);
        let mut fillers = [None; BUCKETS as usize];
        // Keys 0, 1, 2 ... until every bucket has one that lives elsewhere; the third at the latest, mostly.
        let keys = 0..1u64 << (8 * key_bytes).min(16);
        for key in keys {
            let buckets = hasher.hash(&key.to_le_bytes()[..key_bytes]).buckets(BUCKETS);
            for (number, filler) in fillers.iter_mut().enumerate() {
                if !buckets.contains(&(number as u32)) {
                    filler.get_or_insert(key);
                }
            }
            if fillers.iter().all(Option::is_some) {
                break;
            }
        }
        let all = fillers.iter().all(Option::is_some);
        let fillers = fillers.map(Option::unwrap_or_default);
        all.then_some(Words { key_bytes, value_bytes, fillers })
    }

    #[inline]
    fn key_mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.key_bytes)
    }

    #[inline]
    pub(crate) fn key_word(&self, key: &[u8]) -> u64 {
        low_bytes(key)
    }

    #[inline]
    fn pair_word(&self, key: u64, value: u64) -> u64 {
        if self.key_bytes == 8 { key } else { key | value << (8 * self.key_bytes) }
    }

    #[inline]
    fn value_of(&self, pair: u64) -> u64 {
        if self.key_bytes == 8 { 0 } else { pair >> (8 * self.key_bytes) }
    }

    /// The pair in a slot of bucket `number`; `None` if the slot is empty.
    #[inline]
    pub(crate) fn decode(&self, slot: u64, number: u32) -> Option<u64> {
        (slot != 0).then(|| slot ^ self.fillers[number as usize])
    }

    /// Key and value of a pair.
    pub(crate) fn bytes(&self, pair: u64) -> (Vec<u8>, Vec<u8>) {
        let key = pair.to_le_bytes()[..self.key_bytes].to_vec();
        (key, self.value_of(pair).to_le_bytes()[..self.value_bytes].to_vec())
    }

    pub(crate) fn append_value(&self, value: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&value.to_le_bytes()[..self.value_bytes]);
    }

    /// The hash of a pair's key.
    pub(crate) fn hash(&self, hasher: &Hasher, pair: u64) -> Hash {
        hasher.hash(&pair.to_le_bytes()[..self.key_bytes])
    }

    /// The key's position and value in a segment, as seen now.
    #[inline]
    fn scan(&self, segment: Segment<'_>, hash: Hash, key: u64) -> Option<(u32, u64)> {
        let row = segment.row(hash.buckets(BUCKETS));
        row.matching(|number, word| self.is(number, key, word)).find_map(|at| {
            // Acquire pairs with the release of the commit. It may have changed since it matched.
            let (number, word) = (row.bucket_of(at), row.slot(at).load(Ordering::Acquire));
            self.is(number, key, word).then(|| (row.position(at), self.pair_value(number, word)))
        })
    }

    /// The position of the key in one bucket, as seen now.
    #[inline]
    pub(crate) fn seen_in(&self, segment: Segment<'_>, number: u32, key: u64) -> Option<u32> {
        let at = segment.bucket(number).matching(|word| self.is(number, key, word)).next();
        at.map(|at| number * BUCKET_SLOTS + at)
    }

    /// True if a slot of the bucket holds a pair with the key.
    #[inline(always)]
    fn is(&self, number: u32, key: u64, word: u64) -> bool {
        (word ^ self.fillers[number as usize] ^ key) & self.key_mask() == 0 && word != 0
    }

    #[inline(always)]
    fn pair_value(&self, number: u32, word: u64) -> u64 {
        self.value_of(word ^ self.fillers[number as usize])
    }
}

#[inline]
fn low_bytes(bytes: &[u8]) -> u64 {
    match bytes.len() {
        4 => u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        len => {
            let mut word = [0u8; 8];
            word[..len.min(8)].copy_from_slice(&bytes[..len.min(8)]);
            u64::from_le_bytes(word)
        }
    }
}

/// Looks a key up, first in the place where it was seen: its position and value. The key has the map's length.
#[inline]
pub(crate) fn find(
    space: &Space,
    bound: &Bound,
    words: &Words,
    (hash, key): (Hash, &[u8]),
    seen: Option<Place<'_>>,
) -> Result<Option<(u32, u64)>> {
    let (root, key) = (bound.root(space), words.key_word(key));
    if let Some(Place { segment, position }) = seen {
        // Acquire pairs with the release of the commit.
        let (number, word) =
            (position / BUCKET_SLOTS, segment.slot(position).load(Ordering::Acquire));
        if words.is(number, key, word) {
            bound.ensure_current(space)?;
            return Ok(Some((position, words.pair_value(number, word))));
        }
    }
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, root, hash.directory()) else { break };
        let found = words.scan(segment, hash, key);
        if found.is_none() {
            // Pairs with the release of directory entries: the slots were read before.
            fence(Ordering::Acquire);
            let again = directory::lookup(space, root, hash.directory());
            if again.is_none_or(|again| again.offset != segment.offset) {
                continue;
            }
        }
        bound.ensure_current(space)?;
        return Ok(found);
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup finds no consistent state"))
}

/// Key and value of the pair at a position, if its key has these directory bits.
pub(crate) fn at_position(
    space: &Space,
    bound: &Bound,
    words: &Words,
    directory: u32,
    position: u32,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let root = bound.root(space);
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, root, directory) else { break };
        let word = segment.slot(position).load(Ordering::Acquire);
        let pair = words.decode(word, position / 8);
        let pair = pair.filter(|p| words.hash(&bound.hasher, *p).directory() == directory);
        fence(Ordering::Acquire);
        let again = directory::lookup(space, root, directory);
        if pair.is_some() || again.is_some_and(|again| again.offset == segment.offset) {
            bound.ensure_current(space)?;
            return Ok(pair.map(|pair| words.bytes(pair)));
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup by uid finds no consistent state"))
}

/// Applies one change; `old` gets the value that it replaced or removed.
pub(crate) fn apply(
    arena: &Arena,
    bound: &Bound,
    words: &Words,
    change: &Change<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    // Before the lane is entered: there is nothing else to do while the memory comes.
    locked::fetch(&arena.space, bound, bound.hasher.hash(change.key));
    let lane = arena.enter()?;
    apply_in(&lane, bound, words, change, old)
}

/// The same, in a lane entered already.
pub(crate) fn apply_in(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    words: &Words,
    change: &Change<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    let put = match change.act {
        Act::Put(value) => Some(value.len()),
        Act::Add(_) => Some(8),
        Act::Delete => None,
    };
    bound.check_lengths(change.key, if matches!(change.act, Act::Add(_)) { None } else { put })?;
    if matches!(change.act, Act::Add(_)) {
        return Err(not_a_number(bound, words.value_bytes as u64));
    }
    let hash = bound.hasher.hash(change.key);
    let key = words.key_word(change.key);
    loop {
        let segment = locked::lock(lane, bound, hash.directory())?;
        step!("word.locked");
        let found = words.scan(segment, hash, key);
        if !holds(words, change.rule, found) || (put.is_none() && found.is_none()) {
            locked::unlock(lane, segment);
            return Ok(Outcome::default());
        }
        let place = found.map(|(position, _)| position);
        let Some(position) = place.or_else(|| locked::free_position(bound, segment, hash)) else {
            split::split(lane, bound, segment)?;
            continue;
        };
        if let (Some(old), Some((_, value))) = (old, found) {
            old.clear();
            words.append_value(value, old);
        }
        let word = match change.act {
            Act::Put(value) => {
                words.pair_word(key, low_bytes(value)) ^ words.fillers[(position / 8) as usize]
            }
            _ => 0,
        };
        store(lane, bound, segment, position, found.is_some(), word);
        locked::unlock(lane, segment);
        return Ok(Outcome { done: true, uid: hash.directory() << 8 | position, number: 0 });
    }
}

/// Stores a slot under the segment's lock: the commit point.
pub(crate) fn store(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'_>,
    position: u32,
    before: bool,
    word: u64,
) {
    let header = segment.header();
    // Release: who reads the counter and then finds the lock free, sees the slot as well (backup).
    let counter = writer.next_sequence(header.mark.load(Ordering::Relaxed));
    header.mark.store(counter, Ordering::Release);
    // Pairs with the acquire of readers.
    segment.slot(position).store(word, Ordering::Release);
    step!("word.committed");
    locked::count(bound, segment, before, word != 0);
}

fn holds(words: &Words, rule: Rule<'_>, found: Option<(u32, u64)>) -> bool {
    match (rule, found) {
        (Rule::Always, _) | (Rule::Absent, None) | (Rule::Present, Some(_)) => true,
        (Rule::Equals(None) | Rule::Sequence(None), found) => found.is_none(),
        (Rule::Equals(Some(expected)), Some((_, value))) => {
            expected.len() == words.value_bytes && low_bytes(expected) == value
        }
        // A pair has no sequence: the value stands for it.
        (Rule::Sequence(Some(value)), Some((_, found))) => value == found,
        (Rule::At(position), Some((found, _))) => found == position,
        _ => false,
    }
}
