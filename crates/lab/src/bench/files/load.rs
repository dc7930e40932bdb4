//! The load: how many requests, how fast, by how many threads; and the run of all threads.

use super::ask::{Asking, Requests};
use super::cpu::Family;
use super::pause::Pause;
use super::requestor::{Done, Job, Requestor};
use super::schedule::Schedule;
use super::target::Target;
use crate::bench::{
    pace::Pace,
    timeline::{Span, Timeline},
};
use crate::workload::{
    Result, RunError,
    clock::now_ns,
    pin::{self, Cpus},
};
use commonhold_io::address::Address;
use commonhold_terminal::descriptors;
use commonhold_terminal::interrupt::Interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// How long to measure by default, and in a matrix.
const SECONDS: f64 = 10.0;
const MATRIX_SECONDS: f64 = 2.0;
/// All begin this long after the last of them is ready.
const LEAD_NS: u64 = 5_000_000;
/// How often to look whether a thread has failed.
const LOOK: Duration = Duration::from_millis(20);
/// Descriptors of a thread besides one for each connection.
const OTHER_DESCRIPTORS: u64 = 16;
/// A time that no run takes: 100 years, in nanoseconds.
const NEVER_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Options of the load.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "The load")]
pub struct Load {
    /// Number of threads that send requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,

    /// Number of connections per thread
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    connections: u64,

    /// Maximum number of requests in flight on one HTTP connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pipeline: u64,

    /// Length of the measurement, in seconds [default: 10; 2 with --matrix]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,

    /// Send this many requests in total, across all threads, instead of measuring for a fixed time;
    /// there is no warm-up
    #[arg(long, value_name = "N", conflicts_with_all = ["seconds", "warm_up"],
        value_parser = clap::value_parser!(u64).range(1..))]
    requests_total: Option<u64>,

    /// How long to send requests before the measurement begins
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    warm_up: Duration,

    /// With --plot: also draw results for each interval of this length
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,

    /// Total requests per second across all threads; 0 sends each request as soon as the previous
    /// one is answered
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["sleep", "sleep_deviation"])]
    rate: u64,

    /// Average sleep between a response and the next request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    sleep: Duration,

    /// Standard deviation of these sleeps, which are normally distributed
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    sleep_deviation: Duration,

    /// Time limit for a response
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    timeout: Duration,

    /// A processor for each thread [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    cpus: Option<Cpus>,
}

/// The job of all threads.
pub struct Plan {
    /// The server.
    pub address: Address,
    /// The requests.
    pub asking: Asking,
    /// Connections of each.
    pub connections: u64,
    /// Requests in flight over each of these.
    pub pipeline: usize,
    /// When to measure; one endless interval if requests are counted instead.
    pub span: Span,
    /// The sleep after each answer.
    pub pause: Option<Pause>,
    /// The time limit of an answer.
    pub timeout: Duration,
    threads: u64,
    total: Option<u64>,
    rate: u64,
    cpus: Cpus,
}

/// The instant at which all begin, once all are ready.
struct Start {
    ready: Barrier,
    instant_ns: OnceLock<u64>,
}

/// The results of a run.
pub struct Measured {
    /// The answers over time, and their latencies.
    pub timeline: Timeline,
    /// The length of the measurement.
    pub seconds: f64,
    /// Requests that were answered in this time.
    pub answered: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Unknown ids among them.
    pub unknown: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Kept connections that had to be opened again.
    pub reopened: u64,
    /// Processor time of the server meanwhile, if it is known.
    pub server_seconds: Option<f64>,
}

impl Load {
    /// # Errors
    /// Invalid options.
    pub fn validate(&self, asking: &Asking) -> Result<()> {
        if self.pipeline > 1 && !asking.keeps_alive() {
            let text = "--pipeline applies only to HTTP connections that are kept open";
            return Err(RunError::new(text));
        }
        if self.timeout.is_zero() {
            return Err(RunError::new("expected a --timeout of more than 0"));
        }
        let roles: Vec<String> = (1..=self.threads).map(|n| format!("thread {n}")).collect();
        self.cpus.as_ref().map_or(Ok(()), |cpus| cpus.check(&roles))
    }

