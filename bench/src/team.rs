//! The workers of one process: it opens their stores, and runs each phase in all of them together.
//!
//! Invariant: the time of a phase is from the first worker's start to the last one's end. It does
//! not include checks after the phase. Only the worker process calls this module.

use std::{process, sync::Barrier, thread};

use anyhow::{Context, Result, ensure};
use commonhold_lab::workload::{clock::now_ns, latency::Latencies};

use crate::{
    messages::{Carrier, Port},
    rivals,
    served::Host,
    store::AnyStore,
    worker::{Answer, Done, Job, say},
    workloads::{
        self, OfMessages, OfServers, OfStores,
        tally::{Findings, Tally},
    },
};

/// All workers of a process.
pub trait Team {
    /// Runs one phase in all of them.
    fn run(&mut self, phase: &str) -> Result<Done>;

    /// Closes everything cleanly.
    fn finish(&mut self) -> Result<()>;
}

/// Opens everything for a job.
pub fn open(job: Job) -> Result<Box<dyn Team>> {
    if let Some(workload) = workloads::of_stores(&job.workload) {
        return Ok(Box::new(Stores::open(workload, job)?));
    }
    if let Some(workload) = workloads::of_servers(&job.workload) {
        return Ok(Box::new(Served { workload, host: rivals::host(&job.rival)?, job }));
    }
    let workload = workloads::of_messages(&job.workload)?;
    let rival = rivals::carrier(&job.rival, &job.workload)?;
    Ok(Box::new(Ports::open(workload, rival, job)?))
}

struct Stores {
    workload: &'static dyn OfStores,
    batch: usize,
    stores: Vec<Box<AnyStore>>,
    job: Job,
}

impl Stores {
    fn open(workload: &'static dyn OfStores, job: Job) -> Result<Stores> {
        let rival = rivals::keeper(&job.rival)?;
        let stores = rival.open(&job.site, &job.shape, job.threads)?;
        ensure!(stores.len() == job.threads, "{} opened a wrong number of stores", rival.name());
        Ok(Stores { workload, batch: rival.batch(), stores, job })
    }
}

impl Team for Stores {
    fn run(&mut self, phase: &str) -> Result<Done> {
        let Stores { workload, batch, stores, job } = self;
        let done = together(stores, job.shape.latency, |at, store, tally| {
            let worker = job.first_worker + at as u64;
            workload.run(phase, worker, &job.shape, *batch, store.as_mut(), tally)
        })?;
        stores.iter_mut().try_for_each(|store| store.flush())?;
        Ok(done)
    }

    fn finish(&mut self) -> Result<()> {
        self.stores.iter_mut().try_for_each(|store| store.finish())
    }
}

struct Ports {
    workload: &'static dyn OfMessages,
    ports: Vec<Box<dyn Port>>,
    job: Job,
}

impl Ports {
    fn open(
        workload: &'static dyn OfMessages,
        rival: &'static dyn Carrier,
        job: Job,
    ) -> Result<Ports> {
        let workers = job.first_worker..job.first_worker + job.threads as u64;
        let ports = rival.open(&job.site, &job.shape, workers)?;
        ensure!(ports.len() == job.threads, "{} opened a wrong number of ports", rival.name());
        Ok(Ports { workload, ports, job })
    }
}

impl Team for Ports {
    fn run(&mut self, phase: &str) -> Result<Done> {
        let Ports { workload, ports, job } = self;
        let worker = |at: usize| job.first_worker + at as u64;
        let done = together(ports, true, |at, port, mut tally| {
            let played = workload.run(phase, worker(at), &job.shape, port.as_mut(), &mut tally);
            match played {
                Ok(()) => Ok(tally),
                Err(error) => give_up(&error),
            }
        })?;
        for at in 0..ports.len() {
            workload.check(phase, worker(at), &job.shape, &job.site)?;
        }
        Ok(done)
    }

    fn finish(&mut self) -> Result<()> {
        self.ports.iter_mut().try_for_each(|port| port.finish())
    }
}

/// Runs one server after the other, each with its client. This process does no work of its own.
struct Served {
    workload: &'static dyn OfServers,
    host: &'static dyn Host,
    job: Job,
}

impl Team for Served {
    fn run(&mut self, phase: &str) -> Result<Done> {
        let Served { workload, host, job } = self;
        ensure!(job.threads == 1, "a server has one client");
        let start_ns = now_ns();
        // This runs on this thread, because the thread outlives the server.
        let findings = workload.run(phase, *host, &job.shape, &job.site)?;
        let tally = Tally { operations: findings.operations, ..Tally::default() };
        Ok(Done { findings, ..done(start_ns, now_ns(), tally) })
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Ends the process, because the other workers would wait forever for this one's messages.
fn give_up(error: &anyhow::Error) -> ! {
    // If the report fails as well, the end of this process shows the failure.
    let _ = say(&Answer::Failed(format!("{error:#}")));
    process::exit(1)
}

/// Runs `play` for each member in a thread of its own. All start at the same moment.
fn together<S: Send>(
    members: &mut [S],
    timed: bool,
    play: impl Fn(usize, &mut S, Tally) -> Result<Tally> + Sync,
) -> Result<Done> {
    let start = Barrier::new(members.len());
    let one = |at: usize, member: &mut S| -> Result<Done> {
        let tally = Tally::new(timed);
        start.wait();
        // Nothing before the barrier may fail, because the others would then wait forever.
        let start_ns = now_ns();
        let tally = play(at, member, tally)?;
        Ok(done(start_ns, now_ns(), tally))
    };
    // A single worker needs no thread of its own.
    if let [member] = members {
        return one(0, member);
    }
    let parts: Vec<Result<Done>> = thread::scope(|scope| {
        let one = &one;
        let threads = members.iter_mut().enumerate();
        let threads: Vec<_> =
            threads.map(|(at, member)| scope.spawn(move || one(at, member))).collect();
        threads.into_iter().map(joined).collect()
    });
    let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
    parts.into_iter().reduce(Done::combine).context("the process has no worker")
}

fn joined(thread: thread::ScopedJoinHandle<'_, Result<Done>>) -> Result<Done> {
    thread.join().unwrap_or_else(|_| anyhow::bail!("a worker's thread panicked"))
}

fn done(start_ns: u64, end_ns: u64, mut tally: Tally) -> Done {
    Done {
        start_ns,
        end_ns,
        operations: tally.operations,
        wrong: tally.wrong,
        absent: tally.absent,
        resident_bytes: 0,
        times: tally.times.as_mut().map(Latencies::pack).unwrap_or_default(),
        findings: Findings::default(),
    }
}
