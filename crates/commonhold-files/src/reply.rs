//! From a request to its answer.

mod missing;

use super::fresh_contents::{FreshContents, Origin, Stock};
use super::freshness_checks::{OpenFile, Seen};
use super::http::answer::{Dates, Lines, status_line};
use super::http::conditions::{Verdict, range_holds, verdict};
use super::http::head::{Head, Method, Wrong};
use super::http::own_fields::{OwnFields, allow};
use super::http::range::{Part, part};
use super::layout::Layout;
use super::packed::Packed;
use super::pages::Pages;
use super::payload::{Contents, Payload};
use super::source::{Coding, Source};
use super::store::Store;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The answer of the simple protocol to an id that names nothing.
const UNKNOWN: [u8; 1] = [0];
/// The number of bytes of a file that are read at once, where the kernel cannot send from it.
const AT_ONCE: usize = 256 << 10;
const RETRY: &str = "Retry-After: 1\r\n";
const CLOSE: &str = "Connection: close\r\n";
const KEEP: &str = "Connection: keep-alive\r\n";

/// A part of an answer.
pub(crate) enum Piece<H> {
    Ready(Payload),
    /// A range of a file of the source.
    Open {
        handle: H,
        range: Range<u64>,
    },
}

/// An answer.
pub(crate) struct Reply<H> {
    pub(crate) pieces: VecDeque<Piece<H>>,
    /// The status of HTTP; 200 or 404 in the simple protocol.
    pub(crate) status: u16,
    /// Whether the connection continues afterwards.
    pub(crate) keep: bool,
    /// The origin of the contents, if there are any.
    pub(crate) origin: Option<Origin>,
    /// The bytes of the head, for the log.
    pub(crate) head_bytes: u64,
}

impl<H> Reply<H> {
    fn of(status: u16, keep: bool) -> Reply<H> {
        Reply { pieces: VecDeque::new(), status, keep, origin: None, head_bytes: 0 }
    }

    fn headed(mut self, bytes: usize) -> Reply<H> {
        self.head_bytes = bytes as u64;
        self
    }

    fn with(mut self, payload: Payload) -> Reply<H> {
        self.pieces.push_back(Piece::Ready(payload));
        self
    }
}

/// The data for replies, except the contents.
pub(crate) struct Responder {
    pub(crate) layout: Arc<dyn Layout>,
    fields: OwnFields,
    pages: Pages,
    dates: Dates,
    /// The time of the events that are being processed.
    pub(crate) now: Instant,
    pub(crate) wall: SystemTime,
    /// Connections are no longer kept.
    pub(crate) closing: bool,
}

impl Responder {
    pub(crate) fn new(layout: Arc<dyn Layout>, fields: OwnFields, pages: Pages) -> Responder {
        let (dates, now, wall) = (Dates::default(), Instant::now(), SystemTime::now());
        Responder { layout, fields, pages, dates, now, wall, closing: false }
    }

    /// The head up to the lines of the contents.
    fn begin(&mut self, status: u16, keep: bool, explicit: bool) -> String {
        let mut head = String::with_capacity(512);
        head.push_str(status_line(status));
        head.push_str(self.dates.line(self.wall));
        head.push_str(self.fields.of(status));
        match keep {
            false => head.push_str(CLOSE),
            true if explicit => head.push_str(KEEP),
            true => {}
        }
        head
    }

    /// An answer without contents of a file: its status as text.
    fn plain<H>(&mut self, status: u16, keep: bool, is_head: bool, more: &str) -> Reply<H> {
        let mut head = self.begin(status, keep, keep);
        let phrase = &status_line(status)[9..];
        let _ = write!(
            head,
            "{more}Content-Length: {}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n",
            phrase.len()
        );
        let len = head.len();
        if !is_head {
            head.push_str(phrase);
        }
        Reply::of(status, keep).headed(len).with(Payload::words(head.into_bytes()))
    }

    /// The answer to an unusable request; its connection ends.
    pub(crate) fn refuse<H>(&mut self, wrong: Wrong) -> Reply<H> {
        let status = match wrong {
            Wrong::Malformed => 400,
            Wrong::TooLarge => 431,
            Wrong::Target => 414,
            Wrong::Version => 505,
            Wrong::Coding => 501,
        };
        self.plain(status, false, false, "")
    }

    /// The answer to a peer that takes too long.
    pub(crate) fn give_up<H>(&mut self) -> Reply<H> {
        self.plain(408, false, false, "")
    }

    /// The answer to a peer with too many connections.
    pub(crate) fn too_many<H>(&mut self, is_head: bool) -> Reply<H> {
        self.plain(503, false, is_head, RETRY)
    }

