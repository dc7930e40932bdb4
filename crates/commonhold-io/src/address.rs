//! Addresses of origins and servers: listening at one, and connecting to it.

use crate::fault_errno::errno;
use crate::sockets::peer_of_unix;
use commonhold::{Error, ErrorKind, Result, fault};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long the peer of a connection may leave sent bytes unacknowledged.
const SILENCE: Duration = Duration::from_secs(30);
/// How long another process may have the lock of a directory's sockets.
const LOCK_TIME: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// An address: `unix:PATH`, `HOST:PORT`, or `:PORT` on the loopback interface. The prefix `tcp:`
/// may precede the last two, and brackets enclose an IPv6 address: `[::1]:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a socket in the file system, which has the mode 0600.
    Unix(PathBuf),
    /// Host and port. The connection is not encrypted.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        parse(text).ok_or_else(|| {
            let text = format!(
                "expected an address (unix:PATH, HOST:PORT, or :PORT for the loopback interface), \
                 got '{}'",
                text.escape_default()
            );
            Error::new(ErrorKind::Invalid, text)
        })
    }
}

fn parse(text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Some(Address::Unix(path.into()));
    }
    let rest = text.strip_prefix("tcp:").unwrap_or(text);
    let (host, port) = rest.rsplit_once(':').unwrap_or(("", rest));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_name = |host: &&str| !host.contains([':', '[', '/']);
    let host = bare.filter(|host| host.contains(':')).or(Some(host).filter(is_name))?;
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Some(Address::Tcp(host.to_owned(), port.parse().ok()?))
}

/// An error of the system on an address.
fn failed(address: &Address, doing: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::AddrInUse => ErrorKind::Busy,
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{address}: {doing}: {error}"))
}

/// A socket in the file system, as the process that bound it left it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(address: &Address) -> Option<SocketFile> {
        let Address::Unix(path) = address else { return None };
        Some(SocketFile { path: path.clone(), identity: identity(path)? })
    }

    /// Removes it, unless another process has replaced it.
    pub fn remove(&self) {
        // Without the lock, another process might replace the file in between. If there is no
        // lock, the next process that listens there removes the file.
        let Some(_lock) = DirectoryLock::take(&self.path) else { return };
        if identity(&self.path) == Some(self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: Address,
    /// The file to remove when the socket no longer listens.
    file: Option<SocketFile>,
}

impl Address {
    /// Listens at this address. Replaces a socket file that no process listens on.
    ///
    /// # Errors
    /// `Busy` if another process listens there; `Permission`; `Io`.
    pub fn listen(&self) -> Result<Listener> {
        let listening = match self {
            Address::Unix(path) => listen_unix(path).map(|socket| (socket, self.clone())),
            Address::Tcp(host, port) => listen_tcp(host, *port),
        };
        let (socket, address) = listening.map_err(|e| failed(self, "cannot listen", &e))?;
        let file = SocketFile::of(&address);
        Ok(Listener { socket, address, file })
    }

    /// The address that a socket is bound to, if it is TCP or unix.
    #[must_use]
    pub fn of_socket(socket: BorrowedFd<'_>) -> Option<Address> {
        let any = net::getsockname(socket).ok()?;
        if let Ok(tcp) = SocketAddr::try_from(any.clone()) {
            return Some(Address::Tcp(tcp.ip().to_string(), tcp.port()));
        }
        let unix = SocketAddrUnix::try_from(any).ok()?;
        let path = String::from_utf8_lossy(unix.path_bytes().unwrap_or_default());
        Some(Address::Unix(PathBuf::from(path.into_owned())))
    }

    /// Connects; waits at most for `patience`.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `TimedOut`, `Io`.
    pub fn connect(&self, patience: Duration) -> Result<OwnedFd> {
        let connected = match self {
            Address::Unix(path) => connect_unix(path, patience),
            Address::Tcp(host, port) => connect_tcp(host, *port, patience),
        };
        connected.map_err(|e| failed(self, "cannot connect", &e))
    }
}

fn listen_unix(path: &Path) -> io::Result<OwnedFd> {
    // Until this process listens, its file looks as if its process had ended. If the lock is kept
    // by a suspended process, only two processes that listen at the same moment could be mistaken.
    let _lock = DirectoryLock::take(path);
    remove_stale(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    fault!("listen.socket")?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file is made with the socket's own mode: there is no moment at which others could
    // connect.
    fault!("listen.mode")?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    fault!("listen.bind")?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fault!("listen.listen")?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Limits how long the peer of a TCP connection may leave sent bytes unacknowledged.
pub fn limit_silence(socket: BorrowedFd<'_>, time: Duration) {
    // A socket of another kind has no such limit.
    let _ = sockopt::set_tcp_user_timeout(socket, time.as_millis().try_into().unwrap_or(u32::MAX));
}

/// The lock of all who make or remove sockets in the directory of a path.
struct DirectoryLock(Option<OwnedFd>);

impl DirectoryLock {
    /// Waits a second for it. A process that may not read the directory goes without. `None` if a
    /// suspended process or another program keeps the lock.
    fn take(path: &Path) -> Option<DirectoryLock> {
        let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = rustix::fs::open(directory, flags, Mode::empty()) else {
            return Some(DirectoryLock(None));
        };
        let deadline = Instant::now() + LOCK_TIME;
        loop {
            match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Some(DirectoryLock(Some(directory))),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(Errno::WOULDBLOCK) => return None,
                // A file system without such locks.
                Err(_) => return Some(DirectoryLock(None)),
            }
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A forked child has the descriptor, too, so closing it is not enough.
        if let Some(directory) = &self.0 {
            let _ = rustix::fs::flock(directory, FlockOperation::Unlock);
        }
    }
}

/// Removes a socket whose process has ended.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match fault!("listen.look").and_then(|()| UnixStream::connect(path).map(drop)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fault!("listen.remove")?;
            std::fs::remove_file(path)
        }
        // This error reveals nothing about the socket.
        Err(error) if is_shortage(&error) => Err(error),
        // Another process listens there, or the file belongs to another user: binding reports that.
        _ => Ok(()),
    }
}

