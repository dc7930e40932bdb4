//! The machine of a run: the facts that a reader of its results must know.

use serde::Serialize;
use std::fs;

/// The machine of a run; unknown facts are empty or zero.
#[derive(Serialize, Clone, Debug)]
pub struct Machine {
    /// The processor's name as the kernel gives it.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The `huge=` option with which `/dev/shm` is mounted, which decides about holds in memory.
    pub shmem_huge_pages: String,
    /// The version of this program.
    pub version: &'static str,
}

impl Machine {
    /// The facts of this machine.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal") * 1024,
            shmem_huge_pages: huge_option(&read("/proc/mounts")),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{}, {} cores, {gib:.0} GiB, Linux {}, shared memory huge pages: {}",
            self.cpu, self.cores, self.kernel, self.shmem_huge_pages
        )
    }
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
        assert!(Machine::here().cores > 0);
    }
}
