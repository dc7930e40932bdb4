//! Tests of the filter, without a connection: what it sends of a stream, and what it passes over.

use super::*;
use crate::protocol::wire::code;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold::raw::RawFrame;
use commonhold_testing::support::test_dir::TestDir;

/// A map with a stream, and a filter of it.
struct Filtered {
    _test_dir: TestDir,
    map: Map,
    feed: Feed,
    filter: Filter,
    /// The offset that the replica knows.
    at: u64,
    /// The beginning of a frame of which the rest was not sent yet.
    begun: Vec<u8>,
    /// The bytes that were sent, and how many of them were not copied.
    sent: usize,
    uncopied: usize,
}

impl Filtered {
    fn new(prefix: &[u8]) -> Filtered {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 16 << 20).unwrap();
        let feed = map.follow().unwrap().into_feed();
        let filter = Filter::new(KeyPrefix::wanted(Some(prefix)).unwrap());
        let at = feed.position().offset;
        let (begun, sent, uncopied) = Default::default();
        Filtered { _test_dir: test_dir, map, feed, filter, at, begun, sent, uncopied }
    }

    /// One payload at a time; the keys of the changes in it, and `>` for each message between them.
    /// Checks that the positions lead from one frame to the next.
    #[track_caller]
    fn next(&mut self, now: Instant) -> Option<Vec<String>> {
        let mut bytes = Vec::new();
        let tail = self.feed.tail();
        match self.filter.next(&mut self.feed, tail, now).unwrap()? {
            Payload::Words(words) => bytes.extend_from_slice(words.rest()),
            Payload::Stream(ring) => {
                ring.append_to(&mut bytes);
                self.uncopied += bytes.len();
                self.feed.sent(bytes.len()).unwrap();
            }
        }
        self.sent += bytes.len();
        bytes.splice(..0, self.begun.drain(..));
        let (mut rest, mut keys) = (&bytes[..], Vec::new());
        while let Some(len) = RawFrame::stated_length(rest).filter(|len| *len <= rest.len()) {
            let frame = RawFrame::decode(&rest[..len]).unwrap();
            assert_eq!(frame.offset, self.at, "{frame:?}");
            match Skip::read(&frame).unwrap() {
                Some(skip) => {
                    self.at = skip.to;
                    keys.push(">".to_owned());
                }
                None => {
                    self.at += len as u64;
                    keys.push(String::from_utf8(frame.key.to_vec()).unwrap());
                }
            }
            rest = &rest[len..];
        }
        self.begun = rest.to_vec();
        let sent = self.filter.sent(self.feed.position().offset);
        assert_eq!(self.at + self.begun.len() as u64, sent);
        Some(keys)
    }

    /// Everything that it sends at this time.
    fn all(&mut self, now: Instant) -> String {
        let mut all = Vec::new();
        while let Some(keys) = self.next(now) {
            all.extend(keys);
        }
        all.join(" ")
    }

    fn set(&self, keys: &[&str]) {
        for key in keys {
            self.map.set(key, "value").unwrap();
        }
    }
}

#[test]
fn only_keys_of_the_prefix_are_sent_and_each_position_follows_the_last() {
    let mut it = Filtered::new(b"user:");
    let (now, later) = (Instant::now(), Instant::now() + LONGEST);
    assert_eq!(it.all(now), "");
    it.set(&["user:1", "user:2"]);
    assert_eq!(it.all(now), "user:1 user:2");
    it.set(&["a", "use", "user", "User:", "user:3", "xuser:", "user:"]);
    it.map.delete("user:1").unwrap();
    it.map.delete("a").unwrap();
    assert_eq!(it.all(now), "> user:3 > user: user:1");
    // The last one is passed over: the replica gets to know it a little later.
    assert!(it.filter.due().is_some_and(|due| now < due && due <= later));
    assert_eq!(it.all(later), ">");
    assert_eq!((it.at, it.filter.due()), (it.feed.tail(), None));
    it.map.clear().unwrap();
    // Without the order of the keys, which is the map's.
    assert_eq!(it.all(later).matches("user:").count(), 3);
}

