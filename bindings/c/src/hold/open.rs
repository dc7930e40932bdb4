//! Opening, creating and closing a hold; names and files.

use crate::basics::{json, time};
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Answer, Asked, Name, NewHandle, OutBytes, Owned, Ref, yes};
use commonhold::{Hold, HoldOptions};
use std::path::Path;

/// `ch_hold_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    max_bytes: u64,
    lock_timeout_ns: u64,
    directory: Name,
    mode: u32,
    read_only: u32,
    delete_on_last_exit: u32,
    /// A place for members to come.
    reserved: u32,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        max_bytes: 0,
        lock_timeout_ns: 0,
        directory: Name::NULL,
        mode: 0,
        read_only: 0,
        delete_on_last_exit: 0,
        reserved: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_HOLD_OPTIONS_INIT";

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

impl Options {
    fn build(&self) -> HoldOptions {
        let mut options = Hold::options()
            .read_only(self.read_only != 0)
            .delete_on_last_exit(self.delete_on_last_exit != 0);
        if self.max_bytes != 0 {
            options = options.max_bytes(self.max_bytes);
        }
        if self.mode != 0 {
            options = options.mode(self.mode);
        }
        if self.lock_timeout_ns != 0 {
            options = options.lock_timeout(time(self.lock_timeout_ns));
        }
        match self.directory.optional_path() {
            Some(directory) => options.directory(directory),
            None => options,
        }
    }
}

/// Opens in one of the three ways.
fn begin(
    (name, options, hold): (Name, Asked<Options>, NewHandle<Hold>),
    how: impl FnOnce(&HoldOptions, &Path) -> commonhold::Result<Hold>,
) -> Answer {
    let place = hold.ready()?;
    let options = options.or_defaults()?.build();
    place.put(how(&options, name.path("the hold's name")?)?);
    Ok(yes(true))
}

export! {
    fn ch_hold_open(name: Name, options: Asked<Options>, hold: NewHandle<Hold>) {
        begin((name, options, hold), |options, name| options.open(name))
    }

    fn ch_hold_create(name: Name, options: Asked<Options>, hold: NewHandle<Hold>) {
        begin((name, options, hold), |options, name| options.create(name))
    }

    fn ch_hold_open_or_create(name: Name, options: Asked<Options>, hold: NewHandle<Hold>) {
        begin((name, options, hold), |options, name| options.open_or_create(name))
    }

    fn ch_hold_close(hold: Ref<Hold>) {
        hold.get()?.clone().close()?;
        Ok(yes(true))
    }

    fn ch_hold_free(hold: Owned<Hold>) -> (), or (), {
        drop(hold.take())
    }

    fn ch_hold_resolve(name: Name, directory: Name, path: OutBytes) {
        let found = commonhold::hold::resolve(name.path("the hold's name")?, directory.optional_path())?;
        path.put(found.into_os_string().into_encoded_bytes())?;
        Ok(yes(true))
    }

    fn ch_hold_list(directory: Name, out: OutBytes) {
        json(&out, &commonhold::hold::list(directory.optional_path())?)
    }

    fn ch_hold_remove(name: Name, force: u32) {
        commonhold::hold::remove(name.path("the hold's name")?, force != 0)?;
        Ok(yes(true))
    }
}
