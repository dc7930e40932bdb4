//! Reads a journal's file frame by frame, and finds the way past damaged bytes.

use crate::journal::file::{DURABLE, Identity, MAGIC, MAGIC_WITHOUT_TIMES, TIME, failed, identity};
use crate::journal::run::{RUN, Run, RunId};
use crate::journal::span::{LATEST_MS, Span};
use crate::journal::survey::Damage;
use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::Lineage;
use crate::protocol::wire::{Note, Welcome};
use commonhold::map::MapMode;
use commonhold::raw::{Proof, RawFrame};
use commonhold::stream::{ChangeKind, StreamPosition};
use commonhold::{Error, ErrorKind, Result};
use commonhold::{fault, shortened};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The number of bytes that are read at a time.
const READ: usize = 256 << 10;

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Damaged, format!("{}: {what}", path.display()))
}

/// The next entry of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A pair of the map, or a change of it.
    Frame(RawFrame<'a>),
    /// The pairs are complete: from the stated end on, the journal is a whole map.
    Complete,
    /// A number of bytes of the file that were durable.
    Durable,
    /// The beginning of a journal's run.
    Run,
    /// A time before it is a whole map.
    Time,
    /// A state of the whole map, and a time by which all changes up to it had been made.
    State(u64),
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// The number of bytes up to the end of the last sound frame.
    pub(crate) sound: u64,
    /// The offset in the stream.
    pub(crate) offset: u64,
    /// The offset where the journal becomes a whole map, once it is stated.
    end: Option<u64>,
    /// The number of bytes that it had when it became a whole map.
    whole: Option<u64>,
    /// The number of bytes that a frame stated to be durable.
    durable: u64,
    /// The run that has written the last frames.
    run: RunId,
    /// Where the last change begins in the file, and its length.
    last: Option<(u64, u32)>,
    /// The times since it is a whole map.
    times: Option<Span>,
    /// The number of changes behind the last time.
    untimed: u64,
}

/// Reads a journal frame by frame, up to the first unsound frame that it is not to skip.
pub(crate) struct Reader {
    file: File,
    path: PathBuf,
    inbox: Inbox,
    /// The length of the file in bytes.
    len: u64,
    /// The number of bytes that were received into the inbox.
    read: u64,
    reached: Reached,
    pub(crate) welcome: Welcome,
    pub(crate) identity: Identity,
    /// The damaged parts that it skips.
    skips: VecDeque<Damage>,
    over: bool,
    /// The map's, as the last run states it.
    lineage: Option<Lineage>,
    /// Whether a journal of this version may continue the file: it may have times.
    pub(crate) may_have_times: bool,
}

impl Reader {
    /// Opens a journal.
    ///
    /// # Errors
    /// `NotFound`; `Damaged` if the file is not a journal, or its beginning is lost; those of
    /// files.
    pub(crate) fn open(path: &Path) -> Result<Reader> {
        let opened = fault!("journal.open").and_then(|()| File::open(path));
        let file = opened.map_err(|e| failed(path, "cannot read", &e))?;
        let metadata = fault!("journal.fstat").and_then(|()| file.metadata());
        let metadata = metadata.map_err(|e| failed(path, "cannot read", &e))?;
        let (len, identity) = (metadata.len(), identity(&metadata));
        let position = StreamPosition { stream: 0, offset: 0 };
        let (proof, mode, name) = (Vec::new(), MapMode::General, String::new());
        let mut this = Reader {
            file,
            path: path.to_owned(),
            inbox: Inbox::default(),
            len,
            read: 0,
            reached: Reached::default(),
            welcome: Welcome { proof, position, whole: true, mode, name },
            identity,
            skips: VecDeque::new(),
            over: false,
            lineage: None,
            may_have_times: true,
        };
        this.begin()?;
        Ok(this)
    }

