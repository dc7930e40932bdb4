//! `hold bench channel`: throughput and latency of a channel between processes, one producer and
//! many consumers.
//!
//! It measures what Olive's own tools measure, and a little more: every message is verified, a
//! constant rate is free of coordinated omission, and all results can be plotted. With
//! `--ping-pong` it compares round trips between two processes with those of a bare cache line.
//!
//! - [`message`]: the self-verifying messages
//! - [`producer`], [`consumer`]: the two kinds of processes
//! - [`ping_pong`]: round trips
//! - [`report`]: results and tables; [`plot`]: the curves

mod consumer;
mod ping_pong;
mod plot;
mod producer;
mod report;

use super::show;
use super::{
    crew::{self, Crew},
    pace::Waiting,
    plot::page,
    timeline::{Span, Timeline},
};
use crate::workload::{
    Result, RunError, message,
    pin::{Cpus, usable},
    temporary::TemporaryHold,
};
use commonhold::channel::ChannelOptions;
use commonhold_terminal::sizes;
use consumer::{Manner, Taken};
use producer::Sent;
use std::path::PathBuf;
use std::time::Duration;

/// The channel that all processes share.
const CHANNEL: &str = "bench";

/// Shown after `hold bench channel --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench channel --cpus 0,1              # as fast as possible, one consumer
  hold bench channel --rate 1000 --cpus 0,1  # 1,000 messages per second: latency
  hold bench channel --consumers 3 --cpus 0,1,2,3 --plot channel.svg
  hold bench channel --policy lossy --ring-bytes 64K --message-size 1K --plot channel.html
  hold bench channel --ping-pong --cpus 0,1  # round trips, and those of a bare cache line

Latency is measured from the instant at which a message is due until a consumer has verified it.
With --rate, a message that cannot be sent in time counts as late. With --rate 0 (as fast as
possible), latency includes the wait for room in the ring, so a smaller ring gives a lower
latency.";

/// Options of `hold bench channel`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Bytes per message, at least 24
    #[arg(long, value_name = "SIZE", default_value = "32", value_parser = sizes::bytes)]
    message_size: u64,

    /// Size of the ring, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "100K", value_parser = sizes::bytes)]
    ring_bytes: u64,

    /// Messages per second; 0 means as many as possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u64,

    /// Number of consumers; each is a process
    #[arg(long, value_name = "K", default_value_t = 1)]
    consumers: u64,

    /// Processors to run on: one for the producer, then one for each consumer [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    cpus: Option<Cpus>,

    /// Length of the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,

    /// How long to send messages before the measurement begins
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    warm_up: Duration,

    /// Also print results for each interval of this length
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,

    /// Whether the producer waits for slow consumers
    #[arg(long, value_enum, default_value_t = Manner::Lossless)]
    policy: Manner,

    /// Maximum time that the producer waits for a patient consumer
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration)]
    patience: Duration,

    /// How processes wait for messages and for room
    #[arg(long, value_enum, default_value_t = Waiting::Spin)]
    wait: Waiting,

    /// Measure the latency of one in N messages [default: every message; with --rate 0, one in 16]
    #[arg(long, value_name = "N")]
    sample: Option<u64>,

    /// Draw latency by percentile, and latency and throughput over time: FILE.svg or FILE.html
    #[arg(long, value_name = "FILE", value_parser = page::destination)]
    plot: Option<PathBuf>,

    /// Measure round trips between two processes, and compare them with those of a bare cache line
    #[arg(long, conflicts_with_all = ["rate", "consumers", "interval", "policy", "sample", "plot"])]
    ping_pong: bool,

    /// Number of --ping-pong rounds, alternating between channels and bare cache lines; results
    /// are medians
    #[arg(long, value_name = "N", default_value_t = 11, requires = "ping_pong")]
    rounds: usize,

    /// Name or path of the hold to create; it must not exist yet, and is deleted afterwards
    /// [default: a unique name, in memory]
    #[arg(long, value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// The job of a worker process, which `hold bench` starts by itself
    #[arg(long, value_name = "JOB", hide = true)]
    worker: Option<String>,
}

/// The job of a process.
#[derive(serde::Serialize, serde::Deserialize)]
enum Part {
    Producer(producer::Job),
    Consumer(consumer::Job),
    PingPong(ping_pong::Job),
}

/// The results of a run.
struct Measured {
    span: Span,
    sent: Sent,
    /// One for each consumer, with its timeline unpacked.
    consumers: Vec<(Taken, Timeline)>,
}

/// Measures, or runs one of the processes.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(order) = &args.worker {
        return serve(order);
    }
    args.validate()?;
    if args.ping_pong {
        let results = ping_pong::measure(args)?;
        return show(&results, json, &|results| ping_pong::lines(args, results));
    }
    let span = Span::new(args.warm_up, args.seconds, args.interval)?;
    let measured = measure(args, span)?;
    let results = report::collect(args, &measured);
    if let Some(path) = &args.plot {
        plot::draw(args, &measured, path, &results.place())?;
    }
    show(&results, json, &|_| report::lines(args, &measured))
}

