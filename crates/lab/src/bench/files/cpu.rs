//! Processor time of a process and all that descend from it, according to `/proc`: in ticks of
//! usually 10 ms.
//!
//! A child that has ended and was waited for counts for its parent, so nothing is lost as long as
//! the first process lives.

use crate::workload::{Result, RunError};
use rustix::param::clock_ticks_per_second;
use std::collections::HashMap;
use std::fs;

/// A process with its descendants.
pub struct Family {
    first: u32,
}

/// The contents of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Its own, and that of children that were waited for.
    ticks: u64,
}

impl Family {
    /// # Errors
    /// An error if there is no such process.
    pub fn of(first: u32) -> Result<Family> {
        let family = Family { first };
        family.seconds().map(|_| family)
    }

    /// The processor time of all of them so far.
    pub fn seconds(&self) -> Result<f64> {
        let all = everybody()?;
        if !all.contains_key(&self.first) {
            return Err(RunError::new(format!("process {} does not exist", self.first)));
        }
        let ticks: u64 =
            all.iter().filter(|(pid, _)| self.has(**pid, &all)).map(|(_, stat)| stat.ticks).sum();
        Ok(ticks as f64 / clock_ticks_per_second() as f64)
    }

    fn has(&self, pid: u32, all: &HashMap<u32, Stat>) -> bool {
        let mut pid = pid;
        // As many generations as there are processes: a number may be another's meanwhile, and make
        // a circle.
        for _ in 0..=all.len() {
            if pid == self.first {
                return true;
            }
            match all.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    }
}

fn everybody() -> Result<HashMap<u32, Stat>> {
    let failed = |e| RunError::new(format!("cannot read /proc: {e}"));
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc").map_err(failed)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended meanwhile does not exist any more.
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        all.extend(parse(&text).map(|stat| (pid, stat)));
    }
    Ok(all)
}

/// `PID (NAME) STATE PARENT ...`; the name may have anything in it, so what counts comes after its
/// last bracket.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|time| time.parse::<u64>().ok());
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks: times.sum::<Option<u64>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let text = "77 (a) b (c) S 5 77 77 0 -1 4194304 9 9 9 9 100 20 3 4 20 0 1 0 1";
        assert_eq!(parse(text), Some(Stat { parent: 5, ticks: 127 }));
        assert_eq!(parse("77 (a) S 5"), None);
    }

    #[test]
    fn a_family_uses_what_its_members_use() {
        let family = Family::of(std::process::id()).unwrap();
        let before = family.seconds().unwrap();
        let burn = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done";
        std::process::Command::new("sh").args(["-c", burn]).status().unwrap();
        assert!(family.seconds().unwrap() > before, "a child that was waited for counts");
        assert!(Family::of(u32::MAX).is_err());
    }
}