/// Whether the system has run out of descriptors or memory.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}

fn listen_tcp(host: &str, port: u16) -> io::Result<(OwnedFd, Address)> {
    fault!("listen.bind")?;
    let listener = TcpListener::bind((host, port))?;
    let port = listener.local_addr()?.port();
    fault!("listen.listen")?;
    net::listen(&listener, BACKLOG)?;
    Ok((listener.into(), Address::Tcp(host.to_owned(), port)))
}

fn connect_unix(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    fault!("connect.socket")?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // If too many connections wait to be accepted, connecting waits as long as sending would.
    fault!("connect.options")?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    let address = SocketAddrUnix::new(path)?;
    let connected = errno(fault!("connect.connect")).and_then(|()| net::connect(&socket, &address));
    connected.map_err(|error| match error {
        Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "no process accepts it"),
        error => error.into(),
    })?;
    fault!("connect.options")?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(socket)
}

fn connect_tcp(host: &str, port: u16, patience: Duration) -> io::Result<OwnedFd> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    fault!("connect.resolve")?;
    for address in (host, port).to_socket_addrs()? {
        let connected = fault!("connect.connect");
        match connected.and_then(|()| TcpStream::connect_timeout(&address, patience)) {
            Ok(stream) => {
                fault!("connect.options")?;
                limit_silence(stream.as_fd(), SILENCE);
                return stream.set_nodelay(true).map(|()| stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Listener {
    /// The socket.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The address of the socket, with the port that the system chose if the port was 0.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Removes its socket file, if it has one that no other process has replaced. The socket keeps
    /// listening, but no new client finds it.
    pub fn remove_file(&self) {
        self.file.iter().for_each(SocketFile::remove);
    }

    /// Its parts: the socket, its address, and its file, which the caller removes when the socket
    /// no longer listens.
    #[must_use]
    pub fn into_parts(self) -> (OwnedFd, Address, Option<SocketFile>) {
        (self.socket, self.address, self.file)
    }

    /// A listener over a socket that another program made, as systemd does.
    ///
    /// # Errors
    /// `Invalid` if it is not a socket with such an address.
    pub fn given(socket: OwnedFd) -> Result<Listener> {
        let address = Address::of_socket(socket.as_fd()).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "the given socket is neither TCP nor unix")
        })?;
        Ok(Listener { socket, address, file: None })
    }
}

/// The peer of a socket, for display, and its user, if the system knows it.
#[must_use]
pub fn peer(socket: BorrowedFd<'_>) -> (String, Option<u32>) {
    if let Some(address) =
        net::getpeername(socket).ok().and_then(|any| SocketAddr::try_from(any?).ok())
    {
        return (format!("tcp:{address}"), None);
    }
    // For other kinds of sockets the system may return a meaningless answer.
    let is_unix = sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX);
    match peer_of_unix(socket).filter(|_| is_unix) {
        Some((pid, uid)) => (format!("unix:pid {pid}"), Some(uid)),
        None => ("unknown".to_owned(), None),
    }
}

