//! Round trips between two processes: over two channels, and over two bare cache lines, taking
//! turns in one run.
//!
//! The bare lines show the best that the machine can do: one process stores a number, the other
//! sees it and stores it back. Both processes poll, so `--wait` has no effect. Untimed rounds give
//! the mean round trip, without reading the clock in it; timed ones give the percentiles. The ratio
//! is the median over pairs of neighbouring untimed rounds.

use super::super::{
    crew::{self, Crew},
    goals,
    percentiles::{self, PERCENTILES},
    table,
};
use super::{Args, Part, prepare};
use crate::workload::{
    Result, RunError,
    board::Board,
    clock::{self, now_ns},
    latency::{Latencies, Packed, show},
    message::{LAST, Message},
    results::{COMMONHOLD, Results, median},
};
use commonhold::Hold;
use commonhold::channel::{Consumer, Join, Policy, Producer, Wait};
use commonhold::raw::SharedLines;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// From ping to pong, and back.
const CHANNELS: [&str; 2] = ["there", "back"];
/// The system that the channel is compared with.
const BARE: &str = "cache line";
const WORKLOAD: &str = "channel ping-pong";
/// The number of round trips between two readings of the clock in an untimed round.
const LOOK_EVERY: u64 = 256;
/// On one processor the other process can only answer when it is scheduled.
const PATIENCE: u32 = 20_000;

/// The orders of both processes.
#[derive(Serialize, Deserialize)]
pub struct Job {
    hold: PathBuf,
    board: PathBuf,
    message_bytes: usize,
    is_ping: bool,
    /// Nanoseconds of each round.
    round_ns: u64,
    /// Rounds of each kind, timed ones not counted; before them, one that does not count.
    rounds: usize,
}

/// The results of the rounds: mean round trips in nanoseconds, by round, and single ones.
#[derive(Serialize, Deserialize, Default)]
pub struct Report {
    means: Vec<f64>,
    single: Packed,
    trips: u64,
}

/// A way to send numbers there and back.
trait Way {
    /// Sends number `turn`, the last one of a round if `is_last`, and waits until it comes back.
    fn trip(&mut self, turn: u64, is_last: bool) -> Result<()>;
    /// Waits for number `turn` and sends it back; true if it was the last one.
    fn answer(&mut self, turn: u64) -> Result<bool>;
}

/// Two cache lines; the lowest bit of a word says that it is the last of its round.
struct Lines {
    lines: SharedLines,
    /// Numbers continue from round to round.
    base: u64,
}

struct Channels {
    producer: Producer,
    consumer: Consumer,
    out: Vec<u8>,
    bytes: Vec<u8>,
    base: u64,
}

/// Measures; both reports come from the process that pings.
pub fn measure(args: &Args) -> Result<Results> {
    let temporary = prepare(args, &CHANNELS)?;
    let board = Board::of_lines(2)?;
    let mut crew = Crew::new("channel")?;
    // Two ways, each timed and untimed.
    let round_ns = (args.seconds * 1e9 / (4 * args.rounds) as f64) as u64;
    let job = |is_ping| {
        Part::PingPong(Job {
            hold: temporary.path().to_owned(),
            board: board.path().to_owned(),
            message_bytes: args.message_size as usize,
            is_ping,
            round_ns,
            rounds: args.rounds,
        })
    };
    let jobs = args.roles().into_iter().zip([job(true), job(false)]).collect();
    crew.enlist(&args.cpus(), jobs)?;
    crew.begin()?;
    let [bare, channel]: [Report; 2] = crew.report(0)?;
    let _: [u64; 2] = crew.report(1)?;
    crew.dismiss()?;
    Ok(collect(bare, channel))
}

