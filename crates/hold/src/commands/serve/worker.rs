//! A worker process: it serves until its supervisor is gone or sends a word to end.

use super::connections;
use super::control::{Supervisor, Word};
use super::options::Args;
use crate::target::Directory;
use commonhold_files::Server;
use commonhold_io::address::Listener;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::interrupt::Interrupt;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How often it checks whether to end, besides wake-ups.
const LOOK: Duration = Duration::from_millis(500);
/// How often it checks whether everything is sent, and whether the time limit has passed.
const LAST_LOOKS: Duration = Duration::from_millis(50);

/// Serves.
pub fn run(args: &Args, directory: &Directory) -> Result<ExitCode> {
    let supervisor = Supervisor::at_stdin()?;
    let sockets = supervisor.sockets()?;
    let listens = sockets.iter().map(address).collect();
    // Ctrl-C goes to the whole process group, but the supervisor decides when the workers end.
    let interrupt = Interrupt::watch().map_err(Failure::failed)?;
    let hold = args.open_hold(directory)?;
    let mut options = args.server(&hold, listens)?;
    options.most_connections = connections::allow(args.max_connections()) as usize;
    options.notice = Some(Arc::new(|text| note(&format!("hold serve: {text}"))));
    let server = Server::start(options, &sockets)?;
    drop(sockets);
    if let Some(why) = &server.chosen().instead {
        note(&format!("hold serve: {}: {why}", server.chosen().kind));
    }
    supervisor.tell_ready()?;
    let mut word = None;
    while word.is_none() && !interrupt.came() {
        word = supervisor.says_within(LOOK);
        if server.has_failed() {
            return Err(Failure::failed("a thread of the server has ended"));
        }
    }
    if word == Some(Word::Finish) {
        drain(&server, &supervisor, &interrupt);
    }
    server.finish(args.grace());
    Ok(ExitCode::SUCCESS)
}

/// Finishes all answers, unless the supervisor sends a word not to wait for that any more.
fn drain(server: &Server, supervisor: &Supervisor, interrupt: &Interrupt) {
    server.drain();
    while !server.has_ended()
        && !interrupt.wait(LAST_LOOKS)
        && supervisor.says_within(Duration::ZERO) != Some(Word::End)
    {}
}

fn address(socket: &OwnedFd) -> String {
    let listener = socket.as_fd().try_clone_to_owned().ok().map(Listener::given);
    let listener = listener.and_then(|given| given.ok());
    listener.map_or("-".into(), |listener| listener.address().to_string())
}
