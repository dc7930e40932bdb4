//! The thread that sets keys.

use super::super::pace::{Pace, Waiting};
use super::Args;
use crate::workload::{Result, RunError, clock::now_ns};
use commonhold::map::Map;
use commonhold_replicate::Origin;
use std::time::Duration;

/// The number of sets between two readings of the clock.
const LOOK_EVERY: u64 = 64;
/// A replica that reads nothing for this long has gone.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long the writer sleeps while it is too far ahead.
const NAP: Duration = Duration::from_micros(20);

/// Its results.
#[derive(Clone, Copy)]
pub struct Wrote {
    pub sets: u64,
    pub seconds: f64,
}

/// Sets keys for the requested time, at most `--max-ahead` changes ahead of the slowest replica.
/// Each value begins with the instant at which it was set.
pub fn write(args: &Args, map: &Map, origin: &Origin, replicas: usize) -> Result<Wrote> {
    let mut key = vec![b'k'; args.key_size as usize];
    let mut value = vec![b'v'; args.data_size as usize];
    let start_ns = now_ns();
    let end_ns = start_ns + (args.seconds * 1e9) as u64;
    let pace = Pace::new(start_ns, args.rate);
    let mut ahead = Ahead { args, map, origin, replicas, budget: 0 };
    let mut sets = 0;
    loop {
        if sets % LOOK_EVERY == 0 || pace.is_some() {
            let now = now_ns();
            if now >= end_ns {
                let seconds = (now - start_ns) as f64 / 1e9;
                return Ok(Wrote { sets, seconds });
            }
        }
        if let Some(pace) = pace {
            Waiting::Sleep.until(pace.due(sets).min(end_ns));
            value[..8].copy_from_slice(&now_ns().to_le_bytes());
        }
        ahead.wait()?;
        let number = (sets % u64::from(args.cardinality)).to_be_bytes();
        key[..8].copy_from_slice(&number);
        map.set(&key, &value)?;
        sets += 1;
    }
}

/// How far the writer may continue without a check.
struct Ahead<'a> {
    args: &'a Args,
    map: &'a Map,
    origin: &'a Origin,
    replicas: usize,
    budget: u64,
}

impl Ahead<'_> {
    fn wait(&mut self) -> Result<()> {
        if self.replicas == 0 {
            return Ok(());
        }
        let mut late = 0;
        while self.budget == 0 {
            let tail = self.map.follow()?.position().offset;
            let sent = self.origin.sent_to_all().unwrap_or(0);
            let lag = tail.saturating_sub(sent) / self.args.frame_bytes();
            self.budget = self.args.max_ahead.saturating_sub(lag);
            if self.budget == 0 {
                let now = now_ns();
                late = if late == 0 { now + PATIENCE_NS } else { late };
                if now > late {
                    return Err(RunError::new("a replica has stopped reading"));
                }
                std::thread::sleep(NAP);
            }
        }
        self.budget -= 1;
        Ok(())
    }
}