fn collect(mut bare: Report, mut channel: Report) -> Results {
    let mut results = Results::here();
    let pairs = channel.means.iter().zip(&bare.means);
    let mut ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
    for (system, report) in [(COMMONHOLD, &mut channel), (BARE, &mut bare)] {
        let mut add = |metric: &str, value, unit: &str| {
            results.add(system, WORKLOAD, metric, value, unit);
        };
        add("round_trip_ns", median(&mut report.means), "ns");
        add("round_trips", report.trips as f64, "trips");
        let mut single = Latencies::new();
        single.add(&report.single);
        percentiles::add(&mut results, system, WORKLOAD, &single);
    }
    results.add(COMMONHOLD, WORKLOAD, "ratio_to_cache_line", median(&mut ratios), "x");
    results.add(COMMONHOLD, WORKLOAD, "clock_ns", clock::cost_ns(), "ns");
    results
}

/// Runs one of the processes.
pub fn run(job: &Job) -> Result<()> {
    let (mut lines, mut channels) = (Lines::new(job)?, Channels::new(job)?);
    if job.is_ping {
        return crew::perform(|_| ping(job, &mut lines, &mut channels));
    }
    crew::perform(|_| {
        let mut trips = [0; 2];
        for _ in 0..2 * (job.rounds + 1) {
            trips[0] += pong(&mut lines)?;
            trips[1] += pong(&mut channels)?;
        }
        Ok(trips)
    })
}

fn ping(job: &Job, lines: &mut Lines, channels: &mut Channels) -> Result<[Report; 2]> {
    let mut reports = [Report::default(), Report::default()];
    let mut single = [Latencies::ready(), Latencies::ready()];
    for round in 0..=job.rounds {
        if round == 1 {
            // The first one was the warm-up.
            reports = Default::default();
            single.iter_mut().for_each(Latencies::clear);
        }
        reports[0].count(untimed(job.round_ns, lines)?);
        reports[1].count(untimed(job.round_ns, channels)?);
        reports[0].trips += timed(job.round_ns, lines, &mut single[0])?;
        reports[1].trips += timed(job.round_ns, channels, &mut single[1])?;
    }
    for (report, single) in reports.iter_mut().zip(&mut single) {
        report.single = single.pack();
    }
    Ok(reports)
}

impl Report {
    fn count(&mut self, (trips, mean): (u64, f64)) {
        self.trips += trips;
        self.means.push(mean);
    }
}

/// A round without reading the clock within a round trip: the number of trips, and their mean.
fn untimed(round_ns: u64, way: &mut impl Way) -> Result<(u64, f64)> {
    let begin_ns = now_ns();
    let mut turn = 0;
    loop {
        for _ in 0..LOOK_EVERY {
            way.trip(turn, false)?;
            turn += 1;
        }
        let past_ns = now_ns() - begin_ns;
        if past_ns >= round_ns {
            way.trip(turn, true)?;
            return Ok((turn, past_ns as f64 / turn as f64));
        }
    }
}

/// A round in which each round trip is timed; the end of one is the beginning of the next.
fn timed(round_ns: u64, way: &mut impl Way, single: &mut Latencies) -> Result<u64> {
    let begin_ns = now_ns();
    let (mut turn, mut last_ns) = (0, begin_ns);
    while last_ns - begin_ns < round_ns {
        way.trip(turn, false)?;
        let now_ns = now_ns();
        single.record(now_ns - last_ns);
        last_ns = now_ns;
        turn += 1;
    }
    way.trip(turn, true)?;
    Ok(turn)
}

/// Answers a round; returns the number of round trips.
fn pong(way: &mut impl Way) -> Result<u64> {
    let mut turn = 0;
    while !way.answer(turn)? {
        turn += 1;
    }
    Ok(turn)
}

impl Lines {
    fn new(job: &Job) -> Result<Lines> {
        Ok(Lines { lines: Board::open(&job.board)?.lines()?, base: 1 })
    }

    /// Waits until line `number` has word `wanted`, apart from its lowest bit, which it returns.
    #[inline]
    fn wait(&self, number: usize, wanted: u64) -> bool {
        let mut looks = 0;
        loop {
            let word = self.lines.word(number).load(Ordering::Acquire);
            if word & !1 == wanted {
                return word & 1 == 1;
            }
            std::hint::spin_loop();
            looks += 1;
            if looks == PATIENCE {
                std::thread::yield_now();
                looks = 0;
            }
        }
    }
}

