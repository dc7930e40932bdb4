//! A network that delays and loses: two network namespaces, and between them a tunnel whose packets
//! pass through this code.
//!
//! The kernel's `netem` would do the same where it is built in; this needs only tunnels
//! (`/dev/net/tun`), root and `ip`. Each process that lives at an end has a namespace of its own,
//! without a name, which ends with the process. Packets go from end to end as datagrams between
//! unix sockets, whose files namespaces do not separate.
//!
//! # Safety
//! One `ioctl`, on a descriptor and a request of our own.
#![allow(unsafe_code)]

use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::End as Ended;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The delay of every packet, in each direction.
const DELAY: Duration = Duration::from_millis(10);
/// One packet in this many is lost.
const LOST_ONE_IN: u64 = 50;
/// The largest packet of a tunnel.
const PACKET: usize = 2 << 10;

/// One end of a wire; the process that lives there calls [`enter`](End::enter).
pub struct End {
    name: String,
    address: String,
    peer: String,
    here: PathBuf,
    there: PathBuf,
    seed: u64,
}

/// The two ends of wire `number`, whose files are in a directory.
pub fn wire(directory: &Path, number: u64) -> [End; 2] {
    let end = |near: u64| End {
        name: format!("wire{number}"),
        address: format!("10.77.{number}.{near}"),
        peer: format!("10.77.{number}.{}", 3 - near),
        here: directory.join(format!("wire{number}.{near}")),
        there: directory.join(format!("wire{number}.{}", 3 - near)),
        seed: number << 8 | near,
    };
    [end(1), end(2)]
}

/// Leaves the network for a new and empty one.
///
/// # Errors
/// The reason why that is not possible.
pub fn leave() -> Result<(), String> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| format!("unshare: {e}"))
}

/// Checks that there can be such a network here.
///
/// # Errors
/// The reason why not.
pub fn is_possible(directory: &Path) -> Result<(), String> {
    let [end, _] = wire(directory, 9);
    let mut trial = cast("trial", || {
        leave().unwrap();
        drop(end.tunnel().unwrap());
    });
    match trial.wait() {
        Ended::Well => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

impl End {
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on this process reaches the other end, once a process is there. It has left its
    /// network before.
    pub fn enter(&self) {
        let mut from_tunnel = self.tunnel().unwrap();
        let mut to_tunnel = from_tunnel.try_clone().unwrap();
        let socket = UnixDatagram::bind(&self.here).unwrap();
        let outgoing = socket.try_clone().unwrap();
        let (there, mut dice) = (self.there.clone(), Dice::new(self.seed));
        let (late, due) = channel::<(Instant, Vec<u8>)>();
        std::thread::spawn(move || {
            let mut packet = vec![0; PACKET];
            while let Ok(len) = from_tunnel.read(&mut packet) {
                if !dice.one_in(LOST_ONE_IN) {
                    let _ = late.send((Instant::now() + DELAY, packet[..len].to_vec()));
                }
            }
        });
        std::thread::spawn(move || {
            for (at, packet) in due {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                // No process is there yet: the packet is lost.
                let _ = outgoing.send_to(&packet, &there);
            }
        });
        std::thread::spawn(move || {
            let mut packet = vec![0; PACKET];
            while let Ok(len) = socket.recv(&mut packet) {
                let _ = to_tunnel.write(&packet[..len]);
            }
        });
    }

    fn tunnel(&self) -> Result<File, String> {
        let failed = |what: &str, e: std::io::Error| format!("{what}: {e}");
        let device = File::options().read(true).write(true).open("/dev/net/tun");
        let device = device.map_err(|e| failed("/dev/net/tun", e))?;
        // The name, then the flags: struct ifreq.
        let mut request = [0u8; 40];
        request[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
        request[16..18].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: the request has the size that the call reads and writes, and lives until it
        // returns.
        if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) } < 0 {
            return Err(failed("TUNSETIFF", std::io::Error::last_os_error()));
        }
        ip(&["address", "add", &self.address, "peer", &self.peer, "dev", &self.name])?;
        ip(&["link", "set", &self.name, "up"])?;
        Ok(device)
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let run = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    match run {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("ip: {error}")),
    }
}
