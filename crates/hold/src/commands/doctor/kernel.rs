//! The kernel: its version, its futexes, its boot identity.

use super::finding::Finding;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;

/// The first version with every feature: MADV_POPULATE_WRITE.
const FULL: (u32, u32) = (5, 14);
/// The oldest version that can carry holds: MADV_WIPEONFORK.
const LEAST: (u32, u32) = (4, 14);

/// Whether the kernel is new enough.
pub fn version() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let seen = format!("Linux {release}");
    match parse(&release) {
        Some(version) if version >= FULL => {
            Finding::ok("kernel", seen, "It has every feature that holds use.")
        }
        Some(version) if version >= LEAST => Finding::warn(
            "kernel",
            seen,
            "It is older than 5.14: holds cannot populate memory in advance \
             (MADV_POPULATE_WRITE), so the first access to a page is slower.",
            "Use a newer kernel if possible.",
        ),
        _ => Finding::fail(
            "kernel",
            seen,
            "It is older than 4.14, or not Linux: holds cannot detect forks.",
            "Use a newer kernel.",
        ),
    }
}

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether futexes work; sandboxes may forbid them.
pub fn futex() -> Finding {
    let word = AtomicU32::new(0);
    match futex::wake(&word, futex::Flags::empty(), 1) {
        Ok(_) => Finding::ok("futexes", "work in a trial", "Waiting writers sleep."),
        Err(error) => Finding::fail(
            "futexes",
            format!("a wake-up fails: {error}"),
            "Writers cannot wait for each other.",
            "Allow the futex system call in the sandbox's (seccomp) profile.",
        ),
    }
}

/// Whether the system distinguishes one boot from the next.
pub fn boot_id() -> Finding {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::read_to_string(PATH) {
        Ok(id) => Finding::ok(
            "boot identity",
            id.trim(),
            "File holds use it to detect that the system crashed while they were open.",
        ),
        Err(error) => Finding::warn(
            "boot identity",
            format!("{PATH}: {error}"),
            "File holds cannot detect that the system crashed while they were open; holds in \
             memory do not need it.",
            "Mount /proc in the sandbox, or keep holds in memory only.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(parse("6.18.44-x"), Some((6, 18)));
        assert_eq!(parse("5.4-generic"), Some((5, 4)));
        assert_eq!(parse("unknown"), None);
    }

    #[test]
    fn this_kernel_is_examined() {
        assert!(version().seen.starts_with("Linux "));
        assert_eq!(futex().name, "futexes");
    }
}
