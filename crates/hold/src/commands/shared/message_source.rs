//! Messages that are given: as arguments, or without any by standard input, one after the other.
//!
//! Invariant: a failure tells how many messages were done before it, so that nobody has to guess
//! where to go on.

use crate::formats::frames::{Framing, Reader};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::OsStrExt;

/// What a subcommand was given to push, send or write.
pub struct MessageSource<'a> {
    /// The arguments.
    pub arguments: &'a [OsString],
    /// How messages stand in standard input, if there are no arguments.
    pub framing: Framing,
    /// The most bytes that a message may have.
    pub most: usize,
    /// What is done to a message, for people: `sent`.
    pub done: &'static str,
}

/// What came of it.
pub struct Done {
    /// Messages that were taken.
    pub count: u64,
    /// Whether that was all of them.
    pub all: bool,
}

impl MessageSource<'_> {
    /// Hands each message to `take`, until it says no or there are no more.
    ///
    /// # Errors
    /// What `take` fails with; a message that is too long, input that cannot be read.
    pub fn each(&self, output: &Output, take: impl FnMut(&[u8]) -> Result<bool>) -> Result<Done> {
        let mut done = Done { count: 0, all: false };
        let result = match self.arguments.is_empty() {
            true => self.each_of_input(output, take, &mut done),
            false => self.each_argument(take, &mut done),
        };
        match result {
            Ok(all) => Ok(Done { all, ..done }),
            Err(Failure::Failed(text)) if done.count > 0 => {
                let count = things(done.count, "message", "messages");
                Err(Failure::failed(format!("{text}\n{} before it: {count}", self.done)))
            }
            Err(failure) => Err(failure),
        }
    }

    fn each_argument(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<bool>,
        done: &mut Done,
    ) -> Result<bool> {
        for (number, argument) in (1..).zip(self.arguments) {
            let (message, most) = (argument.as_bytes(), self.most);
            if message.len() > most {
                return Err(Failure::failed(format!(
                    "message {number} has {} bytes; the maximum is {most}",
                    message.len()
                )));
            }
            if !take(message)? {
                return Ok(false);
            }
            done.count += 1;
        }
        Ok(true)
    }

    fn each_of_input(
        &self,
        output: &Output,
        mut take: impl FnMut(&[u8]) -> Result<bool>,
        done: &mut Done,
    ) -> Result<bool> {
        let input = stdin().lock();
        if input.is_terminal() && !output.is_quiet() {
            note("reading messages from the terminal, one per line; Ctrl-D ends them");
        }
        let mut reader = Reader::new(input, self.framing, self.most);
        let mut message = Vec::new();
        loop {
            match reader.read(&mut message) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(what) => return Err(Failure::failed(format!("standard input: {what}"))),
            }
            if !take(&message)? {
                return Ok(false);
            }
            done.count += 1;
        }
    }
}