    /// Reads no further than `len` bytes: later bytes may never have reached the disk.
    pub(crate) fn trust_only(&mut self, len: u64) {
        self.len = self.len.min(len);
        let behind = self.read.saturating_sub(self.len);
        let mut buffer = self.inbox.take();
        buffer.truncate(buffer.len().saturating_sub(behind as usize));
        self.inbox.put(buffer);
        self.read -= behind;
    }

    fn begin(&mut self) -> Result<()> {
        // A read may return fewer bytes than there are.
        while self.inbox.rest().len() < READ && self.more()? {}
        match self.inbox.rest().first_chunk() {
            Some(MAGIC) => {}
            Some(MAGIC_WITHOUT_TIMES) => self.may_have_times = false,
            _ => return Err(damaged(&self.path, "is not a journal")),
        }
        self.inbox.advance(MAGIC.len());
        let welcome = self.inbox.next(READ - MAGIC.len());
        let welcome = welcome.ok().flatten().and_then(|frame| Welcome::read(&frame));
        let Some(welcome) = welcome else {
            return Err(damaged(&self.path, "the beginning of this journal is damaged"));
        };
        self.reached.offset = welcome.position.offset;
        self.welcome = welcome;
        self.reached.sound = self.read - self.inbox.rest().len() as u64;
        Ok(())
    }

    /// Receives more; false at the end of the file.
    fn more(&mut self) -> Result<bool> {
        let mut buffer = self.inbox.take();
        let before = buffer.len();
        // A large frame may have been there.
        buffer.shrink_to(before.max(2 * READ));
        let most = (self.len - self.read).min(READ as u64) as usize;
        buffer.resize(before + shortened!("journal.read-bytes", most), 0);
        let read = loop {
            match fault!("journal.read").and_then(|()| (&self.file).read(&mut buffer[before..])) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        buffer.truncate(before + read.as_ref().map_or(0, |len| *len));
        self.inbox.put(buffer);
        let read = read.map_err(|e| failed(&self.path, "cannot read", &e))?;
        self.read += read as u64;
        Ok(read > 0)
    }

    /// The position in the stream that it has reached.
    pub(crate) fn position(&self) -> StreamPosition {
        StreamPosition { offset: self.reached.offset, ..self.welcome.position }
    }

    /// The run that has written the last frames; zeros if it is lost.
    pub(super) fn run(&self) -> RunId {
        self.reached.run
    }

    /// The lineage of the map, if the file states one.
    pub(crate) fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref().filter(|lineage| lineage.is_known())
    }

    /// Whether the map was a replica's, which may not have known its lineage.
    pub(super) fn is_of_replica(&self) -> bool {
        self.lineage.as_ref().is_some_and(Lineage::is_of_replica)
    }

    /// The change before its position, if it is in the file.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn proof(&self) -> Result<Option<Proof>> {
        let Some((at, bytes)) = self.reached.last else { return Ok(None) };
        let mut sum = [0; 4];
        let read = self.file.read_exact_at(&mut sum, at + 4);
        read.map_err(|e| failed(&self.path, "cannot read", &e))?;
        Ok(Some(Proof { bytes, sum: u32::from_le_bytes(sum) }))
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes up to which it reads.
    pub(super) fn bytes(&self) -> u64 {
        self.len
    }

    /// How far it has come.
    pub(crate) fn reached(&self) -> Reached {
        self.reached
    }

    /// The number of bytes up to the end of the last sound frame.
    pub(crate) fn sound(&self) -> u64 {
        self.reached.sound
    }

    /// Whether it is a whole map: all pairs, and the changes up to the stated end.
    pub(crate) fn is_complete(&self) -> bool {
        self.reached.whole.is_some()
    }

    /// Whether it has come to the end of the pairs.
    pub(crate) fn is_behind_pairs(&self) -> bool {
        self.reached.end.is_some()
    }