    /// The job for the server at `address`.
    pub fn plan(&self, address: Address, asking: &Asking, is_matrix: bool) -> Result<Plan> {
        Ok(Plan {
            address,
            asking: asking.clone(),
            connections: self.connections,
            pipeline: self.pipeline as usize,
            span: self.span(is_matrix)?,
            pause: Pause::new(self.sleep, self.sleep_deviation),
            timeout: self.timeout,
            threads: self.threads,
            total: self.requests_total,
            rate: self.rate,
            cpus: self.cpus.clone().unwrap_or_default(),
        })
    }

    /// When to measure.
    pub fn span(&self, is_matrix: bool) -> Result<Span> {
        if self.requests_total.is_some() {
            return Ok(Span { warm_up_ns: 0, measured_ns: NEVER_NS, interval_ns: NEVER_NS });
        }
        let seconds = if is_matrix { MATRIX_SECONDS } else { SECONDS };
        Span::new(self.warm_up, self.seconds.unwrap_or(seconds), self.interval)
    }

    /// Whether there are intervals to be drawn.
    pub fn has_intervals(&self) -> bool {
        self.requests_total.is_none()
    }

    /// The load in a few words.
    pub fn shown(&self) -> String {
        let things = commonhold_terminal::sizes::things;
        let connections = things(self.connections, "connection", "connections");
        let mut words = match self.threads {
            1 => vec![connections],
            threads => vec![format!("{threads} threads"), format!("{connections} each")],
        };
        if self.pipeline > 1 {
            words.push(format!("{} pipelined", self.pipeline));
        }
        match self.rate {
            0 => words.push("closed loop".to_owned()),
            rate => words
                .push(format!("{} requests per second", commonhold_terminal::sizes::count(rate))),
        }
        if self.sleep + self.sleep_deviation > Duration::ZERO {
            let [mean, deviation] =
                [self.sleep, self.sleep_deviation].map(humantime::format_duration);
            words.push(format!("sleeps of {mean} (deviation {deviation})"));
        }
        words.join(", ")
    }
}

impl Plan {
    /// The schedule of thread `number`.
    pub fn schedule(&self, number: u64, start_ns: u64) -> Schedule {
        let end_ns = self.span.end_ns(start_ns);
        match Pace::new(start_ns, self.rate) {
            Some(pace) => {
                let turns = self.total.unwrap_or_else(|| pace.turns_until(end_ns));
                Schedule::Paced { pace, turn: number, step: self.threads, turns, end_ns }
            }
            None => {
                let share = |total: u64| total.saturating_sub(number).div_ceil(self.threads);
                Schedule::Closed { left: self.total.map_or(u64::MAX, share), end_ns }
            }
        }
    }