/// True if the peer of a TCP connection is on another machine, as far as its address shows: the end
/// of a tunnel is on this one.
#[must_use]
pub fn is_of_another_machine(socket: BorrowedFd<'_>) -> bool {
    let ip = |any: net::SocketAddrAny| {
        SocketAddr::try_from(any).ok().map(|address| address.ip().to_canonical())
    };
    let peer = net::getpeername(socket).ok().flatten().and_then(ip);
    let own = net::getsockname(socket).ok().and_then(ip);
    peer.is_some_and(|peer| !peer.is_loopback() && own != Some(peer))
}

/// True if only processes of this machine can reach the address.
#[must_use]
pub fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Tcp(host, _) => {
            host == "localhost"
                || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
                || *host == Ipv4Addr::LOCALHOST.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["unix:/run/a b", "tcp:example.org:80", "tcp:127.0.0.1:7400", "tcp:[::1]:7400"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("tcp:7400", "tcp:127.0.0.1:7400"),
            ("7400", "tcp:127.0.0.1:7400"),
            (":7400", "tcp:127.0.0.1:7400"),
            ("0.0.0.0:80", "tcp:0.0.0.0:80"),
            ("example.org:80", "tcp:example.org:80"),
            ("[::1]:80", "tcp:[::1]:80"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            "unix:",
            "tcp:",
            "tcp:x",
            "x",
            "h:70000",
            "::1:5",
            "[::1]",
            "[x]:5",
            "/run/a",
            "a/b:5",
            "http://h:5",
            "udp:h:5",
            "h:",
            ":",
        ] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains("an address (unix:PATH"), "{error}");
        }
    }

    /// Several processes that find the same stale file: one of them gets the address.
    #[test]
    fn one_of_many_replaces_a_stale_socket_file() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("it"));
        for round in 0..200 {
            // Its file stays.
            drop(address.listen().unwrap().into_parts().0);
            let begin = std::sync::Barrier::new(4);
            let listeners: Vec<_> = std::thread::scope(|scope| {
                let listen = || {
                    begin.wait();
                    address.listen()
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(listen)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
            });
            assert_eq!(listeners.len(), 1, "round {round}");
            address.connect(Duration::from_secs(1)).unwrap();
        }
    }

    /// Any process that may read a directory can lock it, for as long as it likes.
    #[test]
    fn a_lock_on_the_directory_keeps_nobody_from_listening() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("it"));
        // Its file stays.
        drop(address.listen().unwrap().into_parts().0);
        let other = std::fs::File::open(directory.path()).unwrap();
        rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
        let listener = address.listen().unwrap();
        address.connect(Duration::from_secs(1)).unwrap();
        drop(listener);
    }

    #[test]
    fn a_socket_file_is_its_owners_and_a_stale_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("it"));
        let first = address.listen().unwrap();
        let mode = std::fs::metadata(directory.path().join("it")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(address.listen().unwrap_err().kind(), ErrorKind::Busy);
        drop(first);
        let second = address.listen().unwrap();
        let there = address.connect(Duration::from_secs(1)).unwrap();
        let given = Listener::given(second.socket.try_clone().unwrap()).unwrap();
        assert_eq!(given.address, address);
        let (who, uid) = peer(there.as_fd());
        assert!(who.starts_with("unix:pid ") && uid.is_some(), "{who}");
        std::fs::write(directory.path().join("file"), "mine").unwrap();
        let file = Address::Unix(directory.path().join("file"));
        assert_eq!(file.listen().unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), b"mine");
    }
}