    /// The number of bytes that it had when it became a whole map.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.reached.whole.unwrap_or_default()
    }

    /// The offset in the stream from which on it is a whole map, once it is one.
    pub(crate) fn whole_from(&self) -> Option<u64> {
        self.reached.end.filter(|_| self.is_complete())
    }

    /// The times of the first and the last state of the map that have a time.
    pub(crate) fn times(&self) -> Option<Span> {
        self.reached.times
    }

    /// The number of changes behind the last time.
    pub(crate) fn untimed(&self) -> u64 {
        self.reached.untimed
    }

    /// The number of bytes that once were durable, as far as the file states it. It takes its path
    /// only as a whole map that is on the disk.
    pub(crate) fn durable(&self) -> u64 {
        self.whole_bytes().max(self.reached.durable)
    }

    /// Bytes behind the last sound frame.
    pub(crate) fn cut_off(&self) -> u64 {
        self.len.saturating_sub(self.reached.sound)
    }

    /// Skips these damaged parts.
    pub(crate) fn skip(&mut self, damage: &[Damage]) {
        self.skips.extend(damage.iter().cloned());
    }

    /// Goes back to an earlier end of the sound frames, which is the end from now on.
    pub(crate) fn end_at(&mut self, reached: Reached) {
        (self.reached, self.over) = (reached, true);
    }

    /// The part from the end of the sound frames to the next sound frame; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn damage(&self) -> Result<Option<Damage>> {
        let Reached { sound, offset, .. } = self.reached;
        let next = next_sound(&self.file, sound, self.len, offset);
        let next = next.map_err(|e| failed(&self.path, "cannot read", &e))?;
        let in_pairs = !self.is_behind_pairs();
        Ok(next.map(|(at, next)| Damage { bytes: sound..at, offsets: offset..next, in_pairs }))
    }

    /// Continues behind a damaged part.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn jump(&mut self, damage: &Damage) -> Result<()> {
        let at = damage.bytes.end;
        let sought = self.file.seek(SeekFrom::Start(at));
        sought.map_err(|e| failed(&self.path, "cannot read", &e))?;
        (self.inbox, self.read, self.over) = (Inbox::default(), at, false);
        (self.reached.sound, self.reached.offset) = (at, damage.offsets.end);
        self.reached.last = None;
        self.reached.note_whole();
        Ok(())
    }

    /// Continues with the bytes that were written since; false if there are none.
    ///
    /// # Errors
    /// Those of reading files.
    pub(super) fn follow_growth(&mut self) -> Result<bool> {
        let metadata = self.file.metadata();
        let len = metadata.map_err(|e| failed(&self.path, "cannot read", &e))?.len();
        let grows = len > self.len;
        (self.len, self.over) = (self.len.max(len), self.over && !grows);
        Ok(grows)
    }

    /// The next entry; `None` at the end, which is the first unsound frame that it is not to skip.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>> {
        let sound = self.reached.sound;
        if self.skips.front().is_some_and(|damage| damage.bytes.start == sound)
            && let Some(damage) = self.skips.pop_front()
        {
            self.jump(&damage)?;
        }
        while !self.over && !self.is_whole() {
            if !self.more()? {
                self.over = true;
            }
        }
        Ok(self.entry())
    }

    /// True if all of the next frame is in the inbox, or there is none.
    fn is_whole(&self) -> bool {
        let rest = self.inbox.rest();
        let left = self.len.saturating_sub(self.reached.sound);
        if rest.len() < RawFrame::HEADER {
            return false;
        }
        match RawFrame::plausible_length(rest) {
            Some(len) => len <= rest.len() || len as u64 > left,
            None => true,
        }
    }

    fn entry(&mut self) -> Option<Entry<'_>> {
        if self.over && self.inbox.rest().len() < RawFrame::HEADER {
            return None;
        }
        let Reached { sound, offset, end, .. } = self.reached;
        let kind = |frame: &RawFrame<'_>| kind_of(frame, end.is_some(), sound);
        let frame = self.inbox.next_if(|frame| frame.offset == offset && kind(frame).is_some());
        let Some((frame, kind)) = frame.and_then(|frame| Some((frame, kind(&frame)?))) else {
            self.over = true;
            return None;
        };
        let len = (RawFrame::HEADER + frame.key.len() + frame.value.len()).next_multiple_of(8);
        let reached = &mut self.reached;
        reached.sound += len as u64;
        let entry = match kind {
            Kind::Complete(at) => {
                reached.end = Some(at);
                Entry::Complete
            }
            Kind::Durable(bytes) => {
                // It needs no other statement about itself.
                let bytes = if bytes == sound { reached.sound } else { bytes };
                reached.durable = reached.durable.max(bytes);
                Entry::Durable
            }
            Kind::Run(run) => {
                (reached.run, self.lineage) = (run.id, Some(run.lineage));
                Entry::Run
            }
            Kind::Time(ms) => {
                reached.untimed = 0;
                match reached.whole {
                    Some(_) => {
                        reached.times = Some(Span::with(reached.times, ms));
                        Entry::State(ms)
                    }
                    None => Entry::Time,
                }
            }
            Kind::Change(to) => {
                reached.offset = to;
                reached.untimed += 1;
                reached.last = u32::try_from(len).ok().map(|len| (sound, len));
                Entry::Frame(frame)
            }
            Kind::Pair => Entry::Frame(frame),
        };
        reached.note_whole();
        Some(entry)
    }
}