#[test]
fn a_message_waits_until_the_stream_is_quiet_and_not_for_long() {
    let mut it = Filtered::new(b"b");
    let begun = Instant::now();
    let mut now = begun;
    for _ in 0..LONGEST.as_millis() * 2 - 1 {
        it.set(&["a"]);
        assert_eq!(it.next(now), None, "{:?}", now - begun);
        now += QUIET / 2;
    }
    it.set(&["a"]);
    assert_eq!(it.all(begun + LONGEST), ">");
    it.set(&["a"]);
    assert_eq!(it.all(now), "");
    assert_eq!(it.filter.due(), Some(now + QUIET));
    assert_eq!(it.all(now + QUIET), ">");
}

/// The message for it has 56 bytes.
#[test]
fn changes_that_are_passed_over_cost_hardly_any_bytes() {
    let mut it = Filtered::new(b"wanted");
    let now = Instant::now();
    let begun = it.feed.tail();
    for number in 0..100_000u32 {
        it.map.set(number.to_le_bytes(), [1; 40]).unwrap();
        if number % 1000 == 999 {
            assert!(!it.all(now).contains("wanted"));
        }
    }
    let bytes = it.feed.tail() - begun;
    assert_eq!(it.sent, 100 * Skip::FRAME);
    assert!(bytes > 100 * it.sent as u64, "{bytes}");
    // All at once: a bounded number of bytes for each message.
    let others = it.feed.tail();
    for number in 0..100_000u32 {
        it.map.set(number.to_le_bytes(), [1; 40]).unwrap();
    }
    it.set(&["wanted"]);
    let sent = it.all(now);
    assert!(sent.ends_with("> wanted"), "{sent}");
    let messages = (it.feed.tail() - others).div_ceil(MOST) as usize;
    assert_eq!(sent.matches('>').count(), messages);
}

#[test]
fn long_runs_are_not_copied_and_short_ones_are_sent_together() {
    let mut it = Filtered::new(b"b");
    let now = Instant::now();
    for number in 0..100 {
        it.set(&["a", "b"]);
        if number == 50 {
            it.map.set("b long", vec![7; 2 << 20]).unwrap();
            (0..1000).for_each(|_| it.set(&["b run"]));
        }
    }
    let first = it.next(now).unwrap();
    assert_eq!(first, [&[">", "b"].repeat(50)[..], &[">"]].concat());
    let mut all = Vec::new();
    while let Some(keys) = it.next(now) {
        all.extend(keys);
    }
    assert_eq!(all[..2], ["b", "b long"]);
    assert!(it.uncopied > 2 << 20 && it.uncopied < (2 << 20) + 1001 * 64, "{}", it.uncopied);
    assert_eq!(all.iter().filter(|key| *key == "b run").count(), 1000);
    assert_eq!(it.at, it.feed.tail());
}

/// The key of a gap is not known: it may have the prefix.
#[test]
fn a_gap_is_sent_whatever_the_prefix() {
    let mut it = Filtered::new(b"b");
    it.set(&["a"]);
    it.map.set("a", vec![7; 5 << 20]).unwrap();
    it.set(&["a"]);
    let tail = it.feed.tail();
    let payload = it.filter.next(&mut it.feed, tail, Instant::now()).unwrap().unwrap();
    let Payload::Words(words) = payload else { panic!("it is short") };
    let skip = RawFrame::decode(&words.rest()[..Skip::FRAME]).unwrap();
    assert_eq!(skip.code, code::SKIP);
    let gap = RawFrame::decode(&words.rest()[Skip::FRAME..]).unwrap();
    assert_eq!(gap.code, commonhold::stream::ChangeKind::Gap as u32);
}

#[test]
fn a_filter_that_is_lapped_reports_it() {
    let mut it = Filtered::new(b"b");
    for _ in 0..40 {
        it.map.set("a", vec![1; 1 << 20]).unwrap();
    }
    let tail = it.feed.tail();
    let lapped = it.filter.next(&mut it.feed, tail, Instant::now());
    assert_eq!(lapped.map(drop).unwrap_err().kind(), commonhold::ErrorKind::Lapped);
}
