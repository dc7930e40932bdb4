//! Brings the servers and spdlog from Debian's packages, when asked and when root.

use std::process::Command;

use anyhow::{Context, Result, ensure};

const PACKAGES: [&str; 6] =
    ["redis-server", "memcached", "nats-server", "nginx", "g++", "libspdlog-dev"];

/// Installs the packages of the servers, and those with which spdlog's driver is compiled. The
/// benchmark starts servers of its own; those that the packages would start as services it neither
/// needs nor uses, so they are configured not to start.
///
/// # Errors
/// If not root, or if apt-get fails, which has then printed the reason.
pub fn install() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can install: sudo apt-get install {}",
        PACKAGES.join(" ")
    );
    apt_get(&["update", "-qq"])?;
    let options = ["install", "-y", "-qq", "--no-install-recommends"];
    apt_get(&[&options[..], &PACKAGES[..]].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // invoke-rc.d asks for the run level: in single-user mode no service is started.
    command.env("RUNLEVEL", "1");
    // apt-get's own words go to standard error, as standard output is for results.
    command.stdout(std::io::stderr());
    let status = command.status().context("cannot run apt-get: is this Debian?")?;
    ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    Ok(())
}
