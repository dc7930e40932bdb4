//! Runs one operation of the library in a loop, for callgrind to count.
//!
//! `commonhold-budgets OPERATION COUNT`: the test `budgets` starts it under valgrind, which collects
//! only inside [`measured`].

mod keys;
mod map;
mod messages;

use anyhow::{Result, bail};
use commonhold::Hold;

/// Everything inside this function is counted. The operation called `empty` is what the loop costs.
#[inline(never)]
fn measured(count: u32, mut operation: impl FnMut(u32) -> Result<()>) -> Result<()> {
    for number in 0..count {
        operation(number)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, operation, count] = &arguments[..] else {
        bail!("usage: commonhold-budgets OPERATION COUNT");
    };
    let count = count.parse()?;
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let hold = Hold::create(directory.path().join("budgets.hold"))?;
    match operation.split_once('-') {
        Some(("map", operation)) => map::run(&hold, operation, count),
        Some(("queue", operation)) => messages::run_queue(&hold, operation, count),
        Some(("channel", operation)) => messages::run_channel(&hold, operation, count),
        Some(("log", operation)) => messages::run_log(&hold, operation, count),
        _ => bail!("no operation is called '{operation}'"),
    }
}
