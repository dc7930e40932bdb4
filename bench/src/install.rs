//! Installs the servers and spdlog from Debian's packages, on request, and only as root.

use std::process::Command;

use anyhow::{Context, Result, ensure};

const PACKAGES: [&str; 6] =
    ["redis-server", "memcached", "nats-server", "nginx", "g++", "libspdlog-dev"];

/// Installs the packages of the servers, and those that the driver of spdlog needs. The benchmark
/// starts servers of its own. It does not use the services of the packages, so they are configured
/// not to start.
///
/// # Errors
/// If the user is not root, or if apt-get fails, which then prints the reason.
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
    // invoke-rc.d reads the run level here, and starts no service in single-user mode.
    command.env("RUNLEVEL", "1");
    // The output of apt-get goes to standard error, because standard output is for results.
    command.stdout(std::io::stderr());
    let status = command.status().context("cannot run apt-get: is this Debian?")?;
    ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    Ok(())
}
