//! The machine on which the numbers were measured, without anything that identifies it.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use rustix::{fs::statfs, process::RawPid, system::uname};
use serde::{Deserialize, Serialize};

/// Magic numbers of file systems, from statfs(2).
const TMPFS: u32 = 0x0102_1994;

/// The machine, as far as it bears on the numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the first processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cpus: u64,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub distribution: String,
    /// Setting of huge pages for shared memory.
    pub shmem_huge_pages: String,
    /// Whether the stores lie on a memory file system.
    pub stores_in_memory: bool,
    /// Load of the last minute when the run began; anything over 0.2 casts doubt on the run.
    pub load_before: f64,
}

impl Machine {
    /// The facts of this machine; the stores will be in `directory`.
    pub fn look(directory: &Path) -> Result<Machine> {
        let cpuinfo = read("/proc/cpuinfo");
        let file_system = statfs(directory).with_context(|| {
            format!("cannot look at the file system of {}", directory.display())
        })?;
        Ok(Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            memory_bytes: kibibytes(&read("/proc/meminfo"), "MemTotal"),
            kernel: uname().release().to_string_lossy().into_owned(),
            distribution: distribution(&read("/etc/os-release")),
            shmem_huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/shmem_enabled")),
            stores_in_memory: file_system.f_type as u32 == TMPFS,
            load_before: load(),
        })
    }
}

/// Bytes of memory that the process holds, without memory that it shares through files.
///
/// # Errors
/// If there is no such process.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{}/status", pid as RawPid);
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(kibibytes(&status, "RssAnon"))
}

/// Load of the last minute.
pub fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// A missing fact is reported as unknown, not as an error: no number depends on it.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value behind `name` and a colon.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.trim_end().starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn kibibytes(text: &str, name: &str) -> u64 {
    let value = field(text, name).and_then(|value| value.split(' ').next());
    value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn distribution(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown").trim_matches('"').to_owned()
}

/// The word in brackets.
fn chosen(setting: &str) -> String {
    let word = setting.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or("unknown", |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        assert_eq!(kibibytes("MemFree: 1 kB\nMemTotal:   24 kB\n", "MemTotal"), 24 * 1024);
        assert_eq!(field("model name\t: AMD EPYC\n", "model name"), Some("AMD EPYC"));
        assert_eq!(distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(chosen("always within_size [never] deny\n"), "never");
    }

    #[test]
    fn this_process_holds_memory() {
        assert!(resident_bytes(std::process::id()).unwrap() > 0);
    }
}
