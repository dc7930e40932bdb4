//! The processor that a process runs on.
//!
//! Latency depends on it: two processors that share a cache talk faster than two that do not, and a
//! process that is moved finds its caches cold. Invariant: a request is fulfilled or refused, never
//! ignored.

use super::{Result, RunError};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The processors that `--cpus 0,2,3` names, one for each process of a run, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// Reads `0,2,3`; for the command line.
    pub fn parse(text: &str) -> std::result::Result<Cpus, String> {
        let number = |word: &str| {
            let bad = |_| format!("expected processors such as 0,1,2, got '{word}'");
            word.trim().parse::<usize>().map_err(bad)
        };
        text.split(',').map(number).collect::<std::result::Result<_, _>>().map(Cpus)
    }

    /// One for each of the processes, whose `roles` are named in messages.
    ///
    /// # Errors
    /// An error if their number is another, or if one of them is not ours to use.
    pub fn check(&self, roles: &[String]) -> Result<()> {
        if self.0.len() != roles.len() {
            return Err(RunError::new(format!(
                "--cpus names {}, but there are {} processes: {}",
                self.0.len(),
                roles.len(),
                roles.join(", ")
            )));
        }
        let usable = usable()?;
        match self.0.iter().find(|cpu| !usable.contains(cpu)) {
            None => Ok(()),
            Some(cpu) => {
                let list = usable.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                Err(RunError::new(format!("--cpus: processor {cpu} is not available, only {list}")))
            }
        }
    }

    /// The processor of process `number`, if processors were named.
    pub fn of(&self, number: usize) -> Option<usize> {
        self.0.get(number).copied()
    }
}

/// Lets the calling thread, and those it starts, run on `cpu` alone.
pub fn pin(cpu: usize) -> Result<()> {
    pin_to(&Cpus(vec![cpu]))
}

/// The same with several processors; any, if none are named.
pub fn pin_to(cpus: &Cpus) -> Result<()> {
    if cpus.0.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in &cpus.0 {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(RunError::new(format!("cannot run on processor {cpu}: it does not exist")));
        }
        set.set(*cpu);
    }
    let list = cpus.0.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    sched_setaffinity(None, &set)
        .map_err(|e| RunError::new(format!("cannot run on processor {list}: {e}")))
}

/// The processors that this process may use.
pub fn usable() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None)
        .map_err(|e| RunError::new(format!("cannot list the processors: {e}")))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_and_checked() {
        let cpus = Cpus::parse("0, 1").unwrap();
        assert_eq!((cpus.of(0), cpus.of(1), cpus.of(2)), (Some(0), Some(1), None));
        assert!(Cpus::parse("0,x").unwrap_err().contains("got 'x'"));
        let roles = |n: usize| vec!["process".to_owned(); n];
        let wrong =
            |text: &str, n| Cpus::parse(text).unwrap().check(&roles(n)).unwrap_err().to_string();
        assert!(wrong("0", 2).contains("names 1, but there are 2"));
        assert!(wrong("1000000", 1).contains("processor 1000000 is not available"));
    }

    #[test]
    fn a_pinned_thread_runs_there() {
        std::thread::spawn(|| {
            let last = *usable().unwrap().last().unwrap();
            pin(last).unwrap();
            assert_eq!(usable().unwrap(), [last]);
        })
        .join()
        .unwrap();
    }
}
