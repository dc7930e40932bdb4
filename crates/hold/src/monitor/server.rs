//! The server of pages: a thread that accepts, one for each connection, one that reads the hold.
//!
//! There are few clients, and answers are small, so threads that block serve connections one by
//! one. There are few of these threads, and each has little time: slow or excess clients cannot
//! block others here, and cannot disturb file servers, which are other processes.

use super::access::Access;
use super::connection::visit;
use super::observer::Observer;
use commonhold::Hold;
use commonhold_io::address::{Address, Listener};
use commonhold_terminal::failure::{Failure, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most connections at a time; further ones get the status 503.
const MOST: usize = 32;
/// How often the hold is read.
const LOOK: Duration = Duration::from_secs(1);
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A server of pages about a hold, while the value lives.
pub struct Monitor {
    address: Address,
    listener: Arc<Listener>,
    observer: Arc<Observer>,
    /// Closing it ends the threads.
    stop: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// Begins to serve at an address, to clients that send the secret, if there is one.
    ///
    /// # Errors
    /// If the address cannot be used, or threads have run out.
    pub fn start(
        hold: &Hold,
        title: String,
        address: &Address,
        secret: Option<Vec<u8>>,
    ) -> Result<Monitor> {
        let failed = |error| Failure::failed(format!("cannot serve pages at {address}: {error}"));
        let listener = Arc::new(address.listen()?);
        let address = listener.address().clone();
        let observer = Arc::new(Observer::new(hold.clone(), title));
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let again = stopped.try_clone().map_err(failed)?;
        let mut monitor =
            Monitor { address, listener, observer, stop: Some(stop), threads: Vec::new() };
        let observer = Arc::clone(&monitor.observer);
        monitor.spawn("monitor-look", move || watch(&observer, &again)).map_err(failed)?;
        let (observer, listener) = (Arc::clone(&monitor.observer), Arc::clone(&monitor.listener));
        let access = Arc::new(Access::new(&monitor.address, secret));
        let accept = move || accept(&listener, &observer, &stopped, &access);
        monitor.spawn("monitor", accept).map_err(failed)?;
        Ok(monitor)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The URL of the page for a browser, if there is one.
    pub fn url(&self) -> String {
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => {
                format!("http://[{host}]:{port}/_hold/")
            }
            Address::Tcp(host, port) => format!("http://{host}:{port}/_hold/"),
            unix => format!("/_hold/ at {unix}"),
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.take();
        self.listener.remove_file();
        for thread in self.threads.drain(..) {
            // A panic was reported already.
            let _ = thread.join();
        }
        self.observer.close();
    }
}

/// Reads the hold once a second.
fn watch(observer: &Observer, stopped: &UnixStream) {
    loop {
        let next = Instant::now() + LOOK;
        observer.look();
        let left = Timespec::try_from(next.saturating_duration_since(Instant::now())).ok();
        let mut fds = [PollFd::new(stopped, PollFlags::IN)];
        if matches!(poll(&mut fds, left.as_ref()), Ok(1..)) {
            return;
        }
    }
}

fn accept(
    listener: &Listener,
    observer: &Arc<Observer>,
    stopped: &UnixStream,
    access: &Arc<Access>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let socket = listener.socket();
        let mut fds = [PollFd::new(&socket, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let polled = poll(&mut fds, None);
        if polled.is_ok() && !fds[1].revents().is_empty() {
            return;
        }
        match accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(socket) => receive(socket, observer, &open, access),
            // The client has gone, or descriptors have run out, which are free again in a while.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Counts a connection while it lives.
struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // Relaxed, here and below: a number on its own.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn receive(
    socket: OwnedFd,
    observer: &Arc<Observer>,
    open: &Arc<AtomicUsize>,
    access: &Arc<Access>,
) {
    let before = open.fetch_add(1, Ordering::Relaxed);
    let counted = OpenConnection(Arc::clone(open));
    if before >= MOST {
        // It fits into any new socket.
        let _ = rustix::net::send(socket.as_fd(), BUSY, rustix::net::SendFlags::NOSIGNAL);
        return;
    }
    let (observer, access) = (Arc::clone(observer), Arc::clone(access));
    let run = move || {
        let _counted = counted;
        visit(&socket, &observer, &access);
    };
    // Without a thread the client is not served.
    let _ = thread::Builder::new().name("monitor-visit".to_owned()).spawn(run);
}

/// Whether the name of the server in a request is an address, or this machine's own name: a foreign
/// page, whose name resolves to this machine, cannot use these.
pub fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok()
        || host.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_recognized() {
        for own in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.0.0.1:8081",
            "[::1]:80",
            "[::1]",
            "10.1.2.3:80",
        ] {
            assert!(is_own_name(own.as_bytes()), "{own}");
        }
        for other in ["example.org", "localhost.example.org:80", "127.0.0.1.example.org", "", "a:b"]
        {
            assert!(!is_own_name(other.as_bytes()), "{other}");
        }
        assert!(!is_own_name(b"\xff"));
    }
}
