//! The lines of dumps and readers.

use crate::ffi::call::export;
use crate::ffi::{Alone, Answer, Give, NewHandle, Owned, Ref, User, View, invalid, yes};
use commonhold::log::{Log, LogLine, LogReader};
use commonhold::{Error, Result};
use std::collections::VecDeque;
use std::ffi::c_int;

/// `ch_log_line`.
#[repr(C)]
pub struct Line {
    text: View,
    shown: View,
    thread_name: View,
    time_ns: u64,
    level: u32,
    thread: u32,
    pid: u32,
    tid: u32,
    lost: u32,
    late: u32,
    collected: u32,
    announces: u32,
}

impl Line {
    /// The line for the callback of a reader or a collector, with the text that the log itself
    /// would show.
    pub(crate) fn of(line: &LogLine, shown: &[u8]) -> Line {
        let who = line.announces.as_ref();
        Line {
            text: View::of(&line.text),
            shown: View::of(shown),
            thread_name: who.map_or(View::NONE, |who| View::of(who.name.as_bytes())),
            time_ns: line.time_ns,
            level: line.level.map_or(0, |level| level as u32),
            thread: line.thread.0,
            pid: who.map_or(0, |who| who.pid),
            tid: who.map_or(0, |who| who.tid),
            lost: line.lost,
            late: u32::from(line.late),
            collected: u32::from(line.collected),
            announces: u32::from(who.is_some()),
        }
    }
}

/// `ch_line_fn`.
pub type EachLine = Option<extern "C" fn(User, *const Line) -> c_int>;

/// `ch_reader`.
pub(crate) struct Reader {
    reader: LogReader,
    /// Lines that were read and not given, because the callback ended a call.
    pending: VecDeque<LogLine>,
}

impl Reader {
    fn read(
        &mut self,
        call: EachLine,
        user: User,
        lines: impl FnOnce(&mut LogReader) -> Result<Vec<LogLine>>,
        count: &Give<usize>,
    ) -> Answer {
        // Before anything is read: the log's reader returns a line once.
        let call = call.ok_or_else(no_callback)?;
        let mut given = give(call, user, self.pending());
        if !given.has_ended {
            match lines(&mut self.reader) {
                Ok(lines) => self.pending.extend(lines),
                Err(error) if given.count == 0 => return Err(error),
                // The next call returns it.
                Err(_) => {}
            }
            given.count += give(call, user, self.pending()).count;
        }
        count.set(given.count);
        Ok(yes(given.count > 0))
    }

    /// Removes the lines one by one.
    fn pending(&mut self) -> impl Iterator<Item = LogLine> {
        std::iter::from_fn(|| self.pending.pop_front())
    }
}

crate::ffi::handle::kinds! {
    Alone<Reader> = b"ch-reade", "reader";
}

fn no_callback() -> Error {
    invalid("the callback is NULL")
}

/// The lines that a callback received.
struct Given {
    count: usize,
    /// The callback has ended the call.
    has_ended: bool,
}

/// Gives lines to the callback until it ends the call.
fn give(
    call: extern "C" fn(User, *const Line) -> c_int,
    user: User,
    lines: impl Iterator<Item = LogLine>,
) -> Given {
    let mut shown = Vec::new();
    let mut given = Given { count: 0, has_ended: false };
    for line in lines {
        shown.clear();
        line.append_to(&mut shown);
        given.count += 1;
        given.has_ended = call(user, &Line::of(&line, &shown)) != 0;
        if given.has_ended {
            break;
        }
    }
    given
}

export! {
    fn ch_log_dump(log: Ref<Log>, call: EachLine, user: User, count: Give<usize>) {
        let call = call.ok_or_else(no_callback)?;
        let given = give(call, user, log.get()?.dump()?.into_iter());
        count.set(given.count);
        Ok(yes(given.count > 0))
    }

    fn ch_log_reader(log: Ref<Log>, reader: NewHandle<Alone<Reader>>) {
        let place = reader.ready()?;
        let reader = log.get()?.reader()?;
        place.put(Alone::new(Reader { reader, pending: VecDeque::new() }));
        Ok(yes(true))
    }

    fn ch_reader_free(reader: Owned<Alone<Reader>>) -> (), or (), {
        drop(reader.take())
    }

    fn ch_reader_poll(reader: Ref<Alone<Reader>>, call: EachLine, user: User, count: Give<usize>) {
        reader.get()?.lock()?.read(call, user, LogReader::poll, &count)
    }

    fn ch_reader_finish(reader: Ref<Alone<Reader>>, call: EachLine, user: User, count: Give<usize>) {
        reader.get()?.lock()?.read(call, user, LogReader::finish, &count)
    }
}
