//! The writing process: it edits characters of its own share, and increments a counter shared by
//! all.
//!
//! Invariant: an edit stands on the board only after the map has taken it. So at any kill the board
//! is at most one edit behind the map, and never ahead.

use super::entry::{self, Edit};
use super::work::{ACKNOWLEDGED, COUNTED, COUNTS, DONE, EDITS, Order, Part, Workplace};
use crate::workload::Result;

/// Edits between two checks of the board.
const ROUND: u64 = 64;
/// The number of edits between two increments of the shared counter.
const COUNT_EVERY: u64 = 8;

/// Works until the show is over.
pub fn run(order: &Order, share: u32) -> Result<()> {
    let workplace = Workplace::open(order)?;
    let mut writer = Writer { workplace, share, order, counted: 0, value: Vec::new() };
    let own = writer.workplace.characters.len() / order.writers as usize;
    let mut edits = vec![0u32; own];
    let mut rng = fastrand::Rng::with_seed(u64::from(order.place) + 1);
    let mut done = 0;
    while Part::on(&writer.workplace.board)? != Part::Over {
        for _ in 0..ROUND {
            let at = rng.usize(..own);
            edits[at] += 1;
            writer.edit(at, edits[at])?;
            done += 1;
            if done % COUNT_EVERY == 0 {
                writer.count()?;
            }
        }
        writer.workplace.board.put(DONE + u64::from(order.place), done)?;
    }
    Ok(())
}

struct Writer<'a> {
    workplace: Workplace,
    share: u32,
    order: &'a Order,
    counted: u64,
    value: Vec<u8>,
}

impl Writer<'_> {
    fn edit(&mut self, at: usize, number: u32) -> Result<()> {
        let place = at * self.order.writers as usize + self.share as usize;
        let character = self.workplace.characters[place];
        entry::write(&mut self.value, character, Edit { number, writer: self.share + 1 });
        self.workplace.names.set(character.code_point, &self.value)?;
        self.workplace.board.put(ACKNOWLEDGED + place as u64, u64::from(number))
    }

    fn count(&mut self) -> Result<()> {
        debug_assert_eq!(self.workplace.counts.name(), COUNTS);
        self.workplace.counts.increment(EDITS, 1)?;
        self.counted += 1;
        self.workplace.board.put(COUNTED + u64::from(self.share), self.counted)
    }
}
