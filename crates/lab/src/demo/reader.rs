//! The reading process: it reads random characters, times every read and verifies every value.
//!
//! Each value must be whole, belong to its key, and never be older than one that this process
//! has seen before. Only the read itself is timed, not the verification.

use super::entry;
use super::work::{DONE, Order, Part, Workplace};
use crate::workload::{
    Result, clock,
    latency::{Latencies, Packed},
    say,
};
use serde::{Deserialize, Serialize};

/// Reads between two checks of the board.
const ROUND: u64 = 64;
/// How often a reader reports.
const REPORT_EVERY_NS: u64 = 200_000_000;

/// The report of a reader to its starter.
#[derive(Serialize, Deserialize)]
pub struct PartReport {
    /// The part of the show that the latencies belong to.
    pub part: Part,
    /// Latencies since its last report.
    pub latencies: Packed,
    /// Wrong values since the beginning.
    pub wrong: u64,
    /// The first of them, in words.
    pub first_wrong: Option<String>,
}

/// Works until the show is over.
pub fn run(order: &Order) -> Result<()> {
    let mut reader = Reader::new(order)?;
    let mut part = Part::Before;
    let mut reported_ns = clock::now_ns();
    while part != Part::Over {
        for _ in 0..ROUND {
            reader.read_one()?;
        }
        reader.done += ROUND;
        reader.workplace.board.put(DONE + u64::from(order.place), reader.done)?;
        let now_on = Part::on(&reader.workplace.board)?;
        if now_on != part || clock::now_ns() - reported_ns > REPORT_EVERY_NS {
            reader.tell(part)?;
            reported_ns = clock::now_ns();
            part = now_on;
        }
    }
    Ok(())
}

struct Reader {
    workplace: Workplace,
    seen: Vec<u32>,
    rng: fastrand::Rng,
    latencies: Latencies,
    value: Vec<u8>,
    done: u64,
    wrong: u64,
    first_wrong: Option<String>,
}

impl Reader {
    fn new(order: &Order) -> Result<Reader> {
        let workplace = Workplace::open(order)?;
        Ok(Reader {
            seen: vec![0; workplace.characters.len()],
            workplace,
            rng: fastrand::Rng::with_seed(u64::from(order.place) + 1),
            latencies: Latencies::new(),
            value: Vec::new(),
            done: 0,
            wrong: 0,
            first_wrong: None,
        })
    }

    fn read_one(&mut self) -> Result<()> {
        let place = self.rng.usize(..self.seen.len());
        let key = self.workplace.characters[place].code_point;
        let begin = clock::now_ns();
        let found = self.workplace.names.get_into(key, &mut self.value)?;
        self.latencies.record(clock::now_ns() - begin);
        if let Err(why) = self.prove(place, found) {
            self.wrong += 1;
            self.first_wrong.get_or_insert_with(|| format!("character {key}: {why}"));
        }
        Ok(())
    }

    fn prove(&mut self, place: usize, found: bool) -> std::result::Result<(), String> {
        if !found {
            return Err("is missing".to_owned());
        }
        let edit = entry::read(&self.value, self.workplace.characters[place])?;
        let seen = std::mem::replace(&mut self.seen[place], edit.number);
        if edit.number < seen {
            return Err(format!("went back from edit {seen} to {}", edit.number));
        }
        Ok(())
    }

    fn tell(&mut self, part: Part) -> Result<()> {
        let latencies = self.latencies.pack();
        let report = PartReport {
            part,
            latencies,
            wrong: self.wrong,
            first_wrong: self.first_wrong.clone(),
        };
        say(&serde_json::to_string(&report)?)
    }
}
