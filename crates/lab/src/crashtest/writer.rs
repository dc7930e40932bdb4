//! The writing process: a thread for each of its lanes. Now and then a thread ends and another one
//! starts, because the end of a thread is a kind of death, too.

use super::faults;
use super::lane::Lane;
use super::messages::Messages;
use super::plan::{LANES_EACH, Ledger, Maps, Order};
use super::shared::Shared;
use crate::workload::Result;
use commonhold::Hold;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Operations between two checks for the end of the run.
const ROUND: u32 = 16;
/// The most operations in the life of a thread.
const LIFE: u32 = 30_000;

/// The shared state of all threads of the process.
#[derive(Clone)]
struct Common {
    order: Order,
    hold: Hold,
    maps: Arc<Maps>,
    ledger: Arc<Ledger>,
}

/// Why a thread ended.
enum End {
    /// All processes must finish.
    Over,
    /// Its operations are spent; the lane continues with another thread.
    Spent,
}

/// Works until the run is over.
pub fn run(order: &Order, first_lane: u32) -> Result<()> {
    let ledger = Arc::new(Ledger::open(order)?);
    let open = || {
        let hold = faults::open(order, false)?;
        let maps = Arc::new(Maps::open(&hold)?);
        Ok((hold, maps))
    };
    let Some((hold, maps)) = faults::persist(order, &ledger, 0, open)? else { return Ok(()) };
    ledger.set_ready(order.place)?;
    let common = Common { order: order.clone(), hold, maps, ledger };
    let (sender, ends) = channel();
    for thread in 0..LANES_EACH {
        spawn(&common, first_lane, thread, true, &sender);
    }
    let mut working = LANES_EACH;
    while working > 0 {
        let (thread, end) = ends.recv().expect("threads send before they end");
        match end? {
            End::Over => working -= 1,
            End::Spent => spawn(&common, first_lane, thread, false, &sender),
        }
    }
    Ok(())
}

type Ended = (u32, Result<End>);

fn spawn(common: &Common, first_lane: u32, thread: u32, died: bool, ends: &Sender<Ended>) {
    let (common, ends) = (common.clone(), ends.clone());
    std::thread::spawn(move || {
        let mut died = died;
        let life = || {
            // A failed operation may have happened, as if its process had died.
            work(&common, first_lane + thread, thread, std::mem::replace(&mut died, true))
        };
        let end = faults::persist(&common.order, &common.ledger, thread, life);
        let end = end.map(|end| end.unwrap_or(End::Over));
        // The receiver is gone only if another lane has found an error.
        let _ = ends.send((thread, end));
    });
}

fn work(common: &Common, number: u32, thread: u32, died: bool) -> Result<End> {
    let Common { order, hold, maps, ledger } = common;
    let mut lane = Lane::take_up(number, hold, maps, ledger, died, order.seed)?;
    let mut shared = Shared::default();
    let mut messages = Messages::open(hold)?;
    // Each life of a lane is a writer of lines of its own: the next one counts from the beginning.
    let writer = lane.incarnation << 16 | u64::from(number);
    let life = lane.rng.u32(LIFE / 10..LIFE);
    for done in 0..life {
        if done % ROUND == 0 {
            // A thread that fails repeatedly at its start has made no progress.
            if done > 0 {
                ledger.set_progress(order.place, thread, u64::from(done) + lane.incarnation)?;
            }
            if ledger.over()? {
                return Ok(End::Over);
            }
        }
        match lane.rng.u8(..16) {
            0..=8 => lane.own_step()?,
            9..=11 => lane.grow()?,
            12 => messages.step(&mut lane.rng, writer)?,
            _ => shared.step(&mut lane)?,
        }
    }
    Ok(End::Spent)
}
