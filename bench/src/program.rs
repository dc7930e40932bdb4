//! The command `hold`, as users build it: a file server, and the client of every file server.
//!
//! Cargo builds it from the sources of this program, in the same profile, so that the command is
//! never older than they are. This takes only a moment if nothing has changed. Without the sources
//! or without cargo, the benchmark uses the `hold` next to this program or in the search path. The
//! code that prepares a workload calls this module, before anything is measured.

use std::{
    env,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::rivals::{leash, server::find};

const NAME: &str = "hold";
/// The directory of the command's workspace.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The path of the program. Each process builds it at most once.
pub fn hold() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let program = match builder() {
        Some(cargo) => build(&cargo)?,
        None => existing().with_context(|| format!("there is no {NAME}"))?,
    };
    Ok(FOUND.get_or_init(|| program).clone())
}

/// The reason why the program cannot be found or built, and the remedy; `None` if it can.
pub fn missing() -> Option<String> {
    let missing = builder().is_none() && existing().is_none();
    let why =
        || format!("{NAME} was not found and cannot be built: cargo install --path crates/hold");
    missing.then(why).or_else(leash::missing)
}

/// Cargo, if there is something to build.
fn builder() -> Option<OsString> {
    let sources = Path::new(WORKSPACE).join("crates").join(NAME);
    // Cargo passes its own path to its children.
    let cargo = env::var_os("CARGO").or_else(|| find("cargo").map(Into::into));
    cargo.filter(|_| sources.is_dir())
}

fn existing() -> Option<PathBuf> {
    let next_to_us = env::current_exe().ok().map(|ours| ours.with_file_name(NAME));
    next_to_us.filter(|file| file.is_file()).or_else(|| find(NAME))
}

fn build(cargo: &OsString) -> Result<PathBuf> {
    let mut building = leash::command(cargo)
        // The settings of the profile for tests are there.
        .current_dir(WORKSPACE)
        .args(["build", "--quiet", "--package", NAME, "--bin", NAME])
        .args(["--profile", profile(), "--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut said = String::new();
    building.stdout.take().context("cargo has no output")?.read_to_string(&mut said)?;
    let status = building.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "cargo cannot build {NAME}: {status}");
    executable(&said).with_context(|| format!("cargo does not report the path of {NAME}"))
}

/// The file that cargo's messages name.
fn executable(said: &str) -> Option<PathBuf> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut files =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    files.next_back()
}

/// The profile in which this program was built, according to its directory.
fn profile() -> &'static str {
    let ours = env::current_exe().unwrap_or_default();
    let folders = ours.parent().into_iter().flat_map(Path::ancestors);
    let names = folders.filter_map(|folder| folder.file_name()?.to_str());
    match names.into_iter().find(|name| *name != "deps") {
        Some("debug") => "dev",
        Some("checked") => "checked",
        _ => "release",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages_are_understood() {
        let said = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/target/release/hold\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(said), Some(PathBuf::from("/target/release/hold")));
        assert_eq!(executable("{}\n"), None);
    }
}
