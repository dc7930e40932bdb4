//! One connection: requests, one after the other, and their answers.
//!
//! Limits: a head within [`HEAD`], an answer taken within [`SEND`], a pause of [`IDLE`] between
//! requests, and [`MOST_REQUESTS`] in all.

use super::access::Access;
use super::observer::Observer;
use super::responses::{Answer, answer};
use commonhold_files::http::{Head, Method, Wrong, read, status_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(5);
/// How long the next request may take to begin.
const IDLE: Duration = Duration::from_secs(15);
/// How long the client may take to read an answer.
const SEND: Duration = Duration::from_secs(10);
/// How long to wait for the peer to close.
const CLOSE: Duration = Duration::from_secs(1);
/// Requests of one connection.
const MOST_REQUESTS: u32 = 1000;

/// Serves a connection to its end.
pub fn visit(socket: &OwnedFd, observer: &Observer, access: &Access) {
    let mut input = Vec::new();
    for number in 0..MOST_REQUESTS {
        let patience = if number == 0 { HEAD } else { IDLE };
        if input.is_empty() && !receive(socket, &mut input, Instant::now() + patience) {
            return;
        }
        let end = Instant::now() + HEAD;
        let (answer, is_head, len) = loop {
            match read(&input) {
                Ok(Some((head, len))) => {
                    let keep = head.keep && number + 1 < MOST_REQUESTS;
                    let answer = respond(&head, &input, observer, access).keep_if(keep);
                    break (answer, head.method == Method::Head, len);
                }
                Ok(None) => {}
                Err(wrong) => break (Answer::plain(status_of(wrong)), false, 0),
            }
            // The client has gone, or its time is up; an answer to a client that has gone does no
            // harm.
            if !receive(socket, &mut input, end) {
                break (Answer::plain(408), false, 0);
            }
        };
        input.drain(..len);
        if !send(socket, &answer, is_head) {
            return;
        }
        if !answer.keep {
            return linger(socket);
        }
    }
}

fn status_of(wrong: Wrong) -> u16 {
    match wrong {
        Wrong::Malformed => 400,
        Wrong::TooLarge => 431,
        Wrong::Target => 414,
        Wrong::Version => 505,
        Wrong::Coding => 501,
    }
}

/// The answer to a request with this head, with which `received` begins.
fn respond(head: &Head<'_>, received: &[u8], observer: &Observer, access: &Access) -> Answer {
    if head.body != Some(0) {
        // No path here takes a body, and its end would be the start of the next request.
        return Answer::plain(400).keep_if(false);
    }
    if let Some(refusal) = access.refusal(head, received) {
        return refusal;
    }
    match head.method {
        Method::Get | Method::Head => answer(&head.path, observer),
        Method::Options | Method::Other => Answer::plain(405),
    }
}

/// Receives some bytes; false at the peer's end, or when the time is up.
fn receive(socket: &OwnedFd, input: &mut Vec<u8>, end: Instant) -> bool {
    let mut bytes = [0; 4096];
    loop {
        if !is_ready(socket, PollFlags::IN, end) {
            return false;
        }
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((len @ 1.., _)) => {
                input.extend_from_slice(&bytes[..len]);
                return true;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => return false,
        }
    }
}

/// Whether the socket becomes ready before the time is up.
fn is_ready(socket: &OwnedFd, what: PollFlags, end: Instant) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(socket, what)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => {}
            polled => return matches!(polled, Ok(1..)),
        }
    }
}

/// Sends an answer; false if it could not be sent.
fn send(socket: &OwnedFd, answer: &Answer, is_head: bool) -> bool {
    let mut bytes = head_of(answer).into_bytes();
    if !is_head {
        bytes.extend_from_slice(&answer.body);
    }
    let (mut rest, end) = (&bytes[..], Instant::now() + SEND);
    while !rest.is_empty() {
        if !is_ready(socket, PollFlags::OUT, end) {
            return false;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, rest, flags) {
            Ok(len) => rest = &rest[len..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
    true
}

/// The head of an answer. Other sites may not store, run or frame any of it, and it loads nothing
/// from elsewhere.
fn head_of(answer: &Answer) -> String {
    let mut head = status_line(answer.status).to_owned();
    let _ = write!(
        head,
        "Content-Length: {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {POLICY}\r\n",
        answer.body.len(),
        answer.kind
    );
    if answer.status == 401 {
        // Browsers ask for a password.
        head.push_str("WWW-Authenticate: Basic realm=\"hold\", charset=\"UTF-8\"\r\n");
        head.push_str("WWW-Authenticate: Bearer realm=\"hold\"\r\n");
    }
    if answer.status == 405 {
        head.push_str("Allow: GET, HEAD\r\n");
    }
    if !answer.keep {
        head.push_str("Connection: close\r\n");
    }
    head + "\r\n"
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Closes once the peer has read everything: the system would throw away what it has not read if
/// there were something from it.
fn linger(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let (mut rest, end) = (Vec::new(), Instant::now() + CLOSE);
    while rest.len() < 1 << 20 && receive(socket, &mut rest, end) {}
}
