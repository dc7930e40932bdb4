//! What the integration tests stand on.
//!
//! | module | idea |
//! |---|---|
//! | [`boot`] | a restart of the system, as a file sees it |
//! | [`test_dir`] | a directory of one's own for holds, gone when the test ends |
//! | [`disk`] | a small disk, which is soon full |
//! | [`process`] | real child processes with a watchdog, and memory shared with them |
//! | [`shape`] | keys and values that prove where they come from, for every mode of a map |
//! | [`script`] | operations, the model that says what they answer, and running them |
//! | [`history`] | what several processes did to few keys, and whether any order explains it |
//! | [`cases`] | drawing cases by a seed, and running many of which some may fail |
//! | [`calls`] | every call that may wait for others |
//! | [`company`] | the companion that continues, and what is found when it has ended |
//! | [`uncertain`] | scripts that go on after errors, and what may be found after them |
//! | [`messages`] | scenarios of queues and channels |
//! | [`queues`] | a queue to begin with, and what is found in it |
//! | [`errands`] | what else fails: files, logs, notifiers |
//! | [`expiry`] | pairs that expire and are removed on the way |
//! | [`scenario`] | what a victim does on its way to the step where it is stopped or killed |
//! | [`standstill`] | processes that are stopped or dead at a step, and third parties |
//!
//! Every test binary compiles these for itself and uses some of them.
#![allow(dead_code)]

pub mod boot;
#[cfg(feature = "steps")]
pub mod calls;
pub mod cases;
#[cfg(feature = "steps")]
pub mod company;
pub mod disk;
#[cfg(feature = "steps")]
pub mod errands;
#[cfg(feature = "steps")]
pub mod expiry;
pub mod history;
#[cfg(feature = "steps")]
pub mod messages;
pub mod process;
pub mod queues;
#[cfg(feature = "steps")]
pub mod scenario;
pub mod script;
pub mod shape;
#[cfg(feature = "steps")]
pub mod standstill;
pub mod test_dir;
#[cfg(feature = "steps")]
pub mod uncertain;

/// True if the long forms of the tests were asked for (`COMMONHOLD_LONG=1`).
pub fn long() -> bool {
    std::env::var_os("COMMONHOLD_LONG").is_some_and(|v| v != "0")
}

/// A small generator of pseudo-random numbers (splitmix64); every test states its seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Scrambles a number.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Nothing is wrong, nothing is lost to the allocator, nobody is in the middle of anything.
#[track_caller]
pub fn whole(hold: &commonhold::Hold, what: &str) {
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok, "{what}: {:?}", report.problems);
    assert_eq!(report.allocated, report.reachable, "{what}: {report:?}");
    assert_eq!(report.in_flight, 0, "{what}: {report:?}");
}

/// The operation is refused with an error of this kind, whose text has this in it.
#[track_caller]
pub fn refused<T>(result: commonhold::Result<T>, kind: commonhold::ErrorKind, says: &str) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}
