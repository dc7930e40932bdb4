//! The effects of logins and users: logind's RemoveIPC, `fs.protected_regular`.

use super::finding::Finding;
use std::path::{Path, PathBuf};

/// Users from this number on are people; those below are the system's own and exempt.
const FIRST_PERSON: u32 = 1000;

/// The files of logind's configuration, of which the first one found counts; the folders add to it.
const CONFIGURATION: &[&str] =
    &["/etc/systemd/logind.conf", "/run/systemd/logind.conf", "/usr/lib/systemd/logind.conf"];
const FOLDERS: &[&str] = &[
    "/usr/lib/systemd/logind.conf.d",
    "/usr/local/lib/systemd/logind.conf.d",
    "/run/systemd/logind.conf.d",
    "/etc/systemd/logind.conf.d",
];

/// Whether logind deletes this user's holds at logout.
pub fn remove_ipc(home: &Path) -> Finding {
    const NAME: &str = "RemoveIPC";
    let uid = rustix::process::getuid().as_raw();
    if !home.starts_with("/dev/shm") {
        return Finding::ok(NAME, "holds are not in /dev/shm", "logind leaves them alone.");
    }
    if !Path::new("/run/systemd/system").exists() {
        return Finding::ok(NAME, "systemd is not running here", "Holds remain after logout.");
    }
    if uid < FIRST_PERSON {
        return Finding::ok(
            NAME,
            format!("user {uid} is a system user"),
            "logind exempts system users.",
        );
    }
    if lingers(uid) {
        return Finding::ok(
            NAME,
            format!("user {uid} has lingering enabled"),
            "Holds remain after logout.",
        );
    }
    let (setting, source) = setting();
    let seen = format!("RemoveIPC={} ({source})", if setting { "yes" } else { "no" });
    if !setting {
        return Finding::ok(NAME, seen, "Holds remain after logout.");
    }
    Finding::warn(
        NAME,
        seen,
        "When your last session ends, logind deletes your files in /dev/shm, including holds. \
         Programs that have a hold open continue; other programs cannot find it.",
        "Run services as a system user, run 'loginctl enable-linger', set RemoveIPC=no in \
         /etc/systemd/logind.conf.d/, or set COMMONHOLD_DIR to another directory.",
    )
}

fn lingers(uid: u32) -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_name = |line: &&str| line.split(':').nth(2) == Some(&uid.to_string());
    let name = users.lines().find(is_name).and_then(|line| line.split(':').next());
    name.is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists())
}

/// The setting in force, and its file. systemd's own default is yes.
fn setting() -> (bool, String) {
    let mut found = (true, "the default".to_owned());
    let main = CONFIGURATION.iter().map(PathBuf::from).find(|path| path.exists());
    for path in main.into_iter().chain(snippets()) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(setting) = in_file(&text) {
            found = (setting, path.display().to_string());
        }
    }
    found
}

/// The files of the folders, in the order in which they count: by name.
fn snippets() -> Vec<PathBuf> {
    let files = |folder: &&str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = FOLDERS.iter().flat_map(files).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "conf"));
    all.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    all
}

fn in_file(text: &str) -> Option<bool> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("RemoveIPC"));
    let value = values.filter_map(|rest| rest.trim_start().strip_prefix('=')).next_back()?;
    Some(matches!(value.trim().to_lowercase().as_str(), "yes" | "true" | "on" | "1" | "y" | "t"))
}

/// fs.protected_regular, which the library can handle.
pub fn protected_regular() -> Finding {
    const NAME: &str = "fs.protected_regular";
    let setting = std::fs::read_to_string("/proc/sys/fs/protected_regular").unwrap_or_default();
    let seen = match setting.trim() {
        "" => "unknown",
        setting => setting,
    };
    Finding::ok(
        NAME,
        seen,
        "Holds are first opened without O_CREAT, so you can open holds of other users if their \
         permissions allow it.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_a_file_counts() {
        assert_eq!(in_file("[Login]\n#RemoveIPC=yes\n"), None);
        assert_eq!(in_file("[Login]\nRemoveIPC=yes\nRemoveIPC = no\n"), Some(false));
        assert_eq!(in_file("RemoveIPC=True"), Some(true));
    }
}
