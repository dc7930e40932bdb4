//! Operations of a map with keys and values of four bytes.

use crate::keys::{Numbers, key};
use crate::measured;
use anyhow::{Result, bail, ensure};
use commonhold::Hold;
use commonhold::map::{CacheOptions, Map, MapOptions, Values};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Pairs that the map has before the operation is counted.
const PAIRS: u32 = 60_000;
/// Keys of one batch.
const BATCH: usize = 64;

/// Runs `general-get`, `fixed-set` and so on.
pub fn run(hold: &Hold, operation: &str, count: u32) -> Result<()> {
    let Some((mode, operation)) = operation.split_once('-') else {
        bail!("expected MODE-OPERATION, got '{operation}'");
    };
    let options = match mode {
        "general" | "streamed" => MapOptions::general(),
        "fixed" => MapOptions::fixed(4, 4),
        "cache" => CacheOptions::new().max_bytes(1 << 30).into(),
        _ => bail!("no mode is called '{mode}'"),
    };
    let map = hold.maps().create("map", options)?;
    for number in 0..PAIRS {
        map.set(key(number), key(number))?;
    }
    if mode == "streamed" {
        hold.maps().begin_stream("map", 64 << 20)?;
    }
    if operation.starts_with("increment") {
        map.clear()?;
        (0..PAIRS).try_for_each(|number| map.set(key(number), [0; 8]).map(drop))?;
    }
    one(&map, operation, count)
}

fn one(map: &Map, operation: &str, count: u32) -> Result<()> {
    let mut numbers = Numbers::below(PAIRS);
    match operation {
        "empty" => measured(count, |_| {
            black_box(key(numbers.next()));
            Ok(())
        }),
        "get" => measured(count, |_| {
            let mut value = [MaybeUninit::uninit(); 4];
            let len = map.get_uninit(key(numbers.next()), &mut value)?;
            black_box(value);
            ensure!(len == Some(4));
            Ok(())
        }),
        "get_into" => {
            let mut value = Vec::with_capacity(16);
            measured(count, |_| {
                ensure!(map.get_into(key(numbers.next()), &mut value)?);
                Ok(())
            })
        }
        "miss" => measured(count, |_| {
            let mut value = [MaybeUninit::uninit(); 4];
            ensure!(map.get_uninit(key(PAIRS + numbers.next()), &mut value)?.is_none());
            Ok(())
        }),
        "get_many" => get_many(map, count, numbers),
        "update" => measured(count, |number| {
            map.set(key(numbers.next()), number.to_le_bytes())?;
            Ok(())
        }),
        "update_wide" => update_wide(map, count, numbers),
        // Over a doubling of the map.
        "put" => measured(count, |number| {
            map.set(key(PAIRS + number), number.to_le_bytes())?;
            Ok(())
        }),
        "delete" => measured(count, |number| {
            ensure!(map.delete(key(number))?);
            Ok(())
        }),
        "pair_get" => {
            let pair = map.pair(key(7))?;
            measured(count, |_| {
                let mut value = [MaybeUninit::uninit(); 4];
                let len = pair.get_uninit(&mut value)?;
                black_box(value);
                ensure!(len == Some(4));
                Ok(())
            })
        }
        "pair_set" => {
            let pair = map.pair(key(7))?;
            measured(count, |number| {
                pair.set(number.to_le_bytes())?;
                Ok(())
            })
        }
        "increment" => measured(count, |_| {
            map.increment(key(numbers.next()), 1)?;
            Ok(())
        }),
        _ => bail!("no operation of a map is called '{operation}'"),
    }
}

/// Keys of 16 bytes and values of 64, as the benchmark of replication has them.
fn update_wide(map: &Map, count: u32, mut numbers: Numbers) -> Result<()> {
    let wide = |number| [key(number); 4].concat();
    let keys: Vec<Vec<u8>> = (0..PAIRS).map(wide).collect();
    let mut value = [0; 64];
    keys.iter().try_for_each(|key| map.set(key, value).map(drop))?;
    measured(count, |number| {
        value[..4].copy_from_slice(&number.to_le_bytes());
        map.set(&keys[numbers.next() as usize], value)?;
        Ok(())
    })
}

fn get_many(map: &Map, count: u32, mut numbers: Numbers) -> Result<()> {
    let (mut keys, mut values) = ([[0; 4]; BATCH], Values::new());
    measured(count, |number| {
        keys[number as usize % BATCH] = key(numbers.next());
        if number as usize % BATCH == BATCH - 1 {
            ensure!(map.get_many(&keys, &mut values)? == BATCH);
        }
        Ok(())
    })
}
