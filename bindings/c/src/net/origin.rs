//! The writable side.

use crate::basics::{json, time};
use crate::ffi::call::export;
use crate::ffi::fd;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{
    Asked, Give, In, Many, Name, NewHandle, OutBytes, Owned, Ref, User, invalid, yes,
};
use crate::net::{Native, compression};
use commonhold::{Hold, Result};
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{Address, Origin, OriginOptions, Secret, Transmission};
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

/// `ch_notice_fn`.
pub type Notice = Option<extern "C" fn(User, *const c_char)>;

/// `ch_origin_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    stream_bytes: u64,
    watermark: u64,
    delay_ns: u64,
    secret: In,
    secret_len: usize,
    notice: Notice,
    user: User,
    allowed_uids: Many<u32>,
    allowed_uid_count: usize,
    most_replicas: usize,
    io_threads: u32,
    kind: u32,
    explicit_transmission: u32,
    allow_unauthenticated: u32,
    compression: u32,
    reserved: u32,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        stream_bytes: 0,
        watermark: 0,
        delay_ns: 0,
        secret: In::NULL,
        secret_len: 0,
        notice: None,
        user: User::NONE,
        allowed_uids: Many::NULL,
        allowed_uid_count: 0,
        most_replicas: 0,
        io_threads: 0,
        kind: 0,
        explicit_transmission: 0,
        allow_unauthenticated: 0,
        compression: 0,
        reserved: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_ORIGIN_OPTIONS_INIT";

    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// A secret, if there is one.
pub(super) fn secret(bytes: In, len: usize) -> Result<Option<Secret>> {
    let bytes = bytes.bytes(len)?;
    Ok((!bytes.is_empty()).then(|| Secret::new(bytes)))
}

impl Options {
    pub(super) fn build(&self) -> Result<OriginOptions> {
        let mut options = OriginOptions::default();
        if self.stream_bytes != 0 {
            options.stream_bytes = self.stream_bytes;
        }
        if self.io_threads != 0 {
            options.io_threads = self.io_threads as usize;
        }
        if self.most_replicas != 0 {
            options.most_replicas = self.most_replicas;
        }
        let kinds = LoopKind::ALL.into_iter().nth(self.kind as usize);
        options.kind =
            kinds.ok_or_else(|| invalid(format!("{} is not a kind of loop", self.kind)))?;
        options.transmission = match self.explicit_transmission {
            0 => {
                let delay = Duration::from_nanos(self.delay_ns);
                Transmission::Automatic { watermark: self.watermark, delay }
            }
            _ => Transmission::Explicit,
        };
        options.secret = secret(self.secret, self.secret_len)?;
        options.allow_unauthenticated = self.allow_unauthenticated != 0;
        options.compression = compression(self.compression)?;
        if self.allowed_uid_count != 0 {
            options.allowed_uids = Some(self.allowed_uids.all(self.allowed_uid_count)?.to_vec());
        }
        if let Some(call) = self.notice {
            let user = self.user;
            options.notice = Some(Arc::new(move |text: &str| tell(call, user, text)));
        }
        Ok(options)
    }
}

/// Gives a callback a text that ends with a NUL.
pub(super) fn tell(call: extern "C" fn(User, *const c_char), user: User, text: &str) {
    call(user, terminated(text).as_ptr());
}

/// A text that ends with a NUL.
pub(super) fn terminated(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// An address as text.
pub(super) fn address(text: Name) -> Result<Address> {
    text.text("the address")?.parse()
}

crate::ffi::handle::kinds! {
    Native<Origin> = b"ch-origi", "origin";
}

export! {
    fn ch_origin_start(hold: Ref<Hold>, map: Name, options: Asked<Options>, origin: NewHandle<Native<Origin>>) {
        let place = origin.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(Native::new(Origin::start(hold.get()?, map.text("the map's name")?, options)?));
        Ok(yes(true))
    }

    fn ch_origin_free(origin: Owned<Native<Origin>>) -> (), or (), {
        drop(origin.take().map(Native::into_inner))
    }

    fn ch_origin_finish(origin: Owned<Native<Origin>>, timeout_ns: u64) {
        let origin = origin.take_or_refuse()?.into_inner();
        let was_ours = origin.is_some();
        if let Some(origin) = origin {
            origin.finish(time(timeout_ns));
        }
        Ok(yes(was_ours))
    }

    fn ch_origin_listen(origin: Ref<Native<Origin>>, at: Name, listens_at: OutBytes) {
        listens_at.needed_if_wanted()?;
        let found = origin.get()?.get()?.listen(&address(at)?)?;
        listens_at.put_if_wanted(found.to_string())?;
        Ok(yes(true))
    }

    fn ch_origin_listen_on(origin: Ref<Native<Origin>>, socket: c_int, listens_at: OutBytes) {
        listens_at.needed_if_wanted()?;
        let origin = origin.get()?.get()?;
        let found = origin.listen_on(fd::double(socket)?)?;
        fd::close(socket);
        listens_at.put_if_wanted(found.to_string())?;
        Ok(yes(true))
    }

    fn ch_origin_attach(origin: Ref<Native<Origin>>, socket: c_int, id: Give<u64>) {
        let origin = origin.get()?.get()?;
        id.set(origin.attach(fd::double(socket)?)?);
        fd::close(socket);
        Ok(yes(true))
    }

    fn ch_origin_detach(origin: Ref<Native<Origin>>, id: u64) {
        Ok(yes(origin.get()?.get()?.detach(id)))
    }

    fn ch_origin_transmit(origin: Ref<Native<Origin>>) {
        origin.get()?.get()?.transmit()?;
        Ok(yes(true))
    }

    fn ch_origin_sent_to_all(origin: Ref<Native<Origin>>, offset: Give<u64>) {
        let sent = origin.get()?.get()?.sent_to_all();
        offset.set(sent.unwrap_or(0));
        Ok(yes(sent.is_some()))
    }

    fn ch_origin_replicas(origin: Ref<Native<Origin>>, count: Give<usize>, out: OutBytes) {
        let replicas = origin.get()?.get()?.replicas();
        count.set(replicas.len());
        if out.is_wanted() { json(&out, &replicas) } else { Ok(yes(true)) }
    }
}
