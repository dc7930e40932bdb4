//! The process of the replicas: one thread that reads them all, or real ones that apply.

use super::super::crew;
use crate::workload::{
    Result, RunError,
    clock::now_ns,
    latency::{Latencies, Packed},
};
use commonhold::Hold;
use commonhold::raw::RawFrame;
use commonhold::stream::StreamFrame;
use commonhold_replicate::{Address, Replica, ReplicaEvents, ReplicaOptions, Tap, digest};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes that are read at a time.
const READ: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// The orders of the process.
#[derive(Serialize, Deserialize)]
pub struct Job {
    pub address: String,
    pub replicas: usize,
    pub apply: bool,
    /// Bytes of each change, if its value begins with the time of its set.
    pub timed: Option<usize>,
}

/// Its report.
#[derive(Serialize, Deserialize)]
pub struct Read {
    /// The final position of each.
    offsets: Vec<u64>,
    /// The digests of their maps, if they apply changes.
    digests: Vec<String>,
    /// How old changes were when they were applied, or read.
    staleness: Option<Packed>,
}

impl Read {
    /// # Errors
    /// An error unless every replica has come to the end.
    pub fn check(&self, end: u64, replicas: usize) -> Result<()> {
        let there = self.offsets.iter().filter(|offset| **offset == end).count();
        if there != replicas {
            let text = format!("{there} of {replicas} replicas have reached the end of the stream");
            return Err(RunError::new(text));
        }
        match self.digests.iter().all(|digest| *digest == self.digests[0]) {
            true => Ok(()),
            false => Err(RunError::new("the replicas' maps differ")),
        }
    }

    /// How old changes were when they were applied, or read.
    pub fn staleness(&self) -> Option<Latencies> {
        let mut latencies = Latencies::new();
        latencies.add(self.staleness.as_ref()?);
        Some(latencies)
    }
}

/// Runs the replicas.
pub fn run(order: &str) -> Result<()> {
    let job: Job = crew::job(order)?;
    let address: Address = job.address.parse()?;
    more_descriptors();
    if job.apply { apply(&job, &address) } else { read(&job, &address) }
}

/// A thousand replicas need more than the usual limit.
fn more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A limit that is too low shows when they connect.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn read(job: &Job, address: &Address) -> Result<()> {
    let connect = |_| Tap::connect(address, PATIENCE);
    let mut taps: Vec<Tap> = (0..job.replicas).map(connect).collect::<commonhold::Result<_>>()?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io)?;
    for (number, tap) in taps.iter().enumerate() {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, tap.socket(), data, epoll::EventFlags::IN).map_err(io)?;
    }
    crew::perform(|_| {
        let mut buffer = vec![0; READ];
        let mut events = Vec::with_capacity(256);
        let mut left = taps.len();
        let mut ages = Latencies::new();
        while left > 0 {
            events.clear();
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).map_err(io)?;
            for event in &events {
                let tap = &mut taps[event.data.u64() as usize];
                let Some(read) = tap.drain(&mut buffer)? else { continue };
                if read == 0 {
                    epoll::delete(&poll, tap.socket()).map_err(io)?;
                    left -= 1;
                }
                let age = job.timed.and_then(|frame| age_of_last(&buffer[..read], frame));
                age.into_iter().for_each(|age| ages.record(age));
            }
        }
        let offsets = taps.iter().map(|tap| tap.offset().unwrap_or(0)).collect();
        Ok(Read { offsets, digests: Vec::new(), staleness: packed(&mut ages) })
    })
}

fn packed(ages: &mut Latencies) -> Option<Packed> {
    (ages.count() > 0).then(|| ages.pack())
}

/// The age of the change that ends with these bytes, if one does.
fn age_of_last(read: &[u8], frame: usize) -> Option<u64> {
    let frame = read.get(read.len().checked_sub(frame)?..)?;
    age(&RawFrame::decode(frame)?.change()?)
}

/// How long ago the value was set, which begins with that time.
fn age(change: &StreamFrame<'_>) -> Option<u64> {
    let set = u64::from_le_bytes(*change.value.first_chunk()?);
    Some(now_ns().wrapping_sub(set))
}

fn io(error: rustix::io::Errno) -> std::io::Error {
    error.into()
}

/// Notes how old changes are.
#[derive(Clone)]
struct Ages(Arc<Mutex<Latencies>>);

impl ReplicaEvents for Ages {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        let mut ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        age(change).into_iter().for_each(|age| ages.record(age));
    }
}

fn apply(job: &Job, address: &Address) -> Result<()> {
    let ages = Ages(Arc::new(Mutex::new(Latencies::new())));
    let mut replicas = Vec::new();
    for number in 0..job.replicas {
        let name = format!("bench-replica-{}-{number}", std::process::id());
        let hold = Hold::options().delete_on_last_exit(true).create(name)?;
        let options = ReplicaOptions::default();
        let replica = match job.timed {
            Some(_) => Replica::connect(&hold, super::MAP, address, options, ages.clone())?,
            None => Replica::connect(&hold, super::MAP, address, options, ())?,
        };
        if !replica.wait_ready(PATIENCE) {
            return Err(RunError::new(format!("a replica is not ready: {:?}", replica.status())));
        }
        replicas.push((hold, replica));
    }
    crew::perform(|_| {
        let mut read = Read { offsets: Vec::new(), digests: Vec::new(), staleness: None };
        for (hold, replica) in &replicas {
            replica.wait(Duration::from_secs(3600), |status| !status.connected);
            read.offsets.push(replica.status().position.map_or(0, |position| position.offset));
            read.digests.push(digest(&hold.maps().open(super::MAP)?)?);
        }
        read.staleness = packed(&mut ages.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(read)
    })
}