    /// Answers a request of HTTP.
    pub(crate) fn http<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
    ) -> Reply<F::Handle> {
        // A body would have to be received first; no file that is served here takes one.
        let keep = head.keep && head.body == Some(0) && !self.closing;
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => return self.options(head, keep),
            Method::Other if head.has_known_method() => {
                return self.plain(405, keep, false, &allow());
            }
            Method::Other => return self.plain(501, keep, false, ""),
        }
        match self.found(contents, head, keep) {
            Ok(reply) => reply,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.error(contents, head, keep, 403, "")
            }
            // Descriptors have run out: others will be free soon.
            Err(error) if is_busy(&error) => self.error(contents, head, keep, 503, RETRY),
            Err(_) => self.error(contents, head, keep, 500, ""),
        }
    }

    /// Answers which methods there are, and what scripts of other origins may request. They are the
    /// same for all targets.
    fn options<H>(&mut self, head: &Head<'_>, keep: bool) -> Reply<H> {
        let mut text = self.begin(204, keep, is_old(head, keep));
        text.push_str(self.fields.of_options());
        text.push_str("\r\n");
        Reply::of(204, keep).headed(text.len()).with(Payload::words(text.into_bytes()))
    }

    fn contents<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
        keep: bool,
    ) -> io::Result<Option<Reply<F::Handle>>> {
        let Some(id) = self.layout.id(&head.path) else { return Ok(None) };
        self.contents_of(contents, &id, head, keep)
    }

    fn contents_of<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        id: &[u8],
        head: &Head<'_>,
        keep: bool,
    ) -> io::Result<Option<Reply<F::Handle>>> {
        let choose = |seen: &Seen| seen.coding(|coding| head.accepts(coding));
        let Some((stock, origin)) = contents.find(id, self.now, choose)? else { return Ok(None) };
        let mut reply = match stock {
            Stock::Packed(contents) => self.packed(head, keep, contents),
            Stock::Open(file) => self.open(head, keep, &file, contents.source())?,
        };
        reply.origin = Some(origin);
        Ok(Some(reply))
    }

    /// Answers with contents in memory. The usual case, all contents, is one payload that has them
    /// as an unchanged part.
    fn packed<H>(&mut self, head: &Head<'_>, keep: bool, contents: Contents) -> Reply<H> {
        let Some(packed) = Packed::of(contents.as_ref()) else {
            return self.plain(500, keep, head.method == Method::Head, "");
        };
        let len = packed.len as u64;
        match self.decide(head, &packed.lines, packed.modified, len) {
            Sent::Nothing(status) => self.without(head, status, keep, &packed.lines, len),
            Sent::Whole => {
                let range = match head.method {
                    Method::Head => packed.head.clone(),
                    _ => packed.head.start..packed.range(&(0..len)).end,
                };
                let head = self.begin(200, keep, is_old(head, keep));
                let len = head.len() + packed.head.len();
                let payload = Payload::contents(head.into_bytes(), contents, range);
                Reply::of(200, keep).headed(len).with(payload)
            }
            Sent::Ranges(ranges) => {
                let parts = self.parts(head, keep, &packed.lines, len, &ranges);
                let ranges: Vec<_> = ranges.iter().map(|range| packed.range(range)).collect();
                drop(packed);
                let shared = contents.into_shared();
                let mut reply = Reply::of(206, keep).headed(parts.head_bytes);
                for (text, range) in parts.heads.into_iter().zip(ranges) {
                    reply = reply.with(Payload::contents(text, shared.clone(), range));
                }
                reply.with(Payload::words(parts.end))
            }
        }
    }

    /// Answers with contents of the source.
    fn open<F: Source>(
        &mut self,
        head: &Head<'_>,
        keep: bool,
        file: &OpenFile<F::Handle>,
        source: &F,
    ) -> io::Result<Reply<F::Handle>> {
        let OpenFile { stamp, lines, .. } = file;
        let len = stamp.len;
        match self.decide(head, lines, stamp.modified(), len) {
            Sent::Nothing(status) => Ok(self.without(head, status, keep, lines, len)),
            Sent::Whole => {
                let mut text = self.begin(200, keep, is_old(head, keep));
                text.push_str(lines.text());
                text.push_str("\r\n");
                let range = if head.method == Method::Head { 0..0 } else { 0..len };
                let mut reply = Reply::of(200, keep).headed(text.len());
                push(&mut reply, text.into_bytes(), file, range, source)?;
                Ok(reply)
            }
            Sent::Ranges(ranges) => {
                let parts = self.parts(head, keep, lines, len, &ranges);
                let mut reply = Reply::of(206, keep).headed(parts.head_bytes);
                for (text, range) in parts.heads.into_iter().zip(ranges) {
                    push(&mut reply, text, file, range, source)?;
                }
                Ok(reply.with(Payload::words(parts.end)))
            }
        }
    }

    /// The part of the contents to send.
    fn decide(&self, head: &Head<'_>, lines: &Lines<'_>, modified: SystemTime, len: u64) -> Sent {
        if head.is_plain() {
            return Sent::Whole;
        }
        let validators = lines.validators(modified);
        match verdict(head, &validators) {
            Verdict::NotModified => return Sent::Nothing(304),
            Verdict::Failed => return Sent::Nothing(412),
            Verdict::Send => {}
        }
        // A range is defined for GET alone.
        let asked =
            head.range.filter(|_| head.method == Method::Get && range_holds(head, &validators));
        match asked.map_or(Part::Whole, |field| part(field, len)) {
            Part::Whole => Sent::Whole,
            Part::Beyond => Sent::Nothing(416),
            Part::Ranges(ranges) => Sent::Ranges(ranges),
        }
    }

    /// An answer about contents, without them.
    fn without<H>(
        &mut self,
        head: &Head<'_>,
        status: u16,
        keep: bool,
        lines: &Lines<'_>,
        len: u64,
    ) -> Reply<H> {
        match status {
            304 => {
                let mut text = self.begin(304, keep, is_old(head, keep));
                text.push_str(lines.rest());
                text.push_str("\r\n");
                Reply::of(304, keep).headed(text.len()).with(Payload::words(text.into_bytes()))
            }
            416 => self.plain(416, keep, false, &format!("Content-Range: bytes */{len}\r\n")),
            other => self.plain(other, keep, head.method == Method::Head, ""),
        }
    }

    /// The bytes before, between and behind ranges.
    fn parts(
        &mut self,
        head: &Head<'_>,
        keep: bool,
        lines: &Lines<'_>,
        len: u64,
        ranges: &[Range<u64>],
    ) -> Parts {
        let mut text = self.begin(206, keep, is_old(head, keep));
        let (kind, rest) = (lines.kind(), lines.rest());
        let at = |range: &Range<u64>| {
            format!("Content-Range: bytes {}-{}/{len}\r\n", range.start, range.end - 1)
        };
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if let [range] = ranges {
            let at = at(range);
            let _ =
                write!(text, "Content-Length: {bytes}\r\n{at}Content-Type: {kind}\r\n{rest}\r\n");
            let (head_bytes, heads) = (text.len(), vec![text.into_bytes()]);
            return Parts { heads, end: Vec::new(), head_bytes };
        }
        // A random boundary for each answer, so that no one can prepare a file that contains it.
        let boundary = format!("{:032x}", fastrand::u128(..));
        let head = |range| format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\n{}\r\n", at(range));
        let mut heads: Vec<Vec<u8>> = ranges.iter().map(head).map(String::into_bytes).collect();
        let end = format!("\r\n--{boundary}--\r\n").into_bytes();
        let words: usize = heads.iter().map(Vec::len).sum::<usize>() + end.len();
        let _ = write!(
            text,
            "Content-Length: {}\r\nContent-Type: multipart/byteranges; boundary={boundary}\r\n{rest}\r\n",
            bytes + words as u64,
        );
        let head_bytes = text.len();
        heads[0].splice(0..0, text.into_bytes());
        Parts { heads, end, head_bytes }
    }

    /// Answers a request of the simple protocol: contents, or one zero byte; then the connection
    /// ends.
    pub(crate) fn simple<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        id: &[u8],
    ) -> Reply<F::Handle> {
        // In this protocol an unreadable file counts as a missing one.
        match self.simple_contents(contents, id) {
            Ok(Some(reply)) => reply,
            Ok(None) | Err(_) => Reply::of(404, false).with(Payload::words(UNKNOWN.to_vec())),
        }
    }

    fn simple_contents<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        id: &[u8],
    ) -> io::Result<Option<Reply<F::Handle>>> {
        let Some(id) = self.layout.id(id) else { return Ok(None) };
        let plain = |_: &Seen| Coding::Plain;
        let Some((stock, origin)) = contents.find(&id, self.now, plain)? else { return Ok(None) };
        let mut reply = Reply::of(200, false);
        match stock {
            Stock::Packed(contents) => {
                let Some(packed) = Packed::of(contents.as_ref()) else { return Ok(None) };
                let range = packed.range(&(0..packed.len as u64));
                reply = reply.with(Payload::contents(Vec::new(), contents, range));
            }
            Stock::Open(file) => {
                push(&mut reply, Vec::new(), &file, 0..file.stamp.len, contents.source())?;
            }
        }
        reply.origin = Some(origin);
        Ok(Some(reply))
    }
}

