//! Which file system a path lies on, according to `/proc/self/mountinfo`.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// Its kind, such as `tmpfs` or `fuse.sshfs`.
    pub kind: String,
    /// Its own options, such as `size=64k,huge=advise`.
    pub options: String,
}

impl Mount {
    /// The mount that `path`, which must exist, lies on.
    pub fn of(path: &Path) -> Option<Mount> {
        let path = std::fs::canonicalize(path).ok()?;
        find(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
    }

    /// The value of the option `name`, if it is set.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The deepest mount above `path`; of several at one point the last, which hides the others.
fn find(table: &str, path: &Path) -> Option<Mount> {
    let above = table.lines().filter_map(parse).filter(|m| path.starts_with(&m.point));
    above.max_by_key(|m| m.point.components().count())
}

/// A line such as `25 24 0:23 / /dev/shm rw,relatime shared:4 - tmpfs tmpfs rw,size=64k`.
fn parse(line: &str) -> Option<Mount> {
    let (place, system) = line.split_once(" - ")?;
    let point = place.split(' ').nth(4)?;
    let mut system = system.split(' ');
    let (kind, _source, options) = (system.next()?, system.next()?, system.next()?);
    Some(Mount { point: unescape(point), kind: kind.to_owned(), options: options.to_owned() })
}

/// Spaces and the like are octal in the table: `\040`.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match code.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
1 0 254:0 / / rw - ext4 /dev/vda rw
25 24 0:23 / /dev/shm rw,relatime shared:4 - tmpfs tmpfs rw,size=64k,huge=advise
26 24 0:24 / /mnt/my\\040disk rw - fuse.sshfs host rw
27 24 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=128k
";

    #[test]
    fn the_deepest_and_last_mount_is_found() {
        let shm = find(TABLE, Path::new("/dev/shm/shop.hold")).unwrap();
        assert_eq!((shm.kind.as_str(), shm.option("size")), ("tmpfs", Some("128k")));
        assert_eq!(shm.option("huge"), None);
        assert_eq!(find(TABLE, Path::new("/mnt/my disk/x")).unwrap().kind, "fuse.sshfs");
        assert_eq!(find(TABLE, Path::new("/dev/shmoo")).unwrap().kind, "ext4");
    }
}
