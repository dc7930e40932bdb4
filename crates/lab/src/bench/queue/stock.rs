//! The elements before and after a run: none is lost, none is duplicated.

use super::{A2B, B2A};
use crate::workload::{Result, RunError};
use commonhold::queue::Queue;

/// Writes a count of zero into every element, which also touches its memory.
pub fn prepare(queue: &Queue) -> Result<()> {
    let first = queue.named(B2A)?;
    let mut all = first.pull_many(queue.stat()?.elements as usize)?;
    all.iter().try_for_each(|bytes| bytes.write(0, &[0; 8]))?;
    Ok(first.push_many(&mut all)?)
}

/// # Errors
/// An error unless every element is in one of the queues, once, and, if they were touched, their
/// counts are `moved` in all.
pub fn audit(queue: &Queue, moved: u64, touched: bool) -> Result<()> {
    let elements = queue.stat()?.elements as usize;
    let mut seen = vec![false; elements];
    let (mut count, mut touches) = (0, 0);
    for name in [B2A, A2B] {
        let batch = queue.named(name)?.pull_many(elements)?;
        for element in batch.iter() {
            let seen = &mut seen[element.id() as usize];
            if std::mem::replace(seen, true) {
                return Err(wrong(format!("element {} is present twice", element.id())));
            }
            count += 1;
            let mut word = [0; 8];
            element.read(0, &mut word)?;
            touches += u64::from_le_bytes(word);
        }
    }
    if count != elements {
        return Err(wrong(format!("{count} of {elements} elements are left")));
    }
    if touched && touches != moved {
        return Err(wrong(format!("{moved} moves, but {touches} touches")));
    }
    Ok(())
}

fn wrong(text: String) -> RunError {
    RunError::new(format!("{text}: this is a bug; please report it"))
}