impl Way for Lines {
    #[inline]
    fn trip(&mut self, turn: u64, is_last: bool) -> Result<()> {
        let word = (self.base + turn) << 1;
        self.lines.word(0).store(word | u64::from(is_last), Ordering::Release);
        self.wait(1, word);
        self.base += if is_last { turn + 1 } else { 0 };
        Ok(())
    }

    #[inline]
    fn answer(&mut self, turn: u64) -> Result<bool> {
        let word = (self.base + turn) << 1;
        let is_last = self.wait(0, word);
        self.lines.word(1).store(word, Ordering::Release);
        self.base += if is_last { turn + 1 } else { 0 };
        Ok(is_last)
    }
}

impl Channels {
    fn new(job: &Job) -> Result<Channels> {
        let hold = Hold::open(&job.hold)?;
        let [out, into] = if job.is_ping { [0, 1] } else { [1, 0] };
        let mut producer = hold.channels().open(CHANNELS[out])?.producer()?;
        let channel = hold.channels().open(CHANNELS[into])?;
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless)?;
        producer.set_wait(Wait::Spin);
        consumer.set_wait(Wait::Spin);
        let (out, bytes) = (vec![0; job.message_bytes], Vec::new());
        Ok(Channels { producer, consumer, out, bytes, base: 0 })
    }

    #[inline]
    fn send(&mut self, message: Message) -> Result<()> {
        message.write(&mut self.out);
        self.producer.send(&self.out)?;
        Ok(())
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<Message> {
        let sequence = self.consumer.recv(&mut self.bytes)?.sequence;
        let message = Message::read(&self.bytes, self.out.len(), number);
        message.filter(|_| sequence == number).ok_or_else(|| {
            RunError::new(format!(
                "message {number} is missing or corrupt: this is a bug; please report it"
            ))
        })
    }
}

impl Way for Channels {
    #[inline]
    fn trip(&mut self, turn: u64, is_last: bool) -> Result<()> {
        let number = self.base + turn;
        self.send(Message { number, due_ns: if is_last { LAST } else { 0 } })?;
        self.receive(number)?;
        self.base += if is_last { turn + 1 } else { 0 };
        Ok(())
    }

    #[inline]
    fn answer(&mut self, turn: u64) -> Result<bool> {
        let message = self.receive(self.base + turn)?;
        self.send(message)?;
        let is_last = message.due_ns == LAST;
        self.base += if is_last { turn + 1 } else { 0 };
        Ok(is_last)
    }
}

/// The result for people.
pub fn lines(args: &Args, results: &Results) -> Vec<String> {
    let value = |system, metric| results.value(system, WORKLOAD, metric).unwrap_or(f64::NAN);
    let ratio = value(COMMONHOLD, "ratio_to_cache_line");
    let mean = [
        "mean (untimed rounds)".to_owned(),
        ns(value(COMMONHOLD, "round_trip_ns")),
        ns(value(BARE, "round_trip_ns")),
        format!("{ratio:.2}x"),
        goals::text(WORKLOAD, "ratio_to_cache_line"),
    ];
    let single = PERCENTILES.iter().map(|(label, metric, _)| {
        let [ours, bare] = [COMMONHOLD, BARE].map(|system| value(system, metric));
        [(*label).to_owned(), ns(ours), ns(bare), format!("{:.2}x", ours / bare), String::new()]
    });
    let rows: Vec<[String; 5]> = std::iter::once(mean).chain(single).collect();
    let heading = ["round trip", "channel", BARE, "ratio", "goal"];
    let mut lines = vec![format!(
        "{} round trips of {} bytes over two channels and {} of a bare cache line, alternating\n",
        value(COMMONHOLD, "round_trips"),
        args.message_size,
        value(BARE, "round_trips"),
    )];
    lines.extend(table::lines(heading, &rows));
    lines.push(format!(
        "\nThe first line has medians over {} rounds, also of the ratios. The others are from \
         rounds in which each round\ntrip was timed, and include one reading of the clock, {:.0} \
         ns.",
        args.rounds,
        value(COMMONHOLD, "clock_ns")
    ));
    lines
}

fn ns(value: f64) -> String {
    show(value as u64)
}
