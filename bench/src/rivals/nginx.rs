//! nginx as a file server, configured for speed: it remembers open files, uses `sendfile`, keeps
//! connections open without limit, and logs nothing. Its settings, and all files that it writes,
//! are in the run's directory. It is never a service of the machine.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::server::{self, Server};
use crate::{
    program,
    rival::{Rival, Shape, Sharing},
    served::{Ground, Host, Service},
};

const PROGRAM: &str = "nginx";
/// Its path in Debian, which is not in every user's search path.
const PLACE: &str = "/usr/sbin/nginx";

/// See the module.
pub struct Nginx;

fn program_file() -> Option<PathBuf> {
    server::find(PROGRAM).or_else(|| Some(PathBuf::from(PLACE)).filter(|file| file.is_file()))
}

impl Rival for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn version(&self) -> Result<String> {
        let program = program_file().context("there is no nginx")?;
        let output = Command::new(program).arg("-v").output().context("cannot run nginx -v")?;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(said.lines().next().unwrap_or("unknown").trim().to_owned())
    }

    fn settings(&self) -> &'static str {
        "sendfile, tcp_nopush, open_file_cache max=10000, keep-alive without end, access_log off, TCP on the \
         loopback interface; one and two workers and their master"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "files"
    }

    fn missing(&self) -> Option<String> {
        match program_file() {
            Some(_) => program::missing(),
            None => server::missing(PROGRAM, PROGRAM),
        }
    }

    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>> {
        Ground::make(site, shape.keys)?;
        Ok(None)
    }
}

impl Host for Nginx {
    fn start(&self, _ground: &Ground, place: &Path, files: &Path, workers: u64) -> Result<Service> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        let program = text(&program_file().context("there is no nginx")?)?;
        // nginx cannot report a port that the kernel chooses. A port that was free a moment ago is
        // probably still free; otherwise nginx reports it.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let port = free.local_addr()?.port();
        drop(free);
        let settings = place.join("nginx.conf");
        fs::write(&settings, configuration(&text(place)?, &text(files)?, port, workers))
            .context("cannot write its settings")?;
        let errors = place.join("errors.log");
        let arguments = ["-p", &text(place)?, "-e", &text(&errors)?, "-c", &text(&settings)?];
        let arguments = arguments.map(str::to_owned);
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        let log = place.join("nginx.log");
        let server = Server::start_family(&program, &arguments, &log, &answers)?;
        Ok(Service { server, address: format!("tcp:127.0.0.1:{port}") })
    }
}

fn configuration(place: &str, files: &str, port: u16, workers: u64) -> String {
    // By default, root's workers run as the user nobody, which cannot read the run's directory.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let scratch = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path \"{place}/{name}\";"))
        .join("\n    ");
    format!(
        "{user}
daemon off;
pid \"{place}/nginx.pid\";
worker_processes {workers};
worker_rlimit_nofile 16384;
events {{ worker_connections 4096; }}
http {{
    {scratch}
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    open_file_cache max=10000 inactive=1h;
    open_file_cache_min_uses 1;
    server {{
        listen 127.0.0.1:{port};
        root \"{files}\";
    }}
}}
"
    )
}
