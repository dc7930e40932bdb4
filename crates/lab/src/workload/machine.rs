//! The machine of a run: the facts that a reader of its results must know, without anything that
//! identifies it.

use serde::{Deserialize, Serialize};
use std::fs;

/// The machine of a run; unknown facts are empty or zero: no number depends on them.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Machine {
    /// The processor's name as the kernel gives it.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Whether a hypervisor is below.
    #[serde(default)]
    pub virtual_machine: bool,
    /// The kernel's release.
    pub kernel: String,
    /// The name of the distribution.
    #[serde(default)]
    pub distribution: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The `huge=` option with which `/dev/shm` is mounted, which decides about holds in memory.
    pub shmem_huge_pages: String,
    /// The version of this program.
    pub version: String,
}

impl Machine {
    /// The facts of this machine.
    pub fn here() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            distribution: distribution(&read("/etc/os-release")),
            memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal") * 1024,
            shmem_huge_pages: huge_option(&read("/proc/mounts")),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{}, {} cores{}, {gib:.0} GiB, Linux {}, {}, shared memory huge pages: {}",
            self.cpu,
            self.cores,
            if self.virtual_machine { " (virtual)" } else { "" },
            self.kernel,
            self.distribution,
            self.shmem_huge_pages
        )
    }
}

/// Bytes of memory that a process holds, without memory that it shares through files.
///
/// # Errors
/// If there is no such process.
pub fn resident_bytes(pid: u32) -> std::io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(kilobytes(&status, "RssAnon") * 1024)
}

/// The load of the last minute.
pub fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The time of all processors since the start of the machine, in ticks: all of it, and the part
/// that the hypervisor gave to others.
pub fn stolen_ticks() -> (u64, u64) {
    let stat = read("/proc/stat");
    let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = ticks.take(8).map(|word| word.parse().unwrap_or(0)).collect();
    (ticks.iter().sum(), ticks.get(7).copied().unwrap_or(0))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of `name : value`, first occurrence.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let value = field(text, name).unwrap_or_default();
    value.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn distribution(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown distribution").trim_matches('"').to_owned()
}

/// The `huge=` option of the last mount on `/dev/shm`; the kernel's default is `never`.
fn huge_option(mounts: &str) -> String {
    let fields = mounts.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut here = fields.filter(|fields| fields.get(1) == Some(&"/dev/shm"));
    let options = here.next().and_then(|fields| fields.get(3).copied()).unwrap_or_default();
    let huge = options.split(',').find_map(|option| option.strip_prefix("huge="));
    huge.unwrap_or("never").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(huge_option("tmpfs /dev/shm tmpfs rw,nosuid,huge=advise 0 0\n"), "advise");
        assert_eq!(
            huge_option("tmpfs /dev/shm tmpfs rw 0 0\ntmpfs /run tmpfs huge=always 0 0"),
            "never"
        );
        assert_eq!(kilobytes("MemFree: 1 kB\nMemTotal:  24 kB\n", "MemTotal"), 24);
        assert_eq!(field("model name\t: AMD EPYC\n", "model name").unwrap(), "AMD EPYC");
        assert_eq!(distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert!(Machine::here().cores > 0);
    }

    #[test]
    fn this_process_holds_memory_and_time_passes() {
        assert!(resident_bytes(std::process::id()).unwrap() > 0);
        let (all, stolen) = stolen_ticks();
        assert!(all > stolen);
    }
}
