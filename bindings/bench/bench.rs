//! The bindings' benchmark in Rust; see README.md in this folder.

use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::map::{MapOptions, Values};
use commonhold::{Hold, Result};
use std::hint::black_box;
use std::time::Instant;

const KEYS: u32 = 100_000;
const OPERATIONS: u32 = 2_000_000;
const BATCH: usize = 32;
/// Different keys of Localmemcache's loop.
const NUMBERS: u32 = 10_000;

/// xorshift, as in all languages.
fn next(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

fn timed<T>(name: &str, count: u32, mut run: impl FnMut() -> Result<T>) -> Result<()> {
    let start = Instant::now();
    for _ in 0..count {
        black_box(run()?);
    }
    println!("{name} {:.1}", start.elapsed().as_nanos() as f64 / f64::from(count));
    Ok(())
}

fn main() -> Result<()> {
    let name = format!("/dev/shm/bindings-bench-rust-{}.hold", std::process::id());
    let hold = Hold::options().delete_on_last_exit(true).create(&name)?;
    let map = hold.maps().open_or_create("it", MapOptions::general())?;
    let keys: Vec<String> = (0..KEYS).map(|i| format!("key {i:08}")).collect();
    let value = [7u8; 100];
    let mut state = 1;
    let mut key = || &keys[(next(&mut state) % KEYS) as usize];
    for key in &keys {
        map.set(key, value)?;
    }
    timed("set", OPERATIONS, || map.set(key(), value))?;
    let mut out = Vec::new();
    timed("get", OPERATIONS, || map.get_into(key(), &mut out))?;
    let mut values = Values::new();
    timed("get_many", OPERATIONS / BATCH as u32, || {
        let batch: [&str; BATCH] = std::array::from_fn(|_| key().as_str());
        map.get_many(&batch, &mut values)
    })?;
    let channel = hold.channels().open_or_create("channel", ChannelOptions::new(1 << 20))?;
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless)?;
    let mut producer = channel.producer()?;
    timed("send_recv", OPERATIONS, || {
        producer.send(std::hint::black_box(&value[..]))?;
        consumer.recv(&mut out)
    })?;
    let loops = hold.maps().open_or_create("loop", MapOptions::general())?;
    let texts: Vec<String> = (0..NUMBERS).map(|number| number.to_string()).collect();
    let mut state = 1;
    timed("localmemcache", OPERATIONS, || {
        let text = &texts[(next(&mut state) % NUMBERS) as usize];
        loops.set(text, text)?;
        loops.get_into(text, &mut out)
    })
}