    /// Every thread draws differently.
    pub fn seed(&self, number: u64) -> u64 {
        self.asking.seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Runs all threads; `family` is the server's, if it is known.
    pub fn run(
        &self,
        requests: &Requests,
        family: Option<&Family>,
        interrupt: &Interrupt,
    ) -> Result<Measured> {
        descriptors::allow(self.threads * (self.connections + OTHER_DESCRIPTORS));
        let target = &Target::find(&self.address)?;
        let (stop, start) = (&AtomicBool::new(false), &Start::new(self.threads));
        thread::scope(|scope| {
            let threads: Vec<ScopedJoinHandle<Result<Done>>> = (0..self.threads)
                .map(|number| {
                    let job = Job { number, plan: self, target, requests, stop };
                    scope.spawn(move || self.perform(job, start))
                })
                .collect();
            let start_ns = start.await_all();
            let watched = self.watch(start_ns, family, interrupt, stop, &threads);
            if watched.is_err() {
                // Relaxed: a lone flag that orders nothing else.
                stop.store(true, Ordering::Relaxed);
            }
            let done = join(threads);
            let server_seconds = watched?;
            self.gather(start_ns, done?, server_seconds)
        })
    }

    fn perform(&self, job: Job, start: &Start) -> Result<Done> {
        let stop = job.stop;
        let pinned = self.cpus.of(job.number as usize).map_or(Ok(()), pin::pin);
        let requestor = pinned.and_then(|()| Requestor::new(job));
        // A thread that cannot take part is waited for, too.
        let start_ns = start.await_all();
        let done = requestor.and_then(|requestor| requestor.run(start_ns));
        if done.is_err() {
            // Relaxed: as above.
            stop.store(true, Ordering::Relaxed);
        }
        done
    }

    /// The server's processor time from the beginning of measuring to its end.
    fn watch(
        &self,
        start_ns: u64,
        family: Option<&Family>,
        interrupt: &Interrupt,
        stop: &AtomicBool,
        threads: &[ScopedJoinHandle<Result<Done>>],
    ) -> Result<Option<f64>> {
        let until = |instant_ns: u64| -> Result<()> {
            loop {
                let left = Duration::from_nanos(instant_ns.saturating_sub(now_ns()));
                let over = threads.iter().all(|thread| thread.is_finished());
                // Relaxed: as above.
                if left.is_zero() || over || stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if interrupt.wait(left.min(LOOK)) {
                    return Err(RunError::Interrupted);
                }
            }
        };
        let used = || family.map(Family::seconds).transpose();
        until(start_ns + self.span.warm_up_ns)?;
        let before = used()?;
        until(self.span.end_ns(start_ns))?;
        let after = used()?;
        // A request in flight may take as long as an answer may.
        until(NEVER_NS)?;
        Ok(after.zip(before).map(|(after, before)| after - before))
    }

    fn gather(
        &self,
        start_ns: u64,
        done: Vec<Done>,
        server_seconds: Option<f64>,
    ) -> Result<Measured> {
        let mut timeline = Timeline::new(self.span);
        done.iter().for_each(|one| timeline.merge(&one.timeline));
        let last_ns = done.iter().map(|one| one.last_ns).fold(start_ns, u64::max);
        let seconds = match self.total {
            Some(_) => (last_ns - start_ns) as f64 / 1e9,
            None => self.span.seconds(),
        };
        let answered = timeline.total().count;
        if answered == 0 {
            let text = "no request was answered during the measurement; raise --seconds";
            return Err(RunError::new(format!("{}: {text}", self.address)));
        }
        let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum();
        Ok(Measured {
            seconds,
            answered,
            bytes: sum(|one| one.bytes),
            unknown: sum(|one| one.unknown),
            unsent: sum(|one| one.unsent),
            reopened: sum(|one| one.reopened),
            server_seconds,
            timeline,
        })
    }
}

impl Start {
    /// For this number of threads and the one that started them.
    fn new(threads: u64) -> Start {
        Start { ready: Barrier::new(threads as usize + 1), instant_ns: OnceLock::new() }
    }

    fn await_all(&self) -> u64 {
        self.ready.wait();
        *self.instant_ns.get_or_init(|| now_ns() + LEAD_NS)
    }
}

/// The results of all threads, or the error of the first one that failed.
fn join(threads: Vec<ScopedJoinHandle<Result<Done>>>) -> Result<Vec<Done>> {
    let panicked = |_| {
        RunError::new("a thread that sends requests has panicked: this is a bug; please report it")
    };
    let ends: Vec<Result<Done>> =
        threads.into_iter().map(|thread| thread.join().map_err(panicked)?).collect();
    let (done, failed): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    // Threads that were only stopped have no error.
    let mut failed: Vec<RunError> = failed.into_iter().filter_map(Result::err).collect();
    failed.sort_by_key(|error| matches!(error, RunError::Interrupted));
    match failed.into_iter().next() {
        None => Ok(done.into_iter().filter_map(Result::ok).collect()),
        Some(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        load: Load,
    }

    fn plan(options: &[&str]) -> Plan {
        let line = std::iter::once("files").chain(options.iter().copied());
        let Line { asking, load } = Line::try_parse_from(line).unwrap();
        load.validate(&asking).unwrap();
        load.plan("tcp:1".parse().unwrap(), &asking, false).unwrap()
    }

    #[test]
    fn threads_share_the_work() {
        for total in [1, 2, 3, 10, 11] {
            let plan = plan(&["--threads", "3", "--requests-total", &total.to_string()]);
            let left = |number| match plan.schedule(number, 0) {
                Schedule::Closed { left, .. } => left,
                Schedule::Paced { .. } => unreachable!("no rate was given"),
            };
            assert_eq!((0..3).map(left).sum::<u64>(), total);
        }
        let paced = plan(&["--threads", "2", "--rate", "10", "--seconds", "1", "--warm-up", "0s"]);
        let unsent = |number| paced.schedule(number, 0).unsent();
        assert_eq!(unsent(0) + unsent(1), 10);
    }

    #[test]
    fn threads_draw_differently_and_again_the_same() {
        let plan = plan(&[]);
        assert_ne!(plan.seed(0), plan.seed(1));
        assert_eq!(plan.seed(1), self::plan(&[]).seed(1));
    }
}
