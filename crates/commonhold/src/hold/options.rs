//! How a hold is opened or created.

use crate::error::Result;
use crate::hold::handle::Hold;
use crate::hold::open;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The size limit of a hold unless told otherwise: 64 GiB.
pub(crate) const DEFAULT_MAX_BYTES: u64 = 64 << 30;

/// Options for opening or creating a hold; begin with [`Hold::options`].
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
    /// The most bytes the file may ever have, from 1 MiB to 256 GiB; default 64 GiB. Costs address space only.
    /// A creation option: an existing hold keeps its own.
    pub fn max_bytes(mut self, bytes: u64) -> HoldOptions {
        self.max_bytes = bytes;
        self
    }

    /// Permission bits of a new file, default `0o600`, whatever the umask. Must include `0o600`.
    pub fn mode(mut self, mode: u32) -> HoldOptions {
        self.mode = mode;
        self
    }

    /// Where bare names live; default `$COMMONHOLD_DIR`, else `/dev/shm`.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> HoldOptions {
        self.directory = Some(directory.into());
        self
    }

    /// Open for reading only: takes no participant slot, writes nothing, needs no write permission.
    pub fn read_only(mut self, yes: bool) -> HoldOptions {
        self.read_only = yes;
        self
    }

    /// Delete the file when the last process that uses it ends, even by a crash. A creation option. A small helper
    /// process waits for that; if it is killed too, the next opener finds the hold and uses it.
    pub fn delete_on_last_exit(mut self, yes: bool) -> HoldOptions {
        self.delete_on_last_exit = yes;
        self
    }

    /// How long one call of this handle waits for others, all its waits together; default as long
    /// as it takes. It waits where a process has locked what the call needs and does not let go,
    /// because it is stopped (SIGSTOP, a debugger), say. Then it is the error `TimedOut`, which names
    /// slot and process, and what waited is not done (of several keys or elements, those before are).
    /// The holder's death ends the wait at once in any case. Reads never wait, nor does
    /// closing a hold wait for other processes. Opening one waits for a salvage or a deletion of it
    /// only, for 5 seconds at most, and is the error `Busy` then.
    pub fn lock_timeout(mut self, time: Duration) -> HoldOptions {
        self.lock_timeout = Some(time);
        self
    }

    /// Opens an existing hold.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `ReadOnly`, `NotAHold`, `Version`, `Truncated`, `Damaged`, `Unclean` (a file hold
    /// after a crash of the system), `Busy`, `Unsupported` (file system), `TooManyParticipants`, `Invalid` (name).
    pub fn open(&self, name: impl AsRef<Path>) -> Result<Hold> {
        open::open(name.as_ref(), self)
    }

    /// Creates a hold; atomic: nobody ever sees half of one.
    ///
    /// # Errors
    /// `Exists`, `Full`, `Permission`, `Unsupported`, `Invalid`.
    pub fn create(&self, name: impl AsRef<Path>) -> Result<Hold> {
        open::create(name.as_ref(), self)
    }

    /// Opens a hold, or creates it if there is none.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) and [`create`](Self::create), but `NotFound` and `Exists`.
    pub fn open_or_create(&self, name: impl AsRef<Path>) -> Result<Hold> {
        open::open_or_create(name.as_ref(), self)
    }
}
