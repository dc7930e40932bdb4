//! Options for opening or creating a hold.

use std::path::PathBuf;
use std::time::Duration;

/// The default size limit of a hold: 64 GiB.
pub(crate) const DEFAULT_MAX_BYTES: u64 = 64 << 30;

/// Options for opening or creating a hold; begin with
/// [`Hold::options`](crate::Hold::options).
#[derive(Clone, Debug)]
pub struct HoldOptions {
    pub(crate) max_bytes: u64,
    pub(crate) mode: u32,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) delete_on_last_exit: bool,
    pub(crate) lock_timeout: Option<Duration>,
}

impl Default for HoldOptions {
    fn default() -> HoldOptions {
        HoldOptions {
            max_bytes: DEFAULT_MAX_BYTES,
            mode: 0o600,
            directory: None,
            read_only: false,
            delete_on_last_exit: false,
            lock_timeout: None,
        }
    }
}

impl HoldOptions {
    /// Sets the maximum size of the file in bytes, from 1 MiB to 256 GiB; the default is 64 GiB.
    /// The limit costs only address space. This option applies at creation; an existing hold keeps
    /// its limit.
    pub fn max_bytes(mut self, bytes: u64) -> HoldOptions {
        self.max_bytes = bytes;
        self
    }

    /// Sets the permission bits of a new file, whatever the umask; the default is `0o600`. They
    /// must include `0o600`.
    pub fn mode(mut self, mode: u32) -> HoldOptions {
        self.mode = mode;
        self
    }

    /// Sets the directory of bare names; the default is `$COMMONHOLD_DIR`, or else `/dev/shm`.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> HoldOptions {
        self.directory = Some(directory.into());
        self
    }

    /// Opens the hold only for reading: the handle takes no participant slot, writes nothing, and
    /// needs no write permission.
    pub fn read_only(mut self, yes: bool) -> HoldOptions {
        self.read_only = yes;
        self
    }

    /// Deletes the file when the last process that uses it ends, even by a crash. This option
    /// applies at creation. A small helper process waits for that moment; if it is also killed, the
    /// next opener finds the hold and uses it.
    ///
    /// A child that was forked while its parent had the hold open for writing counts as a user
    /// until it closes the handle, executes another program or ends, even if it never uses the
    /// hold. Some children count only from their first writing operation on: a child of a bare
    /// `clone`, one that closes all its descriptors (`close_range`), and one whose parent has more
    /// than 128 holds open (docs/operations/environment.md). Let such a child write before its
    /// parent ends.
    pub fn delete_on_last_exit(mut self, yes: bool) -> HoldOptions {
        self.delete_on_last_exit = yes;
        self
    }

    /// Limits how long one call of this handle waits for other processes, in all its waits
    /// together; by default there is no limit. A call waits if another process has locked something
    /// that the call needs and does not release it, for example because that process is stopped
    /// (SIGSTOP, a debugger). After this time the call fails with `TimedOut`, which names the slot
    /// and the process, and has no effect (with several keys or elements, the earlier ones are
    /// done). If the holder dies, the wait always ends immediately.
    ///
    /// Reads never wait, and closing a hold does not wait for other processes. Opening a hold waits
    /// only for a salvage or a deletion of it, for 5 seconds at most, and then fails with `Busy`.
    pub fn lock_timeout(mut self, time: Duration) -> HoldOptions {
        self.lock_timeout = Some(time);
        self
    }
}
