//! A restart of the system, as a file sees it: the boot id that it remembers is another.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// The boot id of the system.
pub fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
    bytes.try_into().unwrap()
}

/// Makes the file believe that it was last open under another boot.
pub fn reboot(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let id = boot_id();
    let at = bytes[..4096].windows(16).position(|w| w == id).expect("the boot id in the file");
    overwrite(path, at as u64, &id.map(|b| !b));
}

/// Writes these bytes at that place.
pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}