/// The bytes around ranges.
struct Parts {
    /// Before each range.
    heads: Vec<Vec<u8>>,
    end: Vec<u8>,
    /// The bytes of the response's head, which the first of `heads` begins with.
    head_bytes: usize,
}

/// The part of contents to send.
enum Sent {
    Whole,
    Ranges(Vec<Range<u64>>),
    /// Only this status.
    Nothing(u16),
}

/// Whether the head has to announce that the connection is kept: to peers of HTTP/1.0.
fn is_old(head: &Head<'_>, keep: bool) -> bool {
    keep && head.is_old
}

/// Appends bytes and a range of a file of the source. Where the kernel cannot send from it, the
/// beginning of the range is read at once, so that it is known whether there is an answer; the rest
/// is read in its turn.
///
/// # Errors
/// Those of reading it; an error if the file has ended before the range.
fn push<F: Source>(
    reply: &mut Reply<F::Handle>,
    text: Vec<u8>,
    file: &OpenFile<F::Handle>,
    mut range: Range<u64>,
    source: &F,
) -> io::Result<()> {
    let OpenFile { handle, stamp, .. } = file;
    let len = range.end - range.start;
    if len == 0 {
        reply.pieces.push_back(Piece::Ready(Payload::words(text)));
    } else if let Some(file) = F::file(handle) {
        if !text.is_empty() {
            reply.pieces.push_back(Piece::Ready(Payload::words(text).followed()));
        }
        reply.pieces.push_back(Piece::Ready(Payload::file(file, *stamp, range.start, len)));
    } else {
        let first = match reply.pieces.is_empty() {
            true => next(source, handle, &range)?,
            false => Vec::new(),
        };
        let sent = first.len();
        range.start += sent as u64;
        let words = Payload::contents(text, first.into(), 0..sent);
        if range.is_empty() {
            reply.pieces.push_back(Piece::Ready(words));
        } else {
            reply.pieces.push_back(Piece::Ready(words.followed()));
            reply.pieces.push_back(Piece::Open { handle: handle.clone(), range });
        }
    }
    Ok(())
}