fn serve(order: &str) -> Result<()> {
    match crew::job(order)? {
        Part::Producer(job) => producer::run(job),
        Part::Consumer(job) => consumer::run(job),
        Part::PingPong(job) => ping_pong::run(&job),
    }
}

impl Args {
    fn ring_bytes(&self) -> u64 {
        self.ring_bytes.checked_next_power_of_two().unwrap_or(self.ring_bytes)
    }

    /// The number of messages of which one is timed.
    fn sample(&self) -> u64 {
        self.sample.unwrap_or(if self.rate == 0 { 16 } else { 1 })
    }

    fn cpus(&self) -> Cpus {
        self.cpus.clone().unwrap_or_default()
    }

    fn roles(&self) -> Vec<String> {
        if self.ping_pong {
            return ["ping", "pong"].map(str::to_owned).to_vec();
        }
        let consumers = (1..=self.consumers).map(|k| format!("consumer {k}"));
        std::iter::once("producer".to_owned()).chain(consumers).collect()
    }

    fn validate(&self) -> Result<()> {
        if self.message_size < message::LEAST_BYTES {
            let least = message::LEAST_BYTES;
            return Err(RunError::new(format!("expected a --message-size of at least {least}")));
        }
        if self.message_size > self.ring_bytes() / 4 {
            let (size, most) = (self.message_size, self.ring_bytes() / 4);
            return Err(RunError::new(format!(
                "expected a --message-size of at most a quarter of the ring ({most}), got \
                 {size}; raise --ring-bytes"
            )));
        }
        if [self.consumers, self.sample(), self.rounds as u64].contains(&0) {
            return Err(RunError::new(
                "expected at least 1 for --consumers, --sample and --rounds",
            ));
        }
        match &self.cpus {
            Some(cpus) => cpus.check(&self.roles()),
            None => Ok(()),
        }
    }

    /// Conditions that make the results worse than necessary.
    fn warnings(&self) -> Result<Vec<String>> {
        let (processes, cpus) = (self.roles().len(), usable()?.len());
        let crowded = self.wait == Waiting::Spin && processes > cpus;
        Ok(crowded
            .then(|| {
                format!(
                    "Note: {processes} processes spin on {cpus} processors and wait for each \
                     other; use --wait sleep."
                )
            })
            .into_iter()
            .collect())
    }
}

/// Makes the hold and its channels.
fn prepare(args: &Args, channels: &[&str]) -> Result<TemporaryHold> {
    let own = || PathBuf::from(format!("bench-channel-{}", std::process::id()));
    let temporary = TemporaryHold::create(&args.hold.clone().unwrap_or_else(own), None, false)?;
    for name in channels {
        temporary.hold().channels().open_or_create(name, ChannelOptions::new(args.ring_bytes()))?;
    }
    Ok(temporary)
}

fn measure(args: &Args, span: Span) -> Result<Measured> {
    let temporary = prepare(args, &[CHANNEL])?;
    let mut crew = Crew::new("channel")?;
    crew.enlist(&args.cpus(), jobs(args, span, &temporary))?;
    crew.begin()?;
    let sent: Sent = crew.report(0)?;
    let mut consumers = Vec::new();
    for number in 1..=args.consumers as usize {
        let taken: Taken = crew.report(number)?;
        check(&args.roles()[number], &sent, &taken)?;
        let mut timeline = Timeline::new(span);
        timeline.add(&taken.timeline);
        consumers.push((taken, timeline));
    }
    crew.dismiss()?;
    Ok(Measured { span, sent, consumers })
}

/// No process sends before all are ready, so the order of starting does not matter.
fn jobs(args: &Args, span: Span, temporary: &TemporaryHold) -> Vec<(String, Part)> {
    let (hold, message_bytes) = (temporary.path().to_owned(), args.message_size as usize);
    let (rate, sample, waiting) = (args.rate, args.sample(), args.wait);
    let producer = Part::Producer(producer::Job {
        hold: hold.clone(),
        message_bytes,
        rate,
        sample,
        waiting,
        span,
    });
    let (manner, patience) = (args.policy, args.patience);
    let consumer = || {
        let hold = hold.clone();
        Part::Consumer(consumer::Job { hold, message_bytes, manner, patience, waiting, span })
    };
    let parts = std::iter::once(producer).chain((0..args.consumers).map(|_| consumer()));
    args.roles().into_iter().zip(parts).collect()
}

/// Each consumer's received and missed messages must add up to the sent ones.
fn check(name: &str, sent: &Sent, taken: &Taken) -> Result<()> {
    if taken.received + taken.missed == sent.messages {
        return Ok(());
    }
    Err(RunError::new(format!(
        "{name} received {} messages and missed {}, but {} were sent: please report it",
        taken.received, taken.missed, sent.messages
    )))
}
