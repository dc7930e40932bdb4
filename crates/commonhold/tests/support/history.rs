//! What several processes did to few keys, and whether any order explains it.
//!
//! Every client notes each call with its answer and the times before and after it. [`explains`]
//! searches, key by key, for an order of the calls that respects those times and in which a single
//! register gives the same answers: linearizability, by the search of Wing and Gong (1993) with Lowe's
//! memory of visited configurations ("Testing for linearizability", 2017), as in Porcupine. A call whose
//! client died has no end: it may have happened at any time after its start, or never.

use super::process::{Board, now_ns};
use super::shape::Shape;
use commonhold::map::{Map, Values};
use std::collections::HashSet;

/// What a client asked of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `get`, `get_many`
    Get,
    /// `set`
    Set(u64),
    /// `add`
    Add(u64),
    /// `replace`
    Replace(u64),
    /// `compare_exchange`
    Exchange(Option<u64>, Option<u64>),
    /// `delete`
    Delete,
    /// `take`
    Take,
    /// `increment`
    Increment(u64),
}

/// What it was told: a value or absence, or 1 and absence for yes and no.
pub type Told = Option<u64>;

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub key: u32,
    pub ask: Ask,
    pub told: Told,
    pub start: u64,
    /// `u64::MAX` if the client died in it.
    pub end: u64,
}

const WORDS: usize = 6;

/// Where the clients note their calls.
pub struct Notes {
    board: Board,
    room: usize,
}

impl Notes {
    /// For `clients` clients with at most `room` calls each.
    pub fn new(clients: usize, room: usize) -> Notes {
        Notes { board: Board::new(clients * (1 + room * WORDS)), room }
    }

    fn at(&self, client: usize) -> usize {
        client * (1 + self.room * WORDS)
    }

    /// Makes a call and notes it. Returns false when there is no more room.
    pub fn call(&self, client: usize, map: &Map, shape: Shape, key: u32, ask: Ask) -> bool {
        let Some(at) = self.begin(client, key, ask) else { return false };
        let told = perform(map, shape, key, ask);
        self.end(at, told);
        true
    }

    /// Reads several keys at once and notes it as a read of each.
    pub fn call_many(&self, client: usize, map: &Map, shape: Shape, keys: &[u32]) -> bool {
        let begun: Vec<_> = keys.iter().map_while(|k| self.begin(client, *k, Ask::Get)).collect();
        if begun.len() < keys.len() {
            return false;
        }
        let bytes: Vec<_> = keys.iter().map(|k| shape.key(*k)).collect();
        let mut values = Values::default();
        map.get_many(&bytes, &mut values).unwrap();
        for (i, at) in begun.into_iter().enumerate() {
            self.end(at, values.get(i).map(number));
        }
        true
    }

    fn begin(&self, client: usize, key: u32, ask: Ask) -> Option<usize> {
        let head = self.at(client);
        let count = self.board.get(head) as usize;
        if count == self.room {
            return None;
        }
        let at = head + 1 + count * WORDS;
        let (kind, a, b) = encode(ask);
        for (i, word) in [key as u64 | kind << 32, a, b, 0, now_ns(), u64::MAX].iter().enumerate() {
            self.board.put(at + i, *word);
        }
        self.board.put(head, count as u64 + 1);
        Some(at)
    }

    fn end(&self, at: usize, told: Told) {
        self.board.put(at + 3, pack(told));
        self.board.put(at + 5, now_ns());
    }

    /// How many calls of one client have begun.
    pub fn of_len(&self, client: usize) -> usize {
        self.board.get(self.at(client)) as usize
    }

    /// All calls of one client so far.
    pub fn of(&self, client: usize) -> Vec<Call> {
        let head = self.at(client);
        (0..self.board.get(head) as usize)
            .map(|i| {
                let word = |n| self.board.get(head + 1 + i * WORDS + n);
                let ask = decode(word(0) >> 32, word(1), word(2));
                let (told, key) = (unpack(word(3)), word(0) as u32);
                Call { key, ask, told, start: word(4), end: word(5) }
            })
            .collect()
    }
}

fn pack(value: Option<u64>) -> u64 {
    value.map_or(0, |v| v + 1)
}

fn unpack(word: u64) -> Option<u64> {
    word.checked_sub(1)
}

