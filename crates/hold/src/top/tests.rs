//! Looks at a hold with known traffic, and the screens that they make.

use super::keys::Keys;
use super::process::ProcessState;
use super::screen::{Theme, draw};
use super::sections::Order;
use super::text::text;
use super::view::{
    HoldView, LogView, MapView, OriginView, ParticipantView, ReplicaView, StreamView, View,
};
use super::watch::Watch;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
use serde_json::json;
use std::time::Duration;

/// A hold with a map that has a stream of 64 KiB, and a watch that has looked once.
fn watched() -> (tempfile::TempDir, Hold, Map, Watch) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("it.hold");
    let hold = Hold::create(&path).expect("a hold");
    let map = hold.maps().open_or_create("prices", MapOptions::general()).expect("a map");
    hold.maps().begin_stream("prices", 1 << 16).expect("a stream");
    map.set("apple", "1").expect("a set");
    let reader = Hold::options().read_only(true).open(&path).expect("a reader");
    let mut watch = Watch::new(reader, false);
    let first = watch.look().expect("a look");
    assert_eq!((first.interval_ms, stream(&first).changes), (None, None));
    (folder, hold, map, watch)
}

fn set(map: &Map, times: u32) {
    for _ in 0..times {
        map.set("apple", "22").expect("a set");
    }
}

fn stream(view: &View) -> StreamView {
    view.maps[0].stream.expect("a stream")
}

#[test]
fn changes_are_counted_exactly() {
    let (_folder, _hold, map, mut watch) = watched();
    set(&map, 41);
    assert!(map.delete("apple").expect("a delete"));
    let seen = stream(&watch.look().expect("a look"));
    assert_eq!(seen.changes, Some(42));
    assert!(seen.changes_per_second > Some(0.0) && seen.bytes_per_second > Some(0.0));
    let seen = stream(&watch.look().expect("a look"));
    assert_eq!((seen.changes, seen.changes_per_second), (Some(0), Some(0.0)));
}

#[test]
fn changes_that_the_stream_has_overwritten_are_unknown_once() {
    let (_folder, _hold, map, mut watch) = watched();
    set(&map, 3000);
    let seen = stream(&watch.look().expect("a look"));
    assert_eq!((seen.changes, seen.changes_per_second), (None, None));
    // Its length is known.
    assert!(seen.bytes_per_second > Some(0.0));
    set(&map, 3);
    assert_eq!(stream(&watch.look().expect("a look")).changes, Some(3));
    // Counting in between, nothing is lost.
    for _ in 0..30 {
        set(&map, 100);
        watch.count_during(Duration::ZERO, |_| true);
    }
    assert_eq!(stream(&watch.look().expect("a look")).changes, Some(3000));
}

#[test]
fn a_map_that_was_created_again_has_no_rate() {
    let (_folder, hold, map, mut watch) = watched();
    hold.maps().drop("prices").expect("a drop");
    drop(map);
    assert!(watch.look().expect("a look").maps.is_empty());
    let map = hold.maps().open_or_create("prices", MapOptions::general()).expect("a map");
    hold.maps().begin_stream("prices", 1 << 16).expect("a stream");
    set(&map, 9);
    let seen = stream(&watch.look().expect("a look"));
    assert_eq!((seen.changes, seen.bytes_per_second), (None, None));
    map.set("pear", "1").expect("a set");
    assert_eq!(stream(&watch.look().expect("a look")).changes, Some(1));
}

fn map(name: &str, changes: Option<f64>) -> MapView {
    let stream = StreamView {
        written_bytes: 4800,
        bytes_per_second: changes.map(|rate| rate * 48.0),
        changes: Some(7),
        changes_per_second: changes,
    };
    MapView {
        name: name.to_owned(),
        mode: json!(null),
        mode_text: "general".to_owned(),
        pairs: 1_234_567,
        bytes: 64 << 20,
        stream: Some(stream),
        cache: None,
        replicas: vec![ReplicaView {
            peer: "10.0.0.1:7000".to_owned(),
            state: "following".to_owned(),
            lag_bytes: 2048,
        }],
        origin: None,
    }
}

fn participant(state: ProcessState, locks: &[&str]) -> ParticipantView {
    ParticipantView {
        slot: 0,
        generation: 1,
        pid: 4711,
        program: "shop\u{1b}[2J".to_owned(),
        alive: true,
        state: Some(state),
        locks: locks.iter().map(|&lock| lock.to_owned()).collect(),
        age_ms: 61_000,
    }
}

fn view() -> View {
    View {
        interval_ms: Some(1000),
        hold: HoldView {
            path: "/dev/shm/shop.hold".to_owned(),
            used_bytes: 32 << 20,
            memory_bytes: 40 << 20,
            max_bytes: 64 << 20,
        },
        maps: vec![map("prices", Some(12_345.6)), map("stock", Some(99_999.0))],
        queues: Vec::new(),
        channels: Vec::new(),
        logs: vec![LogView {
            name: "events".to_owned(),
            lines: 7,
            lines_per_second: Some(0.0),
            dropped: 0,
            dropped_per_second: None,
            overwritten: 0,
            waiting_bytes: 0,
            collector_pid: None,
        }],
        participants: vec![participant(ProcessState::Sleeping, &[])],
    }
}

fn pressed(key: char) -> Keys {
    let mut keys = Keys::default();
    keys.press(KeyCode::Char(key).into());
    keys
}

fn drawn(view: &View, keys: &mut Keys, size: (u16, u16), has_colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    let second = Duration::from_secs(1);
    let draw = |frame: &mut ratatui::Frame<'_>| {
        draw(frame, view, keys, second, Theme { has_colours });
    };
    terminal.draw(draw).expect("a screen").buffer.clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    buffer.content.chunks(width).map(line).collect()
}

