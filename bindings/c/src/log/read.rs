//! The lines of dumps and readers.

use crate::ffi::call::export;
use crate::ffi::{Alone, Answer, Give, NewHandle, Owned, Ref, User, View, invalid, yes};
use commonhold::Result;
use commonhold::log::{Log, LogLine, LogReader};
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

crate::ffi::handle::kinds! {
    Alone<LogReader> = b"ch-reade", "reader";
}

/// Gives lines to the callback until it has enough.
fn give(
    call: EachLine,
    user: User,
    lines: impl FnOnce() -> Result<Vec<LogLine>>,
    count: &Give<usize>,
) -> Answer {
    // Before anything is read: a reader gives a line once.
    let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
    let lines = lines()?;
    let mut shown = Vec::new();
    let mut given = 0;
    for line in &lines {
        shown.clear();
        line.append_to(&mut shown);
        given += 1;
        if call(user, &Line::of(line, &shown)) != 0 {
            break;
        }
    }
    count.set(given);
    Ok(yes(given > 0))
}

export! {
    fn ch_log_dump(log: Ref<Log>, call: EachLine, user: User, count: Give<usize>) {
        let log = log.get()?;
        give(call, user, || log.dump(), &count)
    }

    fn ch_log_reader(log: Ref<Log>, reader: NewHandle<Alone<LogReader>>) {
        let place = reader.ready()?;
        place.put(Alone::new(log.get()?.reader()?));
        Ok(yes(true))
    }

    fn ch_reader_free(reader: Owned<Alone<LogReader>>) -> (), or (), {
        drop(reader.take())
    }

    fn ch_reader_poll(reader: Ref<Alone<LogReader>>, call: EachLine, user: User, count: Give<usize>) {
        let mut reader = reader.get()?.lock()?;
        give(call, user, || reader.poll(), &count)
    }

    fn ch_reader_finish(reader: Ref<Alone<LogReader>>, call: EachLine, user: User, count: Give<usize>) {
        let mut reader = reader.get()?.lock()?;
        give(call, user, || reader.finish(), &count)
    }
}
