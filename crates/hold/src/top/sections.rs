//! The numbers as tables for people, one for each kind of structure in the hold.

use super::view::{MapView, ParticipantView, View};
use crate::report::numbers::{bytes, rate, span};
use commonhold_terminal::sizes::count;
use commonhold_terminal::text::printable;
use std::cmp::{Ordering, Reverse};

/// The order of the rows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Name,
    /// The most active first.
    Rate,
    /// The largest first; for consumers and replicas, those that lag most.
    Size,
}

impl Order {
    /// The order that follows when the user presses the key for the next one.
    pub fn next(self) -> Order {
        match self {
            Order::Name => Order::Rate,
            Order::Rate => Order::Size,
            Order::Size => Order::Name,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Order::Name => "name",
            Order::Rate => "rate",
            Order::Size => "size",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// Numbers are aligned to the right.
    pub is_number: bool,
    /// On a narrow screen, columns with the highest rank are omitted first. Rank 0 is never
    /// omitted.
    pub rank: u8,
}

/// How urgently a row needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    None,
    /// Nothing is wrong yet: a process that is suspended.
    Warning,
    /// Other processes wait, or something is lost.
    Danger,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    pub cells: Vec<String>,
    pub alarm: Alarm,
    rate: f64,
    size: u64,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Section {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

/// All tables that have rows.
pub fn sections(view: &View, order: Order) -> Vec<Section> {
    let all = [
        maps(view),
        caches(view),
        replicas(view),
        origins(view),
        queues(view),
        channels(view),
        consumers(view),
        logs(view),
        participants(view),
    ];
    let mut shown: Vec<_> = all.into_iter().filter(|section| !section.rows.is_empty()).collect();
    shown.iter_mut().for_each(|section| section.sort(order));
    shown
}

impl Section {
    /// A table with these columns: names, and their ranks. A name that ends in `>` stands above
    /// numbers.
    fn new(columns: &[(&'static str, u8)]) -> Section {
        let column = |&(name, rank): &(&'static str, u8)| Column {
            name: name.trim_end_matches('>'),
            is_number: name.ends_with('>'),
            rank,
        };
        Section { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    fn row<const N: usize>(&mut self, cells: [String; N], rate: Option<f64>, size: u64) {
        let cells = cells.iter().map(|cell| printable(cell)).collect();
        let rate = rate.unwrap_or(0.0);
        self.rows.push(Row { cells, alarm: Alarm::None, rate, size });
    }

    /// Sets the alarm of the last row.
    fn alarm(&mut self, alarm: Alarm) {
        if let Some(row) = self.rows.last_mut() {
            row.alarm = alarm;
        }
    }

    /// Rows that need attention come first. The rows are already sorted by name, and equal rows
    /// stay in that order.
    fn sort(&mut self, order: Order) {
        match order {
            Order::Name => {}
            Order::Rate => {
                self.rows.sort_by(|a, b| b.rate.partial_cmp(&a.rate).unwrap_or(Ordering::Equal));
            }
            Order::Size => self.rows.sort_by_key(|row| Reverse(row.size)),
        }
        self.rows.sort_by_key(|row| Reverse(row.alarm));
    }
}

fn per_second(known: Option<f64>) -> String {
    known.map_or("-".to_owned(), rate)
}

fn process(pid: Option<u32>) -> String {
    pid.map_or("-".to_owned(), |pid| pid.to_string())
}

fn bytes_per_second(known: Option<f64>) -> String {
    known.map_or("-".to_owned(), |rate| bytes(rate.round() as u64))
}

fn maps(view: &View) -> Section {
    let mut table = Section::new(&[
        ("map", 0),
        ("mode", 3),
        ("pairs>", 0),
        ("memory>", 2),
        ("changes/s>", 1),
        ("stream/s>", 2),
        ("replicas>", 4),
        ("lag>", 4),
    ]);
    for map in &view.maps {
        let stream = map.stream.as_ref();
        let changes = stream.and_then(|stream| stream.changes_per_second);
        table.row(
            [
                map.name.clone(),
                map.mode_text.clone(),
                count(map.pairs),
                bytes(map.bytes),
                per_second(changes),
                bytes_per_second(stream.and_then(|stream| stream.bytes_per_second)),
                count(map.replicas.len() as u64),
                lag(map).map_or("-".to_owned(), bytes),
            ],
            changes,
            map.bytes,
        );
    }
    table
}

/// The lag of the slowest replica.
fn lag(map: &MapView) -> Option<u64> {
    map.replicas.iter().map(|replica| replica.lag_bytes).max()
}

fn caches(view: &View) -> Section {
    let mut table = Section::new(&[
        ("cache", 0),
        ("evicted/s>", 0),
        ("expired/s>", 1),
        ("evicted>", 2),
        ("expired>", 3),
        ("hits>", 4),
        ("misses>", 4),
    ]);
    for (map, cache) in view.maps.iter().filter_map(|map| Some((map, map.cache?))) {
        table.row(
            [
                map.name.clone(),
                per_second(cache.evicted_per_second),
                per_second(cache.expired_per_second),
                count(cache.evicted),
                count(cache.expired),
                count(cache.hits),
                count(cache.misses),
            ],
            cache.evicted_per_second,
            map.bytes,
        );
    }
    table
}

fn replicas(view: &View) -> Section {
    let mut table =
        Section::new(&[("replica of", 0), ("replica", 1), ("state", 2), ("behind>", 0)]);
    for (map, replica) in
        view.maps.iter().flat_map(|map| map.replicas.iter().map(move |r| (map, r)))
    {
        let cells = [
            map.name.clone(),
            replica.peer.clone(),
            replica.state.clone(),
            bytes(replica.lag_bytes),
        ];
        table.row(cells, None, replica.lag_bytes);
    }
    table
}

fn origins(view: &View) -> Section {
    let mut table =
        Section::new(&[("follows", 0), ("origin", 2), ("state", 1), ("behind>", 0), ("time>", 3)]);
    for (map, origin) in view.maps.iter().filter_map(|map| Some((map, map.origin.as_ref()?))) {
        let cells = [
            map.name.clone(),
            origin.address.clone(),
            origin.state.to_owned(),
            bytes(origin.lag_bytes),
            span(origin.lag_ms),
        ];
        table.row(cells, None, origin.lag_bytes);
        if origin.state != "follows" {
            table.alarm(Alarm::Warning);
        }
    }
    table
}

fn queues(view: &View) -> Section {
    let mut table = Section::new(&[
        ("queue", 0),
        ("name", 0),
        ("length>", 0),
        ("of>", 3),
        ("in flight>", 4),
        ("pushed/s>", 1),
        ("pulled/s>", 1),
        ("pushed>", 5),
        ("pulled>", 5),
    ]);
    for (all, queue) in view.queues.iter().flat_map(|all| all.queues.iter().map(move |q| (all, q)))
    {
        table.row(
            [
                all.name.clone(),
                queue.name.clone(),
                count(queue.length),
                count(all.elements.into()),
                count(all.in_flight),
                per_second(queue.pushed_per_second),
                per_second(queue.pulled_per_second),
                count(queue.pushed),
                count(queue.pulled),
            ],
            queue.pushed_per_second,
            queue.length,
        );
    }
    table
}

fn channels(view: &View) -> Section {
    let mut table = Section::new(&[
        ("channel", 0),
        ("messages/s>", 0),
        ("bytes/s>", 1),
        ("messages>", 3),
        ("bytes>", 4),
        ("consumers>", 2),
        ("producer>", 2),
        ("waits for>", 1),
    ]);
    for channel in &view.channels {
        table.row(
            [
                channel.name.clone(),
                per_second(channel.messages_per_second),
                bytes_per_second(channel.bytes_per_second),
                count(channel.messages),
                bytes(channel.bytes),
                count(channel.consumers.len() as u64),
                process(channel.producer_pid),
                process(channel.waits_for_pid),
            ],
            channel.messages_per_second,
            channel.bytes,
        );
        if channel.waits_for_pid.is_some() {
            table.alarm(Alarm::Warning);
        }
    }
    table
}

fn consumers(view: &View) -> Section {
    let mut table = Section::new(&[
        ("consumer of", 0),
        ("slot>", 2),
        ("pid>", 1),
        ("behind>", 0),
        ("bytes behind>", 3),
        ("missed>", 2),
    ]);
    for channel in &view.channels {
        for consumer in &channel.consumers {
            let cells = [
                channel.name.clone(),
                consumer.slot.to_string(),
                consumer.pid.to_string(),
                count(consumer.lag_messages),
                bytes(consumer.lag_bytes),
                count(consumer.missed),
            ];
            table.row(cells, None, consumer.lag_bytes);
        }
    }
    table
}

fn logs(view: &View) -> Section {
    let mut table = Section::new(&[
        ("log", 0),
        ("lines/s>", 0),
        ("dropped/s>", 1),
        ("lines>", 3),
        ("dropped>", 2),
        ("overwritten>", 4),
        ("waiting>", 2),
        ("collector>", 3),
    ]);
    for log in &view.logs {
        table.row(
            [
                log.name.clone(),
                per_second(log.lines_per_second),
                per_second(log.dropped_per_second),
                count(log.lines),
                count(log.dropped),
                count(log.overwritten),
                bytes(log.waiting_bytes),
                process(log.collector_pid),
            ],
            log.lines_per_second,
            log.waiting_bytes,
        );
        if log.dropped_per_second.is_some_and(|rate| rate > 0.0) {
            table.alarm(Alarm::Danger);
        }
    }
    table
}

fn participants(view: &View) -> Section {
    let mut table = Section::new(&[
        ("slot>", 1),
        ("pid>", 0),
        ("program", 0),
        ("alive", 3),
        ("state", 0),
        ("age>", 2),
        ("holds the lock of", 1),
    ]);
    for one in &view.participants {
        let state = match (one.alive, one.state) {
            (false, _) => "dead",
            (true, Some(state)) => state.name(),
            (true, None) => "-",
        };
        table.row(
            [
                one.slot.to_string(),
                one.pid.to_string(),
                one.program.clone(),
                if one.alive { "yes" } else { "no" }.to_owned(),
                state.to_owned(),
                span(one.age_ms),
                locks(one),
            ],
            None,
            one.age_ms,
        );
        table.alarm(alarm(one));
    }
    table
}

fn locks(participant: &ParticipantView) -> String {
    if participant.locks.is_empty() { "-".to_owned() } else { participant.locks.join(", ") }
}

fn alarm(participant: &ParticipantView) -> Alarm {
    match (participant.is_suspended(), participant.locks.is_empty()) {
        (_, false) => Alarm::Danger,
        (true, true) => Alarm::Warning,
        (false, true) if !participant.alive => Alarm::Warning,
        (false, true) => Alarm::None,
    }
}