fn encode(ask: Ask) -> (u64, u64, u64) {
    match ask {
        Ask::Get => (0, 0, 0),
        Ask::Set(v) => (1, v, 0),
        Ask::Add(v) => (2, v, 0),
        Ask::Replace(v) => (3, v, 0),
        Ask::Exchange(old, new) => (4, pack(old), pack(new)),
        Ask::Delete => (5, 0, 0),
        Ask::Take => (6, 0, 0),
        Ask::Increment(by) => (7, by, 0),
    }
}

fn decode(kind: u64, a: u64, b: u64) -> Ask {
    match kind {
        0 => Ask::Get,
        1 => Ask::Set(a),
        2 => Ask::Add(a),
        3 => Ask::Replace(a),
        4 => Ask::Exchange(unpack(a), unpack(b)),
        5 => Ask::Delete,
        6 => Ask::Take,
        _ => Ask::Increment(a),
    }
}

/// A register's number as bytes as wide as the map's values.
pub fn bytes(shape: Shape, number: u64) -> Vec<u8> {
    let width = match shape {
        Shape::Fixed(_, width) => width as usize,
        _ => 8,
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(width, (number % 251) as u8);
    bytes
}

/// The number in a value; ends the test if the bytes do not belong together.
pub fn number(value: &[u8]) -> u64 {
    let mut start = [0; 8];
    let len = value.len().min(8);
    start[..len].copy_from_slice(&value[..len]);
    let number = u64::from_le_bytes(start);
    let whole = value.iter().skip(8).all(|b| *b == (number % 251) as u8);
    assert!(whole, "a torn value: {value:02x?}");
    number
}

fn perform(map: &Map, shape: Shape, key: u32, ask: Ask) -> Told {
    let key = shape.key(key);
    let b = |v: u64| bytes(shape, v);
    let yes = |took: bool| took.then_some(1);
    match ask {
        Ask::Get => map.get(key).unwrap().map(|v| number(&v)),
        Ask::Set(v) => yes(map.set(key, b(v)).map(|_| true).unwrap()),
        Ask::Add(v) => yes(map.add(key, b(v)).unwrap().is_some()),
        Ask::Replace(v) => yes(map.replace(key, b(v)).unwrap().is_some()),
        Ask::Exchange(old, new) => {
            let (old, new) = (old.map(b), new.map(b));
            yes(map.compare_exchange(key, old.as_deref(), new.as_deref()).unwrap())
        }
        Ask::Delete => yes(map.delete(key).unwrap()),
        Ask::Take => map.take(key).unwrap().map(|v| number(&v)),
        Ask::Increment(by) => Some(map.increment(key, by as i64).unwrap() as u64),
    }
}

/// What a register that holds `state` answers, and holds afterwards.
fn register(state: Option<u64>, ask: Ask) -> (Told, Option<u64>) {
    match ask {
        Ask::Get => (state, state),
        Ask::Set(v) => (Some(1), Some(v)),
        Ask::Add(v) if state.is_none() => (Some(1), Some(v)),
        Ask::Replace(v) if state.is_some() => (Some(1), Some(v)),
        Ask::Add(_) | Ask::Replace(_) => (None, state),
        Ask::Exchange(old, new) if old == state => (Some(1), new),
        Ask::Exchange(..) => (None, state),
        Ask::Delete => (state.map(|_| 1), None),
        Ask::Take => (state, None),
        Ask::Increment(by) => {
            let sum = state.unwrap_or(0).wrapping_add(by);
            (Some(sum), Some(sum))
        }
    }
}

/// Fails the test, showing the key's calls, if no order explains what the clients were told.
#[track_caller]
pub fn must_be_explained(calls: &[Call], what: &str) {
    let keys: HashSet<u32> = calls.iter().map(|c| c.key).collect();
    for key in keys {
        let mut of_key: Vec<Call> = calls.iter().filter(|c| c.key == key).copied().collect();
        of_key.sort_by_key(|c| c.start);
        if !explains(&of_key) {
            let first = of_key.first().map_or(0, |c| c.start);
            for call in &mut of_key {
                call.start -= first;
                call.end = call.end.saturating_sub(first);
            }
            let count = of_key.len();
            // The shortest beginning that has no explanation says most.
            let bad = (1..=count).find(|n| !explains(&cut(&of_key, *n))).unwrap_or(count);
            let tail = &of_key[bad.saturating_sub(12)..bad];
            panic!("{what}: key {key}: no order explains call {bad} of {count}:\n{tail:#?}");
        }
    }
}

/// The calls that began before the `n`-th; what ended later counts as not ended.
fn cut(calls: &[Call], n: usize) -> Vec<Call> {
    let last = calls[..n].iter().map(|c| c.start).max().unwrap_or(0);
    let end = calls[n - 1].end.max(last);
    let open = |c: &Call| Call { end: if c.end > end { u64::MAX } else { c.end }, ..*c };
    calls.iter().filter(|c| c.start <= end).map(open).collect()
}

/// One end of a call in the list of events.
#[derive(Clone, Copy)]
struct Event {
    call: usize,
    starts: bool,
}

/// True if some order of these calls on one key explains all answers.
pub fn explains(calls: &[Call]) -> bool {
    let mut search = Search::new(calls);
    search.run()
}

struct Search<'a> {
    calls: &'a [Call],
    events: Vec<Event>,
    /// Doubly linked list over `events` (shifted by one; 0 is its head): what is not ordered yet.
    next: Vec<usize>,
    previous: Vec<usize>,
    end_of: Vec<usize>,
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, Option<u64>)>,
}

