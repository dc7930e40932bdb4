//! The driver in which the thread that waits also makes the calls.

use super::calls::Job;
use super::choose::Options;
use super::outgoing::Outgoing;
use super::polled::{Calls, Polled};
use super::waker::Waker;
use std::io;

/// Epoll, all in one thread.
pub type Epoll<P> = Polled<P, Here>;

/// Makes the calls at once, one after the other.
#[derive(Debug)]
pub struct Here(());

impl<P: Outgoing> Epoll<P> {
    /// A driver without sockets, on two descriptors. It ignores all options.
    ///
    /// # Errors
    /// Those of `epoll_create` and `eventfd`: no descriptors or no memory.
    pub fn new(_: &Options) -> io::Result<Epoll<P>> {
        Polled::with(Here(()))
    }
}

impl<P: Outgoing> Calls<P> for Here {
    fn start(&mut self, jobs: &mut Vec<Job<P>>) {
        jobs.iter_mut().for_each(Job::run);
    }

    fn finished(&mut self, _: &mut Vec<Job<P>>) {}

    fn waker(&self) -> Option<&Waker> {
        None
    }
}
