//! The file with the secret that an origin and its replicas know.
//!
//! A secret in an argument would be visible to every user (`ps`), so there is no such option.

use commonhold_replicate::Secret;
use commonhold_terminal::failure::{Failure, Result};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A shorter secret is guessed too easily.
const SHORTEST: usize = 16;
/// A longer file is probably the wrong file.
const LONGEST: usize = 64 << 10;
/// The permissions of other users.
const OTHERS: u32 = 0o007;

/// The file with the secret.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct SecretFile {
    /// Each side must prove that it knows the secret in this file (at least 16 bytes, not counting
    /// the final newline)
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretFile {
    /// Whether an option names the secret's file.
    pub fn is_given(&self) -> bool {
        self.secret_file.is_some()
    }

    /// The secret, if an option names its file.
    ///
    /// # Errors
    /// If the file cannot be read, is too short or too long, or is readable by other users.
    pub fn read(&self) -> Result<Option<Secret>> {
        let secret = self.secret_file.as_deref().map(read);
        Ok(secret.transpose()?.map(Secret::new))
    }
}

/// The secret in a file that HTTP headers can carry.
///
/// # Errors
/// As [`SecretFile::read`]; if the secret contains other characters.
pub fn read_for_http(path: &Path) -> Result<Vec<u8>> {
    let secret = read(path)?;
    match secret.iter().all(u8::is_ascii_graphic) {
        true => Ok(secret),
        false => Err(Failure::failed(format!(
            "{}: expected printable ASCII characters without spaces, which an HTTP header can \
             carry; create such a secret with 'head -c 32 /dev/urandom | base64 > FILE'",
            path.display()
        ))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let io = |e: std::io::Error| Failure::failed(format!("{shown}: {e}"));
    let file = File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err(Failure::failed(format!(
            "{shown}: other users may read or change this secret; run 'chmod 600 {shown}'"
        )));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let kept = without_line_end(&bytes);
    if !(SHORTEST..=LONGEST).contains(&kept.len()) {
        return Err(Failure::failed(format!(
            "{shown}: expected a secret of {SHORTEST} bytes to 64 KiB; create one with 'head -c \
             32 /dev/urandom | base64 > FILE'"
        )));
    }
    Ok(kept.to_vec())
}

/// Editors and `echo` put a newline at the end.
fn without_line_end(bytes: &[u8]) -> &[u8] {
    let kept = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    kept.strip_suffix(b"\r").unwrap_or(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_is_no_part_of_a_secret() {
        for text in [&b"a secret"[..], b"a secret\n", b"a secret\r\n"] {
            assert_eq!(without_line_end(text), b"a secret");
        }
        assert_eq!(without_line_end(b"a\n\n"), b"a\n");
    }
}
