//! The results of the predecessors and the goals that follow from them.
//!
//! They were measured on *another* machine (2 cores of a virtual AMD EPYC, 24 GiB, Linux 6.18),
//! so a ratio to them is a hint, not a result; `bench/` measures rivals and this project in one
//! run. Every table that shows them must add [`NOTE`].

/// The note of every table with these results.
pub const NOTE: &str = "* SharedHashFile's, Localmemcache's, Olive's and libworld's results are \
                        from another machine (2 virtual EPYC\n  cores); the ratio to them is a \
                        hint. Ratios from one run on one machine come from the project's\n  \
                        bench/ folder.";

/// A predecessor's result and the goal of this project in terms of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The number, in the metric's unit.
    pub theirs: f64,
    /// Ours divided by theirs should be at least this, or at most, if less is better.
    pub ratio: f64,
}

/// SharedHashFile's operations per second in `phase` with 2 processes, 10 M keys, 4-byte keys and
/// values. `get_many` is compared with its get.
pub fn rate(fixed: bool, phase: &str) -> Option<Goal> {
    let (general, fixed_length) = match phase {
        "put" => (1.20e6, 2.14e6),
        "upd" => (2.47e6, 4.35e6),
        "mix" => (2.64e6, 4.56e6),
        "get" | "get_many" => (2.61e6, 3.48e6),
        _ => return None,
    };
    let ratio = match (fixed, phase) {
        (false, "get_many") => 8.0,
        (false, _) => 4.0,
        (true, _) => 3.0,
    };
    Some(Goal { theirs: if fixed { fixed_length } else { general }, ratio })
}

/// SharedHashFile's bytes per pair in the same workload.
pub fn bytes_per_pair(fixed: bool) -> Goal {
    if fixed { Goal { theirs: 35.5, ratio: 0.5 } } else { Goal { theirs: 43.6, ratio: 0.85 } }
}

/// The slowest put while the map grows, in nanoseconds, on a quiet core.
pub const SLOWEST_PUT_NS: f64 = 1e6;
/// The 99.99th percentile of puts while the map grows, in nanoseconds.
pub const P9999_PUT_NS: f64 = 100e3;

/// Localmemcache's own loop, in milliseconds for 2 million turns.
pub const LOCALMEMCACHE_MS: Goal = Goal { theirs: 655.0, ratio: 0.5 };

/// Gets per second compared with a private hash map measured in the same run.
pub const PRIVATE_RATIO: f64 = 1.5;

/// A channel's round trip by that of a bare cache line in the same run, at most.
pub const PING_PONG_RATIO: f64 = 1.2;

/// Olive's messages per second: 32 bytes, one consumer, as fast as possible.
pub const OLIVE: Goal = Goal { theirs: 9.3e6, ratio: 5.0 };

/// SharedHashFile's queue elements per second in each of 2 processes, in batches of 1,000,
/// untouched.
pub const QUEUE: Goal = Goal { theirs: 90e6, ratio: 5.0 };
/// The same in one process alone.
pub const QUEUE_ALONE: Goal = Goal { theirs: 132e6, ratio: 5.0 };

/// libworld's sets per second without replicas, or its bytes per second with so many that only
/// read: 16-byte keys, 64-byte data.
pub fn replication(replicas: usize) -> Option<Goal> {
    match replicas {
        0 => Some(Goal { theirs: 3.25e6, ratio: 3.0 }),
        16 => Some(Goal { theirs: 580e6, ratio: 5.0 }),
        1024 => Some(Goal { theirs: 760e6, ratio: 5.0 }),
        _ => None,
    }
}

/// A result and its goal: theirs, the ratio, the goal; dashes if there is none.
pub fn compare(goal: Option<Goal>, ours: f64, sign: &str, text: fn(f64) -> String) -> [String; 3] {
    match goal {
        Some(Goal { theirs, ratio }) => {
            [text(theirs), format!("{:.2}x", ours / theirs), format!("{sign} {ratio}x")]
        }
        None => ["-", "-", "-"].map(str::to_owned),
    }
}
