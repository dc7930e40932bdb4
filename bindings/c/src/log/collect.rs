//! Collecting: one at a time merges what all threads write, into a file, a descriptor or a
//! callback.

use crate::ffi::call::export;
use crate::ffi::fd;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{
    Alone, Asked, Buffer, Give, Name, NewHandle, OutBytes, Owned, Ref, User, View, invalid, yes,
};
use crate::log::level;
use crate::log::read::Line;
use commonhold::Result;
use commonhold::log::{Collector, Log, LogLine, RotatedFile, Round};
use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

/// `ch_format_fn`: appends the text of the line to the buffer.
pub type Format = Option<extern "C" fn(User, *const Line, *mut Buffer)>;

/// `ch_write_fn`: 0 if it has taken all of the text.
pub type WriteText = Option<extern "C" fn(User, View) -> c_int>;

/// `ch_stop_fn`: whether to end.
pub type Stop = Option<extern "C" fn(User) -> c_int>;

/// `ch_collector_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    hold_back_ns: u64,
    format: Format,
    user: User,
    level: u32,
    /// A place for members to come.
    reserved: u32,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        hold_back_ns: 0,
        format: None,
        user: User::NONE,
        level: 0,
        reserved: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_COLLECTOR_OPTIONS_INIT";

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// `ch_round`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CRound {
    lines: u64,
    lost: u64,
    more: u32,
}

impl From<Round> for CRound {
    fn from(Round { lines, lost, more, .. }: Round) -> CRound {
        CRound { lines, lost, more: u32::from(more) }
    }
}

/// Where the text goes.
enum Target {
    File(RotatedFile),
    Descriptor(File),
    Callback(extern "C" fn(User, View) -> c_int, User),
}

impl Write for Target {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(text),
            Target::Descriptor(file) => file.write(text),
            Target::Callback(call, user) => match call(*user, View::of(text)) {
                0 => Ok(text.len()),
                said => Err(io::Error::other(format!("the callback returned {said}"))),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `ch_collector`.
pub struct Collecting {
    collector: Collector,
    target: Target,
}

crate::ffi::handle::kinds! {
    Alone<Collecting> = b"ch-colle", "collector";
}

/// A callback of C's that makes text of lines.
fn formatted(
    call: extern "C" fn(User, *const Line, *mut Buffer),
    user: User,
) -> impl FnMut(&LogLine, &mut Vec<u8>) + Send {
    move |line, out| {
        let (mut shown, mut buffer) = (Vec::new(), Buffer::EMPTY);
        line.append_to(&mut shown);
        call(user, &Line::of(line, &shown), &mut buffer);
        let made = OutBytes::lend(&mut buffer).fill(|bytes| Ok(std::mem::take(bytes)));
        out.extend_from_slice(&made.unwrap_or(shown));
    }
}

fn begin(log: &Ref<Log>, options: &Asked<Options>, target: Target) -> Result<Alone<Collecting>> {
    let options = options.or_defaults()?;
    let mut collector = log.get()?.collector()?;
    if options.hold_back_ns != 0 {
        collector = collector.hold_back(Duration::from_nanos(options.hold_back_ns));
    }
    if options.level != 0 {
        collector = collector.level(level(options.level)?);
    }
    if let Some(call) = options.format {
        collector = collector.format(formatted(call, options.user));
    }
    Ok(Alone::new(Collecting { collector, target }))
}

export! {
    fn ch_log_collect_to_file(
        log: Ref<Log>,
        options: Asked<Options>,
        path: Name,
        max_bytes: u64,
        keep: u32,
        collector: NewHandle<Alone<Collecting>>,
    ) {
        let place = collector.ready()?;
        let file = RotatedFile::open(path.path("the file's name")?, max_bytes, keep)?;
        place.put(begin(&log, &options, Target::File(file))?);
        Ok(yes(true))
    }

    fn ch_log_collect_to_fd(
        log: Ref<Log>,
        options: Asked<Options>,
        descriptor: c_int,
        collector: NewHandle<Alone<Collecting>>,
    ) {
        let place = collector.ready()?;
        let file = File::from(fd::double(descriptor)?);
        place.put(begin(&log, &options, Target::Descriptor(file))?);
        Ok(yes(true))
    }

    fn ch_log_collect_to(
        log: Ref<Log>,
        options: Asked<Options>,
        call: WriteText,
        user: User,
        collector: NewHandle<Alone<Collecting>>,
    ) {
        let place = collector.ready()?;
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        place.put(begin(&log, &options, Target::Callback(call, user))?);
        Ok(yes(true))
    }

    fn ch_collector_free(collector: Owned<Alone<Collecting>>) -> (), or (), {
        drop(collector.take())
    }

    fn ch_collector_poll(collector: Ref<Alone<Collecting>>, round: Give<CRound>) {
        let mut guard = collector.get()?.lock()?;
        let Collecting { collector, target } = &mut *guard;
        let done = match target {
            Target::File(file) => collector.poll_to_file(file)?,
            other => collector.poll(other)?,
        };
        round.set(done.into());
        Ok(yes(done.lines > 0))
    }

    fn ch_collector_finish(collector: Ref<Alone<Collecting>>, round: Give<CRound>) {
        let mut guard = collector.get()?.lock()?;
        let Collecting { collector, target } = &mut *guard;
        let done = match target {
            Target::File(file) => collector.finish_to_file(file)?,
            other => collector.finish(other)?,
        };
        round.set(done.into());
        Ok(yes(done.lines > 0))
    }

    fn ch_collector_run(collector: Ref<Alone<Collecting>>, stop: Stop, user: User, round: Give<CRound>) {
        let stop = stop.ok_or_else(|| invalid("the callback is NULL"))?;
        let mut guard = collector.get()?.lock()?;
        let Collecting { collector, target } = &mut *guard;
        let ended = || stop(user) != 0;
        let done = match target {
            Target::File(file) => collector.run_to_file(file, ended)?,
            other => collector.run(other, ended)?,
        };
        round.set(done.into());
        Ok(yes(done.lines > 0))
    }
}
