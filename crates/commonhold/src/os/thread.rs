//! The identity of the calling thread, and writing to its standard error. Nothing here allocates or
//! takes a lock, so a signal handler may use all of it.
//!
//! # Safety
//! Unsafe for system calls that only touch memory of ours.
#![allow(unsafe_code)]

/// The thread's number, as the kernel counts in its PID namespace.
pub(crate) fn number() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// The first bytes of the thread's name, padded with zeros.
pub(crate) fn name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Writes to standard error as far as possible, and ignores failures. Keeps `errno`.
pub(crate) fn complain(text: &[u8]) {
    // SAFETY: the bytes outlive the call; errno is the thread's own.
    unsafe {
        let before = *libc::__errno_location();
        if has_standard_error() {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
        *libc::__errno_location() = before;
    }
}

/// Whether messages may be written to standard error. In a process that has closed it, the
/// descriptor may be that of a hold, which would be damaged.
pub(crate) fn has_standard_error() -> bool {
    // SAFETY: zeros are a valid value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours.
    let (flags, examined) = unsafe {
        let flags = libc::fcntl(libc::STDERR_FILENO, libc::F_GETFL);
        (flags, libc::fstat(libc::STDERR_FILENO, &mut status))
    };
    let is_file = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    examined == 0 && !(is_file && flags & libc::O_ACCMODE == libc::O_RDWR)
}
