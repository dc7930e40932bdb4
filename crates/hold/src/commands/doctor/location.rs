//! Checks of a location for holds: does it exist, which file system is it, how much space is free,
//! and does a trial hold work there?
//!
//! The trial uses a real hold: two handles on one new hold see each other alive (file locks)
//! and see each other's changes (shared mapping). It deletes itself at the last exit.

use super::finding::Finding;
use super::mounts::Mount;
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold};
use commonhold_terminal::sizes::shown;
use rustix::fs::{Access, access, statvfs};
use std::path::{Path, PathBuf};

/// Less space than this is probably a container's default rather than a choice.
const LITTLE_ROOM: u64 = 128 << 20;

/// Checks `place`, which the findings call `name`.
pub fn look(name: &str, place: &Path) -> Vec<Finding> {
    let directory = if place.is_dir() { place } else { parent(place) };
    let there = exists(name, directory);
    let Ok(room) = statvfs(directory) else { return vec![there] };
    let total = room.f_blocks.saturating_mul(room.f_frsize);
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    vec![
        there,
        file_system(name, directory),
        size(name, directory, total, free),
        trial(name, directory),
    ]
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn exists(name: &str, directory: &Path) -> Finding {
    let name = &format!("{name}: directory");
    let seen = directory.display().to_string();
    match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(name, seen, "It exists and is writable."),
        Err(error) => Finding::fail(
            name,
            format!("{seen}: {error}"),
            "No hold can be created there.",
            "Create the directory with write permission; for bare names, choose another one \
             with COMMONHOLD_DIR or --directory, preferably on a tmpfs.",
        ),
    }
}

fn file_system(name: &str, directory: &Path) -> Finding {
    let (title, bare) = (&format!("{name}: file system"), name == "bare names");
    let Some(mount) = Mount::of(directory) else {
        return Finding::warn(
            title,
            "not listed in /proc/self/mountinfo",
            "The trial below shows whether holds work there.",
            "Mount /proc in the sandbox.",
        );
    };
    let seen = format!("{} at {}", mount.kind, mount.point.display());
    match mount.kind.as_str() {
        kind if is_foreign(kind) => Finding::fail(
            title,
            seen,
            "Holds do not work on this file system: its memory is not shared between all users, or \
             locks, links or allocation do not work (see docs/operations/environment.md).",
            "Use a tmpfs or a local file system such as ext4, xfs or btrfs. In a container, use a \
             volume instead of the image's root.",
        ),
        "tmpfs" | "ramfs" if !bare => Finding::ok(
            title,
            seen,
            "It is in memory: a restart of the system deletes the holds in it.",
        ),
        kind if bare && kind != "tmpfs" => Finding::warn(
            title,
            seen,
            "Holds with bare names belong in memory; here they are written to a disk.",
            "Point COMMONHOLD_DIR at a directory on a tmpfs, such as /dev/shm.",
        ),
        _ => Finding::ok(title, seen, "Holds work there."),
    }
}

/// Kinds of file systems that the library refuses.
fn is_foreign(kind: &str) -> bool {
    const FOREIGN: &[&str] = &[
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "ceph",
        "afs",
        "coda",
        "lustre",
        "gpfs",
        "gfs2",
        "ocfs2",
        "overlay",
        "aufs",
        "ecryptfs",
        "vboxsf",
        "hugetlbfs",
        "vfat",
        "msdos",
        "exfat",
        "squashfs",
        "erofs",
        "iso9660",
        "proc",
        "sysfs",
    ];
    kind == "fuse" || kind.starts_with("fuse.") || FOREIGN.contains(&kind)
}

fn size(name: &str, directory: &Path, total: u64, free: u64) -> Finding {
    let title = &format!("{name}: room");
    let seen = format!("{} free of {}", shown(free), shown(total));
    let is_shm = directory == Path::new("/dev/shm");
    if total > 0 && total <= LITTLE_ROOM && is_shm {
        return Finding::warn(
            title,
            seen,
            "This is small: containers get 64 MiB of /dev/shm by default. Writers get the error \
             'full' when it is used up.",
            "Docker, Podman: --shm-size=4g; Compose: shm_size: 4g; Kubernetes: an emptyDir with \
             medium: Memory at /dev/shm.",
        );
    }
    if free < total / 20 {
        return Finding::warn(
            title,
            seen,
            "It is nearly full. Writers get a 'full' error when it is used up; nothing is lost.",
            "Free some space: 'hold list' shows the holds, 'hold drop' deletes one; or make the \
             file system larger.",
        );
    }
    Finding::ok(title, seen, "Holds grow into the free space, up to their own limit.")
}

fn trial(name: &str, directory: &Path) -> Finding {
    let title = &format!("{name}: trial hold");
    match try_out(directory) {
        Ok(()) => Finding::ok(
            title,
            "locks and sharing work in a trial",
            "Two handles detected each other, and each other's changes.",
        ),
        Err(Trial::Wrong(what)) => Finding::fail(
            title,
            what,
            "File locks or shared mappings do not work correctly there, as in some sandboxes.",
            "Use another directory or another sandbox.",
        ),
        Err(Trial::Error(error)) => Finding::fail(
            title,
            error.to_string(),
            "A hold could not be created and used there.",
            match error.kind() {
                ErrorKind::Full => "Free some space there.",
                ErrorKind::Permission => "Obtain write permission there; also check SELinux.",
                _ => "See the message; docs/operations/environment.md explains the reasons.",
            },
        ),
    }
}

/// How a trial fails.
enum Trial {
    Wrong(String),
    Error(commonhold::Error),
}

impl From<commonhold::Error> for Trial {
    fn from(error: commonhold::Error) -> Self {
        Trial::Error(error)
    }
}

fn try_out(directory: &Path) -> Result<(), Trial> {
    let path: PathBuf = directory.join(format!(".hold-doctor-{}.hold", std::process::id()));
    let options = Hold::options().max_bytes(16 << 20).delete_on_last_exit(true);
    let one = options.create(&path)?;
    let two = Hold::open(&path)?;
    let result = see_each_other(&one, &two);
    two.close()?;
    one.close()?;
    match commonhold::hold::remove(&path, true) {
        // Its reaper was faster.
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => result,
    }
}

fn see_each_other(one: &Hold, two: &Hold) -> Result<(), Trial> {
    one.maps().open_or_create("trial", MapOptions::general())?.set("key", "value")?;
    if two.maps().open("trial")?.get("key")?.as_deref() != Some(b"value") {
        return Err(Trial::Wrong("one handle does not see the other's changes".into()));
    }
    let alive = one.participants()?.iter().filter(|p| p.alive).count();
    if alive != 2 {
        return Err(Trial::Wrong(format!("expected locks to show 2 open handles, got {alive}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn file_systems_of_others_are_known() {
        assert!(is_foreign("fuse.sshfs") && is_foreign("nfs4") && is_foreign("overlay"));
        assert!(!is_foreign("ext4") && !is_foreign("tmpfs") && !is_foreign("fuseblk_like"));
    }

    #[test]
    fn a_small_shm_is_reported() {
        let shm = Path::new("/dev/shm");
        assert_eq!(size("bare names", shm, 64 << 20, 64 << 20).level, Level::Warn);
        assert_eq!(size("bare names", shm, 8 << 30, 7 << 30).level, Level::Ok);
        assert_eq!(size("path", Path::new("/srv"), 8 << 30, 1 << 20).level, Level::Warn);
    }

    #[test]
    fn a_place_that_is_not_there_fails() {
        let findings = look("path", Path::new("/nonexistent/place/x.hold"));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Fail);
    }
}
