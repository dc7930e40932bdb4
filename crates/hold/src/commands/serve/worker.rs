//! What a worker process does: it serves until its supervisor is gone, or until it is told to end.

use super::control::Supervisor;
use super::options::Args;
use crate::failure::{Failure, Result, note};
use crate::target::Directory;
use crate::workload::interrupt::Interrupt;
use commonhold_net::files::Server;
use commonhold_net::replicate::Listener;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

/// How often it looks whether it is to end, beside what wakes it.
const LOOK: Duration = Duration::from_millis(500);

/// Serves.
pub fn run(args: &Args, directory: &Directory) -> Result<ExitCode> {
    let supervisor = Supervisor::at_stdin()?;
    let sockets = supervisor.sockets()?;
    let listens = sockets.iter().map(address).collect();
    // Ctrl-C goes to the whole group of processes: it is for the supervisor to say when the workers end.
    let interrupt = Interrupt::watch()?;
    let hold = args.open_hold(directory)?;
    let server = Server::start(args.server(&hold, listens)?, &sockets)?;
    drop(sockets);
    if let Some(why) = &server.chosen().instead {
        note(&format!("hold serve: {}: {why}", server.chosen().kind));
    }
    supervisor.tell_ready()?;
    while !supervisor.is_gone_within(LOOK) && !interrupt.came() {
        if server.has_failed() {
            return Err(Failure::failed("the system has no memory to serve with"));
        }
    }
    server.finish(args.grace());
    Ok(ExitCode::SUCCESS)
}

fn address(socket: &OwnedFd) -> String {
    let listener = socket.as_fd().try_clone_to_owned().ok().map(Listener::given);
    let listener = listener.and_then(|given| given.ok());
    listener.map_or("-".into(), |listener| listener.address().to_string())
}
