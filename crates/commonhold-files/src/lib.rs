//! A file server. It serves a directory over HTTP/1.1 and over a simple protocol, from one cache
//! that all its workers share.
//!
//! ```
//! use commonhold_files::{Server, ServerOptions};
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//!
//! # let dir = std::env::temp_dir().join(format!("commonhold-files-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! std::fs::write(dir.join("hello.txt"), "hello")?;
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let server = Server::start(ServerOptions::new(&dir), &[listener.into()])?;
//!
//! let mut client = TcpStream::connect(address)?;
//! client.write_all(b"hello.txt\n")?;
//! let mut contents = String::new();
//! client.read_to_string(&mut contents)?;
//! assert_eq!(contents, "hello");
//! # drop(server);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Five choices are traits, and every combination of their implementations is compiled:
//!
//! | choice | trait | implementations |
//! |---|---|---|
//! | loop | [`Driver`](commonhold_io::sockets::Driver) | epoll, pool, uring |
//! | request map | [`requests::Requests`] | std, hashbrown, slab |
//! | cache | [`store::Cache`] | none, std, hashbrown, hold |
//! | eviction | [`store::Eviction`] | none, mutex, lockfree |
//! | files | [`source::Source`] | sendfile, sqlite |
//!
//! | module | idea |
//! |---|---|
//! | [`layout`] | how ids name files |
//! | [`source`] | where files are stored; `stamp`: the version of a file |
//! | [`store`] | contents in memory; `packed`: their form; [`store::caches`]: maps in a hold |
//! | `fresh_contents` | both together: cached contents while they are fresh, or the source |
//! | `freshness_checks` | a worker's memory of files |
//! | `protocol`, `http` | the requests of a client |
//! | `pages` | files that stand in for others |
//! | `reply`, `payload` | the answers, and their form for the driver |
//! | [`requests`], `connection` | the state of each connection |
//! | `peers` | the connections of each address |
//! | `worker` | one serving thread; `server`: all of them |
//! | `asked` | a request, as the log gets it |
//! | `access_log` | the lines about requests, in a log of a hold and in a file |
//! | `counts` | their statistics |

mod access_log;
mod asked;
mod coding;
mod connection;
mod counts;
mod directory;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub mod faults;
mod fresh_contents;
mod freshness_checks;
pub mod http;
pub mod layout;
mod packed;
mod pages;
mod payload;
mod peers;
mod protocol;
mod reply;
pub mod requests;
mod server;
pub mod source;
mod stamp;
pub mod store;
mod worker;

pub use access_log::{AccessLogFile, AccessLogFormat};
pub use connection::Patience;
pub use counts::{Counts, ServerReport};
pub use freshness_checks::{MOST_AT_HAND, MOST_OPEN};
pub use layout::LayoutKind;
pub use pages::ErrorPage;
pub use payload::Contents;
pub use peers::Notice;
pub use protocol::ProtocolKind;
pub use requests::RequestsKind;
pub use server::{Server, ServerOptions, worth_keeping};
pub use source::SourceKind;
pub use stamp::Stamp;
