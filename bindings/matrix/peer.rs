//! The matrix's peer in Rust; see README.md in this folder.

use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::{LogLevel, LogOptions};
use commonhold::map::{List, Map, MapOptions, Text};
use commonhold::queue::QueueOptions;
use commonhold::{Error, Hold, Result};
use std::time::Duration;

fn hash(bytes: &[u8]) -> String {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    format!("{:08x}", bytes.iter().fold(0x811c_9dc5, step))
}

fn data(i: u32, len: u32) -> Vec<u8> {
    (0..len).map(|j| (7 * i + j) as u8).collect()
}

fn options(what: &str) -> MapOptions {
    match what {
        "cache" => MapOptions::cache().max_entries(1000).ttl(Duration::from_secs(3600)).into(),
        "word" => MapOptions::fixed(4, 4),
        "fixed" => MapOptions::fixed(4, 24),
        _ => MapOptions::general(),
    }
}

fn pairs(hold: &Hold, what: &str, write: bool) -> Result<()> {
    let map = hold.maps().open_or_create(what, options(what))?;
    let key = |i: u32| match what {
        "word" | "fixed" => i.to_le_bytes().to_vec(),
        _ => format!("key {i}").into_bytes(),
    };
    let len = |i| match what {
        "word" => 4,
        "fixed" => 24,
        _ => i,
    };
    for i in 0..200 {
        if write {
            map.set(key(i), data(i, len(i)))?;
            if i % 10 == 0 {
                map.delete(key(i))?;
            }
        }
    }
    for i in 0..200 {
        match (map.uid(key(i))?, map.get(key(i))?) {
            (Some(uid), Some(value)) => println!("{i} {uid} {}", hash(&value)),
            _ => println!("{i} none"),
        }
    }
    Ok(())
}

fn queue(hold: &Hold, write: bool) -> Result<()> {
    let queue =
        hold.queues().open_or_create("queue", QueueOptions::new(4, 16).queues(["free", "full"]))?;
    let (free, full) = (queue.named("free")?, queue.named("full")?);
    let (from, to) = if write { (free, full) } else { (full, free) };
    for n in 0..3 {
        let Some(element) = from.pull()? else { break };
        if write {
            element.write(0, &[65 + n])?;
        }
        println!("{}", element.to_vec()?[0] as char);
        to.push(element)?;
    }
    Ok(())
}

fn channel(hold: &Hold, write: bool) -> Result<()> {
    let channel = hold.channels().open_or_create("channel", ChannelOptions::new(1 << 16))?;
    if write {
        let mut producer = channel.producer()?;
        for i in 0..50 {
            let message = data(i, i);
            println!("{} {}", producer.send(&message)?, hash(&message));
        }
    } else {
        let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless)?;
        let mut message = Vec::new();
        while let Some(received) = consumer.try_recv(&mut message)? {
            println!("{} {}", received.sequence, hash(&message));
        }
    }
    Ok(())
}

fn log(hold: &Hold, write: bool) -> Result<()> {
    let log = hold.logs().open_or_create("log", LogOptions::new())?;
    for i in 0..5 {
        if write {
            let _ = log.write(LogLevel::Info, format!("line {i}"))?;
        }
    }
    for line in log.dump()?.iter().filter(|line| line.announces.is_none()) {
        println!("{}", String::from_utf8_lossy(&line.text));
    }
    Ok(())
}

fn stream(hold: &Hold, write: bool) -> Result<()> {
    let map = hold.maps().open_or_create("stream", MapOptions::general())?;
    let at = hold.maps().open_or_create("at", MapOptions::general())?;
    if write {
        hold.maps().begin_stream("stream", 1 << 16)?;
        at.set("from", map.follow()?.position().to_string())?;
        map.set("a", "1")?;
        map.set("b", "2")?;
        map.delete("a")?;
    }
    let from = String::from_utf8_lossy(&at.get("from")?.unwrap_or_default()).parse()?;
    let mut follower = map.follow_from(from)?;
    while let Some(change) = follower.try_recv()? {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let line = format!("{} {} {}", change.kind as u32, text(change.key), text(change.value));
        println!("{}", line.trim_end());
    }
    Ok(())
}

fn errors(hold: &Hold) -> Result<()> {
    let map: Map = hold.maps().open_or_create("errors", MapOptions::general())?;
    map.set("short", "ab")?;
    map.set("n", "1")?;
    let codes: [Option<Error>; 8] = [
        hold.maps().open("none").err(),
        hold.maps().open_or_create("errors", MapOptions::fixed(4, 4)).err(),
        map.increment("n", 1).err(),
        hold.maps().open_or_create("", MapOptions::general()).err(),
        hold.queues().open("errors").err(),
        hold.channels().open_or_create("ring", ChannelOptions::new(5)).err(),
        map.typed::<Text, List>().push("short", "x").err(),
        Hold::create(hold.path()).err(),
    ];
    for code in codes {
        println!("{}", code.map_or(0, |error| error.kind() as i32));
    }
    Ok(())
}

fn facts(hold: &Hold, what: &str, write: bool) -> Result<()> {
    match what {
        "queue" => queue(hold, write),
        "channel" => channel(hold, write),
        "log" => log(hold, write),
        "stream" => stream(hold, write),
        "errors" => errors(hold),
        "list" => {
            let map = hold.maps().open_or_create("list", MapOptions::general())?;
            let lists = map.typed::<Text, List>();
            if write {
                lists.push("l", "a")?;
                lists.push("l", "b")?;
                lists.unshift("l", "c")?;
            }
            let elements = lists.get("l")?.unwrap_or_default();
            println!("{}", String::from_utf8_lossy(&elements.join(&b','.to_owned())));
            Ok(())
        }
        "counter" => {
            let map = hold.maps().open_or_create("counter", MapOptions::general())?;
            for by in [-5, 7, 40] {
                map.increment("n", if write { by } else { 0 })?;
            }
            println!("{}", map.increment("n", 0)?);
            Ok(())
        }
        _ => pairs(hold, what, write),
    }
}

fn storm(hold: &Hold) -> Result<()> {
    let map = hold.maps().open_or_create("storm", MapOptions::general())?;
    for round in 0.. {
        map.set(format!("key {}", round % 100), data(round, round % 100))?;
        map.increment("n", 1)?;
    }
    Ok(())
}

fn sound(hold: &Hold) -> Result<()> {
    let map = hold.maps().open_or_create("storm", MapOptions::general())?;
    for _ in 0..5000 {
        if map.increment("mine", 0)? > 0 || map.increment("n", 0)? >= 1000 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    map.increment("mine", 1)?;
    hold.sweep()?;
    let report = hold.check()?;
    println!("{}", if report.ok { "sound".to_owned() } else { report.problems.join("\n") });
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", what, hold] => facts(&Hold::open_or_create(hold)?, what, true),
        ["read", what, hold] => facts(&Hold::open(hold)?, what, false),
        ["storm", hold] => storm(&Hold::open_or_create(hold)?),
        ["sound", hold] => sound(&Hold::open(hold)?),
        _ => panic!("see README.md"),
    }
}
