//! A small disk: a tmpfs that only one child process sees.

use super::process::{Board, Child};
use super::test_dir::TestDir;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io::Write;
use std::path::Path;

/// Runs `body` in a child that sees a tmpfs of this size at the test directory. Returns false
/// (and says so) where mounting is not possible.
pub fn on_small_tmpfs(mebibytes: u32, test_dir: &TestDir, body: impl FnOnce(&Path)) -> bool {
    let board = Board::new(1);
    let child = Child::run("in a mount namespace", || {
        if !mount_tmpfs(test_dir.dir(), mebibytes) {
            return board.put(0, 1);
        }
        body(test_dir.dir());
    });
    child.finish();
    let mounted = board.get(0) == 0;
    if !mounted {
        // Past the test harness, which shows nothing of a test that passes.
        let told = b"NOT COVERED HERE: a tmpfs cannot be mounted; only limits of other kinds are\n";
        std::io::stderr().write_all(told).unwrap();
    }
    mounted
}

fn mount_tmpfs(at: &Path, mebibytes: u32) -> bool {
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        if unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).is_err() {
            return false;
        }
        let write = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
        let _ = write("setgroups", "deny".into());
        let _ = write("uid_map", format!("0 {uid} 1"));
        let _ = write("gid_map", format!("0 {gid} 1"));
    }
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let size = format!("size={mebibytes}m");
    mount(none, "/", none, private, none).is_ok()
        && mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).is_ok()
}
