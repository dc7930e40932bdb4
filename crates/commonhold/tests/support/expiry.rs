//! A scenario of its own: pairs of a cache with a stream expire, and are removed a few at a time.

use super::process::{Board, until};
use super::scenario::{own, stream_agrees, visit};
use super::shape::Shape;
use commonhold::map::{Cursor, Map, MapOptions};
use commonhold::{Hold, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// The map.
pub const PASSING: &str = "passing away";
/// How many there are of each kind.
pub const STAYING: u32 = 100;
pub const GOING: u32 = 200;
const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(1);

/// Sets pairs that stay and pairs that have expired when this returns.
pub fn set_pairs(map: &Map, version: u64) -> Result<()> {
    for id in 0..STAYING + GOING {
        let time = if id < STAYING { HOUR } else { MOMENT };
        map.set_with_ttl(Shape::Cache.key(id), Shape::Cache.value(id, version), time)?;
    }
    until("they have expired", || map.iter().count() == STAYING as usize);
    Ok(())
}

/// How long a round stands still before it ends.
const STANDS_STILL: Duration = Duration::from_secs(2);

/// One round over the map. It ends early if it cannot continue for a while: the stream may be
/// locked for ever.
pub fn go_round(map: &Map) -> Result<u64> {
    let (mut cursor, mut removed) = (Cursor::START, 0);
    let mut moved = (cursor, Instant::now());
    while !cursor.is_end() && moved.1.elapsed() < STANDS_STILL {
        removed += map.try_expire(&mut cursor, 500)?;
        if cursor != moved.0 {
            moved = (cursor, Instant::now());
        }
    }
    Ok(removed)
}

/// The map, with its stream.
pub fn open(hold: &Hold) -> Result<Map> {
    open_as(hold, PASSING)
}

fn open_as(hold: &Hold, name: &str) -> Result<Map> {
    let map = hold.maps().open_or_create(name, MapOptions::cache())?;
    hold.maps().begin_stream(name, 1 << 20)?;
    Ok(map)
}

/// Lets pairs expire and removes them, twice.
pub fn let_expire(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = open_as(&hold, &own(PASSING, at))?;
    for n in 1..=2 {
        board.put(at, n);
        set_pairs(&map, n)?;
        go_round(&map)?;
        board.put(at + 1, n);
    }
    Ok(())
}

/// However far it came, the rest expires, and the stream tells what is there.
pub fn the_rest_expires(hold: &Hold, board: &Board, at: usize) {
    let map = open_as(hold, &own(PASSING, at)).unwrap();
    let gone = |id| map.get(Shape::Cache.key(id)).unwrap().is_none();
    // What has not expired yet must not do so while the stream is read.
    until("all has expired and is removed", || {
        go_round(&map).unwrap();
        (STAYING..STAYING + GOING).all(gone) && map.len().unwrap() == map.iter().count() as u64
    });
    stream_agrees(&map, "when pairs had expired");
    let (begun, done) = (board.get(at), board.get(at + 1));
    for id in 0..STAYING {
        let value = map.get(Shape::Cache.key(id)).unwrap();
        let version = value.map_or(0, |value| Shape::Cache.version(id, &value).unwrap());
        assert!((done..=begun).contains(&version), "{done} <= {version} <= {begun}");
    }
    assert!((STAYING..STAYING + GOING).all(gone));
    assert_eq!(map.stat().unwrap().evicted, 0);
}
