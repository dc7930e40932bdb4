//! Creating and opening logs, their statistics; writing lines.

use crate::basics::json;
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Give, In, Name, NewHandle, OutBytes, Owned, Ref, View, invalid, yes};
use crate::log::level;
use commonhold::log::{Log, LogOptions, Overflow, Written};
use commonhold::{Hold, Result};

/// `ch_log_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    ring_bytes: u64,
    rings: u32,
    overflow: u32,
    level: u32,
    direct: u32,
}

impl Plain for Options {
    const ZERO: Options =
        Options { _size: 0, ring_bytes: 0, rings: 0, overflow: 0, level: 0, direct: 0 };
}

impl Growing for Options {
    const INIT: &'static str = "CH_LOG_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<LogOptions> {
        let mut options = LogOptions::new().direct(self.direct != 0);
        if self.rings != 0 {
            options = options.rings(self.rings);
        }
        if self.ring_bytes != 0 {
            options = options.ring_bytes(self.ring_bytes);
        }
        if self.level != 0 {
            options = options.level(level(self.level)?);
        }
        match self.overflow {
            0 => Ok(options.overflow(Overflow::Drop)),
            1 => Ok(options.overflow(Overflow::Overwrite)),
            other => Err(invalid(format!("expected an overflow policy of 0 or 1, got {other}"))),
        }
    }
}

/// `ch_log_stat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    ring_bytes: u64,
    dropped: u64,
    refused: u64,
    overwritten: u64,
    waiting_bytes: u64,
    rings: u32,
    overflow: u32,
    level: u32,
    threads: u32,
    has_collector: u32,
    collector_pid: u32,
}

crate::ffi::handle::kinds! {
    Log = b"ch-log\0\0", "log";
}

export! {
    fn ch_log_open(hold: Ref<Hold>, name: Name, log: NewHandle<Log>) {
        let place = log.ready()?;
        place.put(hold.get()?.logs().open(name.text("the log's name")?)?);
        Ok(yes(true))
    }

    fn ch_log_open_or_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, log: NewHandle<Log>) {
        let place = log.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(hold.get()?.logs().open_or_create(name.text("the log's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_log_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, log: NewHandle<Log>) {
        let place = log.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(hold.get()?.logs().create(name.text("the log's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_log_drop(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.logs().drop(name.text("the log's name")?)?))
    }

    fn ch_log_list(hold: Ref<Hold>, out: OutBytes) {
        json(&out, &hold.get()?.logs().list()?)
    }

    fn ch_log_free(log: Owned<Log>) -> (), or (), {
        drop(log.take())
    }

    fn ch_log_name(log: Ref<Log>, name: Give<View>) {
        name.needed("name")?;
        name.set(View::of(log.get()?.name().as_bytes()));
        Ok(yes(true))
    }

    fn ch_log_enabled(log: Ref<Log>, code: u32) -> bool, or false, {
        matches!((log.get(), level(code)), (Ok(log), Ok(level)) if log.enabled(level))
    }

    fn ch_log_write(log: Ref<Log>, code: u32, text: In, len: usize, became: Give<u32>) {
        let written = log.get()?.write(level(code)?, text.bytes(len)?)?;
        became.set(match written {
            Written::Accepted => 0,
            Written::Filtered => 1,
            Written::Dropped => 2,
        });
        Ok(yes(written == Written::Accepted))
    }

    fn ch_log_prepare(log: Ref<Log>) {
        Ok(yes(log.get()?.prepare()?))
    }

    fn ch_log_level(log: Ref<Log>, code: Give<u32>) {
        code.needed("level")?;
        code.set(log.get()?.level() as u32);
        Ok(yes(true))
    }

    fn ch_log_set_level(log: Ref<Log>, code: u32) {
        log.get()?.set_level(level(code)?)?;
        Ok(yes(true))
    }

    fn ch_log_stat(log: Ref<Log>, out: Give<Stat>) {
        out.needed("stat")?;
        let stat = log.get()?.stat()?;
        out.set(Stat {
            ring_bytes: stat.ring_bytes,
            dropped: stat.dropped,
            refused: stat.refused,
            overwritten: stat.overwritten,
            waiting_bytes: stat.waiting_bytes,
            rings: stat.rings,
            overflow: u32::from(stat.overflow == Overflow::Overwrite),
            level: stat.level as u32,
            threads: stat.threads,
            has_collector: u32::from(stat.collector.is_some()),
            collector_pid: stat.collector.map_or(0, |(_, pid)| pid),
        });
        Ok(yes(true))
    }

    fn ch_log_describe(log: Ref<Log>, out: OutBytes) {
        json(&out, &log.get()?.stat()?)
    }
}
