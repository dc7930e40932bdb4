//! The operating system layer: everything the library asks of Linux, and nothing else.
//!
//! Everything above builds on these modules. They import nothing of the library but its error type.
//! They know files, memory and processes, but not the contents of a hold.
//!
//! | module | idea |
//! |---|---|
//! | [`file`] | the open hold file; survives a program that closes every descriptor |
//! | [`mapping`] | one reservation of address space over the file, and filling it without SIGBUS |
//! | [`page_guard`] | zeros in place of SIGBUS, for a page that has gone and cannot come back |
//! | [`byte_lock`] | locks beyond the data that the kernel drops when a process dies |
//! | [`fork`] | detecting that the process is a forked child, however it was forked |
//! | [`process_lock`] | a lock between threads, for handlers of forks and signals |
//! | [`process_number`] | a number of this process that no parent or child of it has |
//! | [`fork_cell`] | a value that no forked child finds half replaced or locked |
//! | [`recovery_descriptors`] | descriptions kept for later, for a process and its children |
//! | [`futex`] | sleeping on, and waking, a word in shared memory |
//! | [`barrier`] | a full fence that costs the frequent side nothing |
//! | [`clock`] | the three clocks |
//! | [`line_clock`] | real time for lines of a log, by the processor's counter |
//! | [`location`] | where a hold lives: names, file systems, opening an existing file |
//! | [`eventfd`] | a counter in the kernel that `poll` waits for |
//! | [`draft`] | creating a file atomically |
//! | [`draft_name`] | the temporary names of drafts, and removing abandoned drafts |
//! | [`lines`] | bare cache lines that processes share, for measurements; not part of a hold |
//! | [`thread`] | the identity of the calling thread, and writing to its standard error |
//! | [`reaper`] | deleting a hold when its last user is gone, even by a crash |
//!
//! Opening a hold file and taking a place in it looks like this:
//!
//! ```text
//! let file = HoldFile::new(location::open_existing(&path, true)?, path, true)?;
//! let wanted = [(OPEN_BYTE, LockKind::Shared), (participant_byte(3), LockKind::Exclusive)];
//! let held = HeldBytes::try_lock(&file, &wanted)?;          // None: somebody has slot 3
//! let memory = Mapping::reserve(&file, 64 << 30, 64 << 20, true)?;
//! ```

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("commonhold needs 64-bit Linux: it is built on its futexes and OFD locks");

pub mod barrier;
pub(crate) mod byte_lock;
pub(crate) mod clock;
pub(crate) mod draft;
mod draft_name;
pub(crate) mod eventfd;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod fork_cell;
pub(crate) mod futex;
pub(crate) mod line_clock;
pub(crate) mod lines;
pub(crate) mod location;
pub(crate) mod mapping;
pub(crate) mod page_guard;
mod process_lock;
pub(crate) mod process_number;
pub(crate) mod reaper;
pub(crate) mod recovery_descriptors;
pub(crate) mod thread;

#[cfg(test)]
pub(crate) mod tests;
