//! Messages from the arguments or, if there are none, from standard input, one after the other.
//!
//! Invariant: an error names the number of messages that were done before it, so that a user knows
//! where to resume.

use crate::formats::frames::{Framing, Reader};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::OsStrExt;

/// The messages that a subcommand pushes, sends or writes.
pub struct MessageSource<'a> {
    /// The arguments.
    pub arguments: &'a [OsString],
    /// The framing of standard input, if there are no arguments.
    pub framing: Framing,
    /// The most bytes of a message.
    pub most: usize,
    /// The noun for people: `message`.
    pub what: &'static str,
    /// The verb for people, as a participle: `sent`.
    pub done: &'static str,
}

/// The outcome.
pub struct Done {
    /// The number of messages taken.
    pub count: u64,
    /// Whether that was all of them.
    pub all: bool,
}

impl MessageSource<'_> {
    /// Passes each message to `take`, until it returns false or there are no more.
    ///
    /// # Errors
    /// Those of `take`; a message that is too long, input that cannot be read.
    pub fn each(&self, output: &Output, take: impl FnMut(&[u8]) -> Result<bool>) -> Result<Done> {
        let mut done = Done { count: 0, all: false };
        let result = match self.arguments.is_empty() {
            true => self.each_of_input(output, take, &mut done),
            false => self.each_argument(take, &mut done),
        };
        match result {
            Ok(all) => Ok(Done { all, ..done }),
            Err(Failure::Failed(text)) if done.count > 0 => {
                let count = things(done.count, self.what, &format!("{}s", self.what));
                Err(Failure::failed(format!("{text}\n{} before the error: {count}", self.done)))
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
                    "{} {number} has {} bytes; the maximum is {most}",
                    self.what,
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
            let what = self.what;
            let text = "from the terminal, one per line; Ctrl-D ends the input";
            note(&format!("reading {what}s {text}"));
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
