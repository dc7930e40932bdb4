//! Models of memory orderings, run by loom: what a load may return when nothing orders it.
//!
//! Each module has the sound protocol and the ways to get its orderings wrong. Nobody dies here; threads
//! give up where the product would look again, so that every run ends. loom keeps the last 7 stores of a
//! word, lets no load see a later store of its own future (no load buffering), and treats SeqCst *accesses* as
//! acquire and release; so a model that needs more puts a SeqCst fence next to the access.
//!
//! Invariant: threads only report; the main thread of a model checks after it has joined them.

pub mod cells;
pub mod freezing;
pub mod moving;
pub mod passing;
pub mod reading;
pub mod reuse;
pub mod splitting;
pub mod waking;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs every execution of `model` with at most this many preemptions; `None` is all of them.
///
/// # Errors
/// What failed in the first execution that failed.
pub fn explore(
    preemptions: Option<usize>,
    model: impl Fn() + Sync + Send + 'static,
) -> Result<usize, String> {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    let all = AssertUnwindSafe(|| {
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            model();
        });
    });
    catch_unwind(all).map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => other.downcast_ref::<&str>().map_or("unknown", |text| text).to_string(),
    })?;
    Ok(runs.load(Ordering::Relaxed))
}

/// What is broken in a run, and what that means for its orderings.
#[derive(Clone, Copy)]
struct Rules<Break>(Option<Break>);

impl<Break: PartialEq> Rules<Break> {
    fn is(&self, what: Break) -> bool {
        self.0 == Some(what)
    }

    /// The order of an access; relaxed if that is what is broken.
    fn order(&self, broken: Break, sound: Ordering) -> Ordering {
        if self.is(broken) { Ordering::Relaxed } else { sound }
    }

    /// A fence; none if that is what is broken.
    fn fence(&self, broken: Break, order: Ordering) {
        if !self.is(broken) {
            loom::sync::atomic::fence(order);
        }
    }
}

/// A model of orderings with its name: how to run it sound, within this many preemptions.
pub type Sound = (&'static str, fn(Option<usize>) -> Result<usize, String>);

/// Every model, sound.
#[must_use]
pub fn all() -> [Sound; 8] {
    [
        ("reading", |p| reading::check(None, p)),
        ("splitting", |p| splitting::check(None, p)),
        ("waking", |p| waking::check(None, p)),
        ("reuse", |p| reuse::check(None, p)),
        ("freezing", |p| freezing::check(None, p)),
        ("cells", |p| cells::check(None, p)),
        ("moving", |p| moving::check(None, p)),
        ("passing", |p| passing::check(None, p)),
    ]
}