fn screen(view: &View, keys: &mut Keys, size: (u16, u16)) -> Vec<String> {
    lines(&drawn(view, keys, size, true))
}

#[test]
fn an_ordinary_screen_shows_all() {
    let lines = screen(&view(), &mut Keys::default(), (80, 24));
    let expected = [
        "/dev/shm/shop.hold                                                      every 1s",
        "[||||||||||||||             ]  32.0 MiB used, 40.0 MiB allocated, limit 64.0 MiB",
        "",
        "MAP     MODE         PAIRS    MEMORY  CHANGES/S  STREAM/S  REPLICAS       LAG",
        "prices  general  1,234,567  64.0 MiB     12,346   579 KiB         1  2.00 KiB",
        "stock   general  1,234,567  64.0 MiB     99,999  4.58 MiB         1  2.00 KiB",
        "",
        "REPLICA OF  REPLICA        STATE        BEHIND",
        "prices      10.0.0.1:7000  following  2.00 KiB",
        "stock       10.0.0.1:7000  following  2.00 KiB",
        "",
        "LOG     LINES/S  DROPPED/S  LINES  DROPPED  OVERWRITTEN  WAITING  COLLECTOR",
        "events        0          -      7        0            0      0 B          -",
        "",
        "SLOT   PID  PROGRAM      ALIVE  STATE           AGE  HOLDS THE LOCK OF",
        "   0  4711  shop\\x1b[2J  yes    sleeping  1 min 1 s  -",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert_eq!(lines[23], "q quit  p pause  \u{2191}\u{2193} scroll  s sort: name");
}

#[test]
fn a_narrow_screen_shows_what_matters_and_scrolls() {
    let mut keys = Keys::default();
    let lines = screen(&view(), &mut keys, (40, 10));
    let expected = [
        "/dev/shm/shop.hold              every 1s",
        "32.0 MiB used, 40.0 MiB allocated, limi\u{2026}",
        "",
        "MAP         PAIRS    MEMORY  CHANGES/S",
        "prices  1,234,567  64.0 MiB     12,346",
        "stock   1,234,567  64.0 MiB     99,999",
        "",
        "REPLICA OF  REPLICA          BEHIND",
        "prices      10.0.0.1:7000  2.00 KiB",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(lines[9].ends_with("more \u{2193}"), "{}", lines[9]);
    keys.above = usize::MAX;
    let lines = screen(&view(), &mut keys, (40, 10));
    assert!(lines[8].contains("4711") && lines[8].contains("sleeping"), "{lines:?}");
    assert_eq!(keys.below(), 0);
    // Any size is drawn.
    for size in [(1, 1), (2, 5), (10, 3), (300, 2)] {
        drawn(&view(), &mut keys, size, true);
    }
}

#[test]
fn the_most_active_or_largest_comes_first() {
    let mut keys = pressed('s');
    let lines = screen(&view(), &mut keys, (80, 24));
    assert!(lines[4].starts_with("stock") && lines[23].ends_with("sort: rate"), "{lines:?}");
    let mut view = view();
    view.maps[1].bytes = 1;
    keys.order = Order::Size;
    assert!(screen(&view, &mut keys, (80, 24))[4].starts_with("prices"));
}

#[test]
fn a_pause_is_shown() {
    let mut keys = pressed('p');
    assert!(screen(&view(), &mut keys, (80, 24))[0].ends_with("  paused"));
}

#[test]
fn a_stopped_process_is_marked_with_colours_and_without() {
    let mut view = view();
    // Those that others wait for come first.
    view.participants = vec![
        participant(ProcessState::Running, &[]),
        participant(ProcessState::Stopped, &[]),
        participant(ProcessState::Traced, &["a segment of map 'prices'"]),
    ];
    let lines = screen(&view, &mut Keys::default(), (100, 24));
    assert!(lines[0].ends_with("  2 stopped  every 1s"), "{}", lines[0]);
    assert!(lines[15].contains("traced") && lines[15].ends_with("a segment of map 'prices'"));
    let style = |line: u16, has_colours| {
        let buffer = drawn(&view, &mut Keys::default(), (100, 24), has_colours);
        let cell = &buffer[(4, line)];
        (cell.fg, cell.modifier)
    };
    assert_eq!(style(15, true), (Color::Red, Modifier::BOLD));
    assert_eq!(style(16, true), (Color::Yellow, Modifier::empty()));
    assert_eq!(style(15, false), (Color::Reset, Modifier::REVERSED));
    assert_eq!(style(16, false), (Color::Reset, Modifier::BOLD));
    let buffer = drawn(&view, &mut Keys::default(), (100, 24), false);
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
}

#[test]
fn the_first_look_has_dashes_for_rates() {
    let mut view = view();
    view.maps = vec![map("prices", None)];
    view.maps[0].origin = Some(OriginView {
        address: "unix:./prices.sock".to_owned(),
        state: "follows",
        lag_bytes: 0,
        lag_ms: 3000,
    });
    let lines = screen(&view, &mut Keys::default(), (80, 24));
    let cells: Vec<_> = lines[4].split_whitespace().collect();
    assert_eq!(cells[5..7], ["-", "-"]);
    let text = text(&view);
    assert!(text.contains("\n\nFOLLOWS  ORIGIN              STATE    BEHIND  TIME\n"), "{text}");
}

#[test]
fn an_empty_hold_is_named_so() {
    let mut view = view();
    (view.maps, view.logs, view.participants) = Default::default();
    assert_eq!(screen(&view, &mut Keys::default(), (80, 24))[3], "the hold is empty");
}