impl<'a> Search<'a> {
    fn new(calls: &'a [Call]) -> Search<'a> {
        let mut timed: Vec<(u64, bool, usize)> = Vec::new();
        for (i, call) in calls.iter().enumerate() {
            // At equal times starts come first: the calls overlap.
            timed.push((call.start, false, i));
            timed.push((call.end, true, i));
        }
        timed.sort_unstable();
        let events: Vec<Event> =
            timed.iter().map(|(_, ends, call)| Event { call: *call, starts: !ends }).collect();
        let count = events.len();
        let mut end_of = vec![0; calls.len()];
        for (i, event) in events.iter().enumerate().filter(|e| !e.1.starts) {
            end_of[event.call] = i + 1;
        }
        let next = (0..=count).map(|i| if i == count { 0 } else { i + 1 }).collect();
        let previous = (0..=count).map(|i| if i == 0 { count } else { i - 1 }).collect();
        let done = vec![0; calls.len().div_ceil(64)];
        Search { calls, events, next, previous, end_of, done, seen: HashSet::new() }
    }

    fn run(&mut self) -> bool {
        let mut state = None;
        let mut ordered: Vec<(usize, Option<u64>)> = Vec::new();
        let mut at = self.next[0];
        while at != 0 {
            let event = self.events[at - 1];
            let call = self.calls[event.call];
            if event.starts {
                if let Some(after) = self.try_next(&call, event.call, state) {
                    ordered.push((at, state));
                    state = after;
                    self.lift(at);
                    at = self.next[0];
                } else {
                    at = self.next[at];
                }
            } else if call.end == u64::MAX {
                // Only calls without an end are left: they need not have happened.
                return true;
            } else {
                let Some((back, before)) = ordered.pop() else { return false };
                state = before;
                self.put_back(back);
                at = self.next[back];
            }
        }
        true
    }

    /// The state after this call if it may come next and leads to something not seen yet.
    fn try_next(&mut self, call: &Call, i: usize, state: Option<u64>) -> Option<Option<u64>> {
        let (told, after) = register(state, call.ask);
        if call.end != u64::MAX && told != call.told {
            return None;
        }
        self.done[i / 64] |= 1 << (i % 64);
        let new = self.seen.insert((self.done.clone(), after));
        if !new {
            self.done[i / 64] &= !(1 << (i % 64));
        }
        new.then_some(after)
    }

    fn lift(&mut self, start: usize) {
        for at in [start, self.end_of[self.events[start - 1].call]] {
            let (before, after) = (self.previous[at], self.next[at]);
            self.next[before] = after;
            self.previous[after] = before;
        }
    }

    fn put_back(&mut self, start: usize) {
        let call = self.events[start - 1].call;
        for at in [self.end_of[call], start] {
            let (before, after) = (self.previous[at], self.next[at]);
            self.next[before] = at;
            self.previous[after] = at;
        }
        self.done[call / 64] &= !(1 << (call % 64));
    }
}