impl Reached {
    /// Notes when the journal becomes a whole map.
    fn note_whole(&mut self) {
        if self.whole.is_none() && self.end.is_some_and(|end| self.offset >= end) {
            self.whole = Some(self.sound);
        }
    }
}

enum Kind {
    Pair,
    Change(u64),
    Complete(u64),
    Durable(u64),
    Run(Run),
    Time(u64),
}

/// The kind of a frame behind `sound` bytes, if it may stand there: pairs may stand only before the
/// end of the pairs. A gap is an end: the contents behind it are unknown.
fn kind_of(frame: &RawFrame<'_>, complete: bool, sound: u64) -> Option<Kind> {
    if let Some(change) = frame.change() {
        return (change.kind != ChangeKind::Gap).then_some(Kind::Change(change.end));
    }
    if frame.code == DURABLE {
        let bytes = u64::from_le_bytes(frame.value.try_into().ok()?);
        return (bytes <= sound).then_some(Kind::Durable(bytes));
    }
    if frame.code == TIME {
        let ms = u64::from_le_bytes(frame.value.try_into().ok()?);
        return (ms <= LATEST_MS).then_some(Kind::Time(ms));
    }
    if frame.code == RUN {
        return Run::read(frame).map(Kind::Run);
    }
    match Note::read(frame)? {
        Note::Pair if !complete => Some(Kind::Pair),
        Note::Complete { end } if !complete => Some(Kind::Complete(end)),
        _ => None,
    }
}

/// Where in the file the next sound frame begins behind an unsound one at `from`, and its offset in
/// the stream. `offset` is that of the unsound one: changes take as many bytes in the stream as
/// here, so the next offset is at most as far away. Frames begin at multiples of 8.
fn next_sound(file: &File, from: u64, len: u64, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let mut window = vec![0; READ];
    let mut at = from + 8;
    while at + RawFrame::HEADER as u64 <= len {
        let most = (len - at).min(READ as u64) as usize;
        file.read_exact_at(&mut window[..most], at)?;
        let last = most - RawFrame::HEADER;
        for start in (0..=last).step_by(8) {
            let place = at + start as u64;
            let header = &window[start..start + RawFrame::HEADER];
            let Some(size) = RawFrame::plausible_length(header) else { continue };
            if place + size as u64 > len {
                continue;
            }
            let mut frame = vec![0; size];
            file.read_exact_at(&mut frame, place)?;
            let sound = RawFrame::decode(&frame).filter(|frame| {
                let ahead = frame.offset.checked_sub(offset);
                ahead.is_some_and(|ahead| ahead <= place - from)
                    && kind_of(frame, false, place).is_some()
            });
            if let Some(frame) = sound {
                return Ok(Some((place, frame.offset)));
            }
        }
        at += (last / 8 * 8 + 8) as u64;
    }
    Ok(None)
}
