//! The goals of the project, from the one file that has them (`goals.json`, next to this one), each
//! with its reason.
//!
//! The results of the predecessors in it were measured on *another* machine (2 cores of a virtual
//! AMD EPYC, 24 GiB, Linux 6.18), so a ratio to them is only a rough guide; `bench/` measures the
//! other rivals and this project in one run, and judges them by this file, too. Every table that
//! shows the predecessors' results must add [`NOTE`].

use serde::Deserialize;
use std::sync::LazyLock;

/// The note of every table with these results.
pub const NOTE: &str = "* SharedHashFile's, Localmemcache's, Olive's and libworld's results are \
                        from another machine (2 virtual EPYC\n  cores); the ratio to them is \
                        only a rough guide. Ratios from one run on one machine come from \
                        the\n  project's bench/ folder.";

/// A measured number: system, workload, metric.
pub type Place = (String, String, String);

/// One goal.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// What is measured.
    pub job: String,
    /// The system that it is compared with; empty if with none.
    pub rival: String,
    /// The part of `bench report` that measures it.
    pub part: Option<String>,
    /// Our number.
    pub ours: Option<Place>,
    /// The rival's number in the same part.
    pub theirs: Option<Place>,
    /// The rival's number on another machine.
    pub recorded: Option<f64>,
    /// The operation whose instructions are counted instead.
    pub instructions: Option<String>,
    /// The program that measures it instead.
    pub by: Option<String>,
    /// Ours divided by theirs, or ours if there is no rival, should be at least this.
    pub at_least: Option<f64>,
    /// The same, at most this.
    pub at_most: Option<f64>,
    /// The reason for it.
    pub why: String,
}

static ALL: LazyLock<Vec<Goal>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("goals.json")).expect("goals.json is a list of goals")
});

/// All of them.
pub fn all() -> &'static [Goal] {
    &ALL
}

/// The goal for one of our numbers.
pub fn of(workload: &str, metric: &str) -> Option<&'static Goal> {
    let ours = |place: &Place| place.1 == workload && place.2 == metric;
    all().iter().find(|goal| goal.ours.as_ref().is_some_and(ours))
}

impl Goal {
    /// Ours divided by theirs should be at least this, or at most, whichever it is.
    pub fn limit(&self) -> f64 {
        self.at_least.or(self.at_most).unwrap_or(f64::NAN)
    }

    /// Whether a ratio, or a number without a rival, is good enough.
    pub fn is_met(&self, measured: f64) -> bool {
        self.at_least.is_none_or(|least| measured >= least)
            && self.at_most.is_none_or(|most| measured <= most)
    }

    fn sign(&self) -> &'static str {
        if self.at_least.is_some() { ">=" } else { "<=" }
    }

    /// It as text.
    pub fn text(&self) -> String {
        let unit = if self.rival.is_empty() { "" } else { "x" };
        format!("{} {}{unit}", self.sign(), self.limit())
    }
}

/// SharedHashFile's operations per second in `phase` with 2 processes, 10 M keys, 4-byte keys and
/// values. `get_many` is compared with its get.
pub fn rate(fixed: bool, phase: &str) -> Option<&'static Goal> {
    of(&format!("{} {phase}", map(fixed)), "ops_per_s")
}

/// SharedHashFile's bytes per pair in the same workload.
pub fn bytes_per_pair(fixed: bool) -> Option<&'static Goal> {
    of(&format!("{} put", map(fixed)), "bytes_per_pair")
}

fn map(fixed: bool) -> &'static str {
    if fixed { "map fixed own" } else { "map general own" }
}

/// The limit of a latency of puts while the map grows, in nanoseconds on a quiet core.
pub fn put_latency(metric: &str) -> Option<&'static Goal> {
    of("map general own put_latency", metric)
}

/// The goal for one of our numbers as text, which is a ratio; a dash if there is none.
pub fn text(workload: &str, metric: &str) -> String {
    of(workload, metric).map_or("-".to_owned(), Goal::text)
}

/// A result and its goal: theirs, the ratio, the goal; dashes if there is none.
pub fn compare(goal: Option<&Goal>, ours: f64, text: fn(f64) -> String) -> [String; 3] {
    let compared = goal.and_then(|goal| Some((goal, goal.recorded?)));
    match compared {
        Some((goal, theirs)) => [text(theirs), format!("{:.2}x", ours / theirs), goal.text()],
        None => ["-", "-", "-"].map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_has_one_limit_one_source_and_a_reason() {
        for goal in all() {
            assert!(goal.at_least.is_some() != goal.at_most.is_some(), "{goal:?}");
            let sources = [&goal.part, &goal.instructions, &goal.by];
            assert_eq!(sources.into_iter().flatten().count(), 1, "{goal:?}");
            assert_eq!(goal.part.is_some(), goal.ours.is_some(), "{goal:?}");
            assert!(goal.why.len() > 10 && !goal.job.is_empty(), "{goal:?}");
        }
    }

    #[test]
    fn the_commands_own_tables_find_their_goals() {
        assert!(rate(true, "get_many").is_some() && rate(false, "nothing").is_none());
        let put = rate(false, "put").unwrap();
        assert!(put.is_met(4.0) && !put.is_met(3.9));
        assert_eq!(put.text(), ">= 4x");
        let bytes = bytes_per_pair(false).unwrap();
        assert!(bytes.is_met(0.8) && !bytes.is_met(0.81));
        assert_eq!(compare(None, 1.0, |one| one.to_string()), ["-", "-", "-"]);
    }
}