/// The next bytes of a range of a file that the kernel cannot send from.
///
/// # Errors
/// Those of reading it; an error if the file has ended before the range.
pub(crate) fn next<F: Source>(
    source: &F,
    handle: &F::Handle,
    range: &Range<u64>,
) -> io::Result<Vec<u8>> {
    let most = usize::try_from(range.end - range.start).map_or(AT_ONCE, |len| len.min(AT_ONCE));
    let bytes = source.read(handle, range.start, most)?;
    match bytes.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(bytes),
    }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::super::source::{Found, Opened};
    use super::super::stamp::Stamp;
    use super::*;
    use crate::http::answer::Facts;
    use std::cell::Cell;
    use std::os::fd::OwnedFd;

    /// A file that the kernel cannot send from; counts the bytes that are read.
    #[derive(Default)]
    struct Counting(Cell<usize>);

    impl Source for Counting {
        type Handle = ();

        fn refresh(&self) -> io::Result<bool> {
            Ok(false)
        }

        fn look(&self, _: &[u8]) -> io::Result<Option<Found>> {
            Ok(None)
        }

        fn open(&self, _: &[u8], _: Coding) -> io::Result<Option<Opened<()>>> {
            Ok(None)
        }

        fn stamp(&self, (): &()) -> io::Result<Stamp> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn is_directory(&self, _: &[u8]) -> io::Result<bool> {
            Ok(false)
        }

        fn read(&self, (): &(), _: u64, most: usize) -> io::Result<Vec<u8>> {
            self.0.set(self.0.get() + most);
            Ok(vec![0; most])
        }

        fn file((): &()) -> Option<Arc<OwnedFd>> {
            None
        }
    }

    #[test]
    fn of_several_ranges_the_first_is_read_at_once() {
        const LEN: u64 = 1 << 30;
        let stamp = Stamp { file: 1, len: LEN, modified_ns: 1, changed_ns: 1 };
        let (kind, modified, coding) = ("", stamp.modified(), Coding::Plain);
        let lines = Lines::new(&Facts { len: LEN, kind, etag: 0, modified, coding, varies: false });
        let (file, source) = (OpenFile { handle: (), stamp, lines }, Counting::default());
        let mut reply = Reply::of(206, true);
        for at in 0..16 {
            let range = at << 20..(at + 1) << 20;
            push(&mut reply, b"words".to_vec(), &file, range, &source).unwrap();
        }
        assert_eq!(source.0.get(), AT_ONCE);
        let left = reply.pieces.iter().map(|piece| match piece {
            Piece::Ready(_) => 0,
            Piece::Open { range, .. } => range.end - range.start,
        });
        assert_eq!(left.sum::<u64>(), (16 << 20) - AT_ONCE as u64);
    }
}
