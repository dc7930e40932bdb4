//! Elements that move between two queues: from a to b, and back from b to a.
//!
//! Worker 0 begins with all elements and passes each on to worker 1, which passes it back. one: a
//! worker takes and passes on one element at a time. many: up to 1000 at a time, by the best means
//! that the rival has, which may be one at a time. A move by either worker is one operation. A
//! number of 4 bytes identifies an element; no worker touches its other bytes.

use anyhow::{Result, bail};

use super::{OfMessages, Workload, tally::Tally};
use crate::{messages::Port, rival::Shape};

/// The number of elements. Every rival has room for all of them in either direction.
pub const ELEMENTS: u32 = 4096;
const MANY: usize = 1000;

/// See the module.
pub struct Queue;

impl Workload for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["one", "many"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 2, keys: (asked.workers * asked.keys / 2).max(1), ..asked }
    }

    fn counts(&self) -> &'static str {
        "moves"
    }

    fn rate(&self, _phase: &str) -> Option<&'static str> {
        Some("moves_per_s")
    }
}

impl OfMessages for Queue {
    fn run(
        &self,
        phase: &str,
        _worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        // Both workers see all elements in the same order, again and again. Before `many`, each has
        // seen all those of `one`.
        let (most, first) = match phase {
            "one" => (1, 0),
            "many" => (MANY, shape.keys),
            _ => bail!("the workload queue has no phase {phase:?}"),
        };
        pass_on(first..first + shape.keys, most, port, tally)
    }
}

/// Takes a number of elements and passes each to the other worker.
fn pass_on(
    turns: std::ops::Range<u64>,
    most: usize,
    port: &mut dyn Port,
    tally: &mut Tally,
) -> Result<()> {
    let mut taken = Vec::with_capacity(most);
    let mut next = turns.start;
    while next < turns.end {
        taken.clear();
        let most = usize::try_from(turns.end - next)?.min(most);
        port.receive(most, &mut |element| {
            tally.check(element, &number(next));
            next += 1;
            taken.push(element.try_into().unwrap_or_default());
        })?;
        port.send_many(&taken)?;
    }
    tally.operations = turns.end - turns.start;
    port.flush()
}

/// The number of the element of that turn.
fn number(turn: u64) -> [u8; 4] {
    ((turn % u64::from(ELEMENTS)) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers prepared elements, and accepts all elements.
    struct Script(std::array::IntoIter<u32, 3>);

    impl Port for Script {
        fn send(&mut self, _message: &[u8]) -> Result<()> {
            Ok(())
        }

        fn receive(&mut self, most: usize, each: crate::messages::Each<'_>) -> Result<usize> {
            let numbers: Vec<u32> = self.0.by_ref().take(most).collect();
            numbers.iter().for_each(|number| each(&number.to_le_bytes()));
            Ok(numbers.len())
        }
    }

    #[test]
    fn an_element_that_is_lost_doubled_or_out_of_order_is_counted_as_wrong() {
        let last = ELEMENTS - 1;
        for (numbers, wrong) in [([last, 0, 1], 0), ([last, 1, 0], 2), ([last, last, 0], 2)] {
            for most in [1, 3] {
                let mut tally = Tally::new(false);
                let mut port = Script(numbers.into_iter());
                let first = u64::from(last);
                pass_on(first..first + 3, most, &mut port, &mut tally).unwrap();
                assert_eq!(tally.wrong, wrong, "{numbers:?}");
            }
        }
    }
}
