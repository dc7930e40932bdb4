//! Memory that is limited, and huge pages.

use super::finding::Finding;
use super::mounts::Mount;
use commonhold_terminal::sizes::shown;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";
/// A larger limit means no limit: version 1 has no other way to express that.
const NO_LIMIT: u64 = 1 << 60;

/// A memory limit of a control group.
#[derive(Debug, PartialEq, Eq)]
struct Limit {
    group: PathBuf,
    bytes: u64,
    used: u64,
}

impl Limit {
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.used)
    }
}

/// The memory limit of the control group, and how much of it is left.
pub fn cgroup() -> Finding {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    judge(tightest(Path::new(GROUPS), &groups))
}

fn judge(limit: Option<Limit>) -> Finding {
    const NAME: &str = "memory cgroup";
    const MEANING: &str = "The memory of a hold is charged to the process that touches it first, \
                           and at the limit the kernel kills a process. The contents of the hold \
                           survive that.";
    let Some(limit) = limit else {
        return Finding::ok(
            NAME,
            "no limit",
            "The kernel does not kill processes for using the memory of a hold.",
        );
    };
    let seen = format!(
        "{} left of {} in {}",
        shown(limit.left()),
        shown(limit.bytes),
        limit.group.display()
    );
    if limit.left() >= limit.bytes / 10 {
        return Finding::ok(NAME, seen, MEANING);
    }
    Finding::warn(
        NAME,
        seen,
        MEANING,
        "Raise the group's memory limit, or create holds with a --max-bytes well below it.",
    )
}

/// The limit with the least left, of the group and all above it.
fn tightest(root: &Path, groups: &str) -> Option<Limit> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(kinds), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if kinds.is_empty() {
            limits.extend(upwards(root, path, "memory.max", "memory.current"));
        } else if kinds.split(',').any(|kind| kind == "memory") {
            let root = root.join("memory");
            let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            limits.extend(upwards(&root, path, limit, used));
        }
    }
    limits.into_iter().min_by_key(Limit::left)
}

fn upwards(root: &Path, path: &str, limit: &str, used: &str) -> Vec<Limit> {
    let group = root.join(path);
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| read(group, limit, used)).collect()
}

fn read(group: &Path, limit: &str, used: &str) -> Option<Limit> {
    let number =
        |file: &str| std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let bytes = number(limit).filter(|bytes| *bytes < NO_LIMIT)?;
    Some(Limit { group: group.to_owned(), bytes, used: number(used)? })
}

/// Whether holds in memory may have huge pages.
pub fn huge_pages(home: &Path) -> Finding {
    const NAME: &str = "huge pages";
    const SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const MEANING: &str = "This affects speed only: random access to large holds is faster on \
                           huge pages; 'mount -o remount,huge=advise /dev/shm' allows them.";
    let setting = std::fs::read_to_string(SHMEM).unwrap_or_default();
    let kernel = chosen(&setting).unwrap_or("unknown");
    let (mount, home) = (Mount::of(home), home.display());
    match mount {
        Some(mount) if mount.kind != "tmpfs" => Finding::ok(
            NAME,
            format!("{} at {home}, not a tmpfs", mount.kind),
            "Nothing to do: only holds in memory, on a tmpfs, can have huge pages, which make \
             random access to large holds faster.",
        ),
        mount => {
            let huge = mount.as_ref().and_then(|m| m.option("huge")).unwrap_or("never");
            let seen = format!("huge={huge} at {home}; shmem_enabled: {kernel}");
            Finding::ok(NAME, seen, MEANING)
        }
    }
}

/// The setting in brackets: `always within_size [never]`.
fn chosen(settings: &str) -> Option<&str> {
    settings.split_once('[')?.1.split(']').next()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_tightest_limit_upwards_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("user/job");
        std::fs::create_dir_all(&group).unwrap();
        let write = |dir: &Path, limit: &str, used: &str| {
            std::fs::write(dir.join("memory.max"), limit).unwrap();
            std::fs::write(dir.join("memory.current"), used).unwrap();
        };
        write(&group, "max\n", "5\n");
        write(group.parent().unwrap(), "1000\n", "950\n");
        let limit = tightest(root.path(), "0::/user/job\n").unwrap();
        assert_eq!((limit.bytes, limit.left()), (1000, 50));
        assert_eq!(judge(Some(limit)).level, Level::Warn);
        assert_eq!(tightest(root.path(), "0::/elsewhere\n"), None);
        assert_eq!(judge(None).level, Level::Ok);
    }

    #[test]
    fn the_setting_in_brackets_is_the_chosen_one() {
        assert_eq!(chosen("always [advise] never\n"), Some("advise"));
        assert_eq!(chosen(""), None);
    }
}
