//! The catalogue of a directory with the journals of all maps of a hold: which maps there were at
//! which times, and which file has each.
//!
//! A *life* of a map lasts until the map is dropped. A later map of the same name has another life,
//! and another file. So the file of a dropped map stays, and its states can be restored.
//!
//! The catalogue is a file of 16 bytes that identify it, and frames, to which events are only
//! appended. The offset of each frame is its place in the file. A part at the end that is not sound
//! never became durable. An unsound part before sound frames was damaged later. When most events
//! are about lives that are over, a file with the others takes its place, in one step.

use crate::journal::file::{failed, shorten, sync_data, sync_directory, write_all};
use crate::journal::inspect;
use crate::journal::map_files::file_name;
use crate::protocol::wire::{self, long, now_ms};
use commonhold::raw::{Draft, MapIdentity, RawFrame};
use commonhold::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file.
const NAME: &str = "catalogue";
/// Its first bytes.
const MAGIC: &[u8; 16] = b"COMMONHOLD-JHC1\n";
/// The code of an event. Its key is the name of the map.
const EVENT: u32 = 0x133;
/// Bytes of its value: time, life, kind, map.
const VALUE: usize = 56;
/// The file is not rewritten below this number of bytes.
const LEAST: u64 = 16 << 10;

/// The lives of all maps, by name, each in order.
type Lives = BTreeMap<String, Vec<Life>>;

/// A change in the life of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The journal began, and the map existed already: it may have had earlier states.
    Found,
    /// The map was created while the journal ran.
    Created,
    /// Its file is a whole map for the first time.
    Whole,
    /// It is another map of the hold, with all changes in the file: it was rebuilt.
    Moved,
    /// It was dropped.
    Dropped,
    /// Its files were removed.
    Removed,
}

const EVENTS: [Event; 6] =
    [Event::Found, Event::Created, Event::Whole, Event::Moved, Event::Dropped, Event::Removed];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) number: u64,
    /// Whether the map was created while the journal ran.
    pub(crate) was_created: bool,
    /// When its journal began.
    pub(crate) begun_ms: u64,
    /// From this time on its files have its states.
    pub(crate) whole_ms: Option<u64>,
    pub(crate) dropped_ms: Option<u64>,
    pub(crate) is_removed: bool,
    /// Which map of which hold has all changes in the file.
    pub(crate) of: MapIdentity,
}

impl Life {
    fn begun(number: u64, event: Event, begun_ms: u64, of: MapIdentity) -> Life {
        let was_created = event == Event::Created;
        let (whole_ms, dropped_ms, is_removed) = (None, None, false);
        Life { number, was_created, begun_ms, whole_ms, dropped_ms, is_removed, of }
    }

    /// Whether the map is not known to be dropped.
    pub(crate) fn is_on(&self) -> bool {
        self.dropped_ms.is_none()
    }

    /// Whether its files should be there.
    pub(crate) fn has_files(&self) -> bool {
        self.whole_ms.is_some() && !self.is_removed
    }

    /// The events that lead to it, with their times.
    fn events(&self) -> impl Iterator<Item = (Event, u64)> {
        let begun = if self.was_created { Event::Created } else { Event::Found };
        let removed = self.dropped_ms.filter(|_| self.is_removed);
        let events = [
            Some((begun, self.begun_ms)),
            self.whole_ms.map(|ms| (Event::Whole, ms)),
            self.dropped_ms.map(|ms| (Event::Dropped, ms)),
            removed.map(|ms| (Event::Removed, ms)),
        ];
        events.into_iter().flatten()
    }

    /// Whether its map was one of this hold.
    pub(crate) fn is_in(&self, hold: [u8; 16]) -> bool {
        self.of[..16] == hold
    }
}

/// The lives of all maps, by name, each in order.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) maps: Lives,
    /// Whether events are lost.
    pub(crate) is_damaged: bool,
}

/// The path of the catalogue in a directory.
pub(crate) fn catalogue_of(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// The path of the file in a directory that has this life of a map.
pub(crate) fn file_of(directory: &Path, map: &str, life: u64) -> PathBuf {
    directory.join(file_name(map, life))
}

impl Catalogue {
    /// # Errors
    /// `NotFound`; `Damaged` if the file is not a catalogue; those of files.
    pub(crate) fn read(directory: &Path) -> Result<Catalogue> {
        let path = catalogue_of(directory);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = format!(
                    "{}: expected a directory of 'hold journal run', found no catalogue in it",
                    directory.display()
                );
                Err(Error::new(ErrorKind::NotFound, text))
            }
            Err(error) => Err(failed(&path, "cannot read", &error)),
            Ok(bytes) => {
                let mut this = Catalogue::of_bytes(&path, &bytes)?.0;
                this.find_whole(directory);
                Ok(this)
            }
        }
    }

    /// Completes the lives whose files became whole just before the journals ended, or were killed.
    fn find_whole(&mut self, directory: &Path) {
        for (name, lives) in &mut self.maps {
            for life in lives.iter_mut().filter(|life| life.whole_ms.is_none()) {
                let file = file_of(directory, name, life.number);
                if file.exists() {
                    let times = inspect(&file).ok().and_then(|contents| contents.times);
                    life.whole_ms = Some(times.map_or(life.begun_ms, |span| span.first_ms));
                }
            }
        }
    }

    /// The same, with the number of bytes up to the end of the last sound frame.
    fn of_bytes(path: &Path, bytes: &[u8]) -> Result<(Catalogue, usize)> {
        let mut this = Catalogue::default();
        // Its process was killed when it had just made the file.
        if bytes.len() < MAGIC.len() && MAGIC.starts_with(bytes) {
            return Ok((this, 0));
        }
        if !bytes.starts_with(MAGIC) {
            let text = format!("{}: is not the catalogue of a hold's journals", path.display());
            return Err(Error::new(ErrorKind::Damaged, text));
        }
        let (mut at, mut sound) = (MAGIC.len(), MAGIC.len());
        while at < bytes.len() {
            match frame_at(bytes, at) {
                Some(frame) => {
                    this.is_damaged |= at != sound;
                    at += frame.len();
                    sound = at;
                    this.is_damaged |= this.apply(&frame).is_none();
                }
                None => at += 8,
            }
        }
        Ok((this, sound))
    }

    /// `None` if the frame has no event that fits the ones before it.
    fn apply(&mut self, frame: &RawFrame<'_>) -> Option<()> {
        let name = std::str::from_utf8(frame.key).ok()?;
        let value =
            Some(frame.value).filter(|value| frame.code == EVENT && value.len() == VALUE)?;
        let [ms, number, kind] = [long(value, 0)?, long(value, 8)?, long(value, 16)?];
        let event = *EVENTS.get(usize::try_from(kind).ok()?)?;
        self.note(name, number, event, ms, *value.get(24..)?.first_chunk()?)
    }

    fn note(
        &mut self,
        map: &str,
        number: u64,
        event: Event,
        ms: u64,
        of: MapIdentity,
    ) -> Option<()> {
        let lives = self.maps.entry(map.to_owned()).or_default();
        if let Event::Found | Event::Created = event {
            lives.push(Life::begun(number, event, ms, of));
            return Some(());
        }
        let life = lives.iter_mut().rfind(|life| life.number == number)?;
        match event {
            Event::Whole => life.whole_ms = Some(ms),
            Event::Moved => life.of = of,
            Event::Dropped => life.dropped_ms = Some(ms),
            _ => life.is_removed = true,
        }
        Some(())
    }

    /// The life of a map that was not dropped.
    pub(crate) fn present(&self, map: &str) -> Option<&Life> {
        self.maps.get(map)?.last().filter(|life| life.is_on())
    }
}

/// Appends an event to the bytes of the file, or to those from `at` on.
fn put(
    bytes: &mut Vec<u8>,
    at: u64,
    map: &str,
    number: u64,
    (event, ms): (Event, u64),
    of: MapIdentity,
) {
    let mut value = [ms, number, event as u64].map(u64::to_le_bytes).concat();
    value.extend(of);
    wire::put(bytes, EVENT, at, map.as_bytes(), &value);
}

/// A catalogue with these lives, and nothing else.
fn bytes_of(maps: &Lives) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (name, lives) in maps {
        for life in lives {
            for event in life.events() {
                let at = bytes.len() as u64;
                put(&mut bytes, at, name, life.number, event, life.of);
            }
        }
    }
    bytes
}

fn frame_at(bytes: &[u8], at: usize) -> Option<RawFrame<'_>> {
    let rest = bytes.get(at..)?;
    let frame = RawFrame::decode(rest.get(..RawFrame::stated_length(rest)?)?)?;
    (frame.offset == at as u64).then_some(frame)
}

/// The catalogue of a running journal, which only its process writes.
#[derive(Debug)]
pub(crate) struct CatalogueWriter {
    file: File,
    path: PathBuf,
    len: u64,
    /// Whether a crash of the system cannot bring back the file that this one has replaced.
    is_in_place: bool,
    /// From this length on, it may be worthwhile to rewrite the file.
    compact_at: u64,
    pub(crate) catalogue: Catalogue,
}

impl CatalogueWriter {
    /// Opens the catalogue in this directory, or makes one.
    ///
    /// # Errors
    /// `Damaged` if events in it are lost; those of files.
    pub(crate) fn open(directory: &Path) -> Result<CatalogueWriter> {
        let path = catalogue_of(directory);
        let cannot = |error: std::io::Error| failed(&path, "cannot write", &error);
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(cannot)?;
        let bytes = std::fs::read(&path).map_err(|e| failed(&path, "cannot read", &e))?;
        let (catalogue, sound) = Catalogue::of_bytes(&path, &bytes)?;
        if catalogue.is_damaged {
            return Err(is_damaged(directory));
        }
        let (len, compact_at, path) = (sound as u64, LEAST, path.clone());
        // The previous writer may have been killed before the name of a new file was durable.
        let is_in_place = false;
        let mut this = CatalogueWriter { file, path, len, is_in_place, compact_at, catalogue };
        // Bytes that a crash left behind the end could pass for later events.
        shorten(&this.file, this.len).map_err(cannot)?;
        // The previous writer may have been killed before they were durable, or in a sync that
        // failed: after that another sync would succeed, and nothing would have been written.
        write_synced(&this.file, &this.path, &bytes[..sound], 0).map_err(cannot)?;
        if sound == 0 {
            this.append(MAGIC)?;
        }
        Ok(this)
    }

    /// Notes an event, durably.
    ///
    /// # Errors
    /// Those of files: nothing is noted.
    pub(crate) fn note(
        &mut self,
        map: &str,
        number: u64,
        event: Event,
        of: MapIdentity,
    ) -> Result<()> {
        let ms = now_ms();
        let mut frame = Vec::new();
        put(&mut frame, self.len, map, number, (event, ms), of);
        self.append(&frame)?;
        self.catalogue.note(map, number, event, ms, of);
        Ok(())
    }

    /// Begins the next life of a map.
    ///
    /// # Errors
    /// Those of files.
    pub(crate) fn begin(&mut self, map: &str, event: Event, of: MapIdentity) -> Result<Life> {
        let last = self.catalogue.maps.get(map).and_then(|lives| lives.last());
        let number = last.map_or(1, |life| life.number + 1);
        self.note(map, number, event, of)?;
        Ok(Life::begun(number, event, now_ms(), of))
    }

    /// Rewrites the file without the lives that are over for good, if it has twice the bytes that
    /// it has then; true if it did.
    ///
    /// # Errors
    /// Those of files: the catalogue stays as it was, and is rewritten when it has grown further.
    pub(crate) fn compact_if_due(&mut self, is_over: impl Fn(&str, &Life) -> bool) -> Result<bool> {
        if self.len < self.compact_at {
            return Ok(false);
        }
        let mut maps = self.catalogue.maps.clone();
        maps.retain(|name, lives| {
            lives.retain(|life| !is_over(name, life));
            !lives.is_empty()
        });
        let bytes = bytes_of(&maps);
        self.compact_at = LEAST.max(2 * bytes.len() as u64);
        if self.len < self.compact_at {
            return Ok(false);
        }
        let replaced = self.replace(&bytes);
        if replaced.is_err() {
            self.compact_at = self.len + LEAST;
        }
        replaced.map_err(|e| failed(&self.path, "cannot be rewritten", &e))?;
        self.catalogue.maps = maps;
        Ok(true)
    }

    /// Puts a file with these bytes in the place of the present one.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let draft = Draft::new(&self.path, 0o600)?;
        write_all(draft.file(), &self.path, bytes, 0)?;
        sync_data(draft.file())?;
        let placed = draft.replace()?;
        // If this fails, the next event repeats it.
        self.is_in_place = placed.sync().is_ok();
        (self.file, self.len) = (placed.into_file(), bytes.len() as u64);
        Ok(())
    }

    /// Makes the file's name durable: otherwise an event could go into a file that a crash of the
    /// system replaces by the one before it.
    fn ensure_in_place(&mut self) -> Result<()> {
        if !self.is_in_place {
            let synced = sync_directory(&self.path);
            synced.map_err(|e| failed(&self.path, "cannot sync its directory", &e))?;
            self.is_in_place = true;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.ensure_in_place()?;
        let written = write_synced(&self.file, &self.path, bytes, self.len);
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            Err(_) => drop(shorten(&self.file, self.len)),
        }
        written.map_err(|e| failed(&self.path, "cannot write", &e))
    }
}

fn write_synced(file: &File, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
    write_all(file, path, bytes, at)?;
    sync_data(file)
}

/// The error about a catalogue that has lost events.
#[cold]
pub(crate) fn is_damaged(directory: &Path) -> Error {
    let text = format!(
        "{}: this catalogue is damaged: events in it are lost; put a sound copy of it in its \
         place, or rebuild each map from its own file",
        catalogue_of(directory).display()
    );
    Error::new(ErrorKind::Damaged, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lives of maps of which most are over for good.
    fn many_lives(writer: &mut CatalogueWriter) {
        for number in 0..60u8 {
            let name = format!("map {number}");
            for event in [Event::Found, Event::Created] {
                let life = writer.begin(&name, event, [number; 32]).unwrap();
                writer.note(&name, life.number, Event::Whole, life.of).unwrap();
                if number >= 5 || event == Event::Found {
                    writer.note(&name, life.number, Event::Dropped, life.of).unwrap();
                }
                if number >= 5 {
                    writer.note(&name, life.number, Event::Removed, life.of).unwrap();
                }
            }
        }
        writer.note("map 1", 2, Event::Moved, [99; 32]).unwrap();
    }

    fn kept(maps: &Lives) -> Lives {
        let mut maps = maps.clone();
        maps.retain(|_, lives| lives.iter().all(|life| !life.is_removed));
        maps
    }

    #[test]
    fn lives_that_are_over_do_not_stay_forever() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = directory.path();
        let mut writer = CatalogueWriter::open(directory).unwrap();
        many_lives(&mut writer);
        let expected = kept(&writer.catalogue.maps);
        let len = || std::fs::metadata(catalogue_of(directory)).unwrap().len();
        let before = len();
        // Nothing is over.
        assert!(!writer.compact_if_due(|_, _| false).unwrap());
        assert_eq!(len(), before);
        writer.compact_at = LEAST;
        assert!(writer.compact_if_due(|_, life| life.is_removed).unwrap());
        assert!(len() < before / 4, "{before} bytes have become {}", len());
        let is_read = |maps: &Lives| {
            let found = Catalogue::read(directory).unwrap();
            assert_eq!((&found.maps, found.is_damaged), (maps, false));
        };
        is_read(&expected);
        // Later events follow, also those of the next writer.
        assert_eq!(writer.begin("map 1", Event::Created, [7; 32]).unwrap().number, 3);
        is_read(&writer.catalogue.maps);
        drop(writer);
        let mut writer = CatalogueWriter::open(directory).unwrap();
        assert_eq!(writer.begin("map 70", Event::Created, [7; 32]).unwrap().number, 1);
        is_read(&writer.catalogue.maps);
        assert!(!writer.compact_if_due(|_, life| life.is_removed).unwrap());
    }

    #[cfg(feature = "steps")]
    #[test]
    fn a_rewriting_that_is_killed_leaves_one_of_both() {
        use commonhold_testing::support::standstill::killed;
        let calls = ["draft.linked", "draft.replaced"];
        for call in calls {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let directory = directory.path();
            let mut writer = CatalogueWriter::open(directory).unwrap();
            many_lives(&mut writer);
            let before = writer.catalogue.maps.clone();
            killed(call, || drop(writer.compact_if_due(|_, life| life.is_removed)));
            drop(writer);
            let expected = if call == "draft.linked" { before } else { kept(&before) };
            assert_eq!(Catalogue::read(directory).unwrap().maps, expected, "{call}");
            let mut writer = CatalogueWriter::open(directory).unwrap();
            writer.begin("map 70", Event::Created, [7; 32]).unwrap();
            let _ = writer.compact_if_due(|_, life| life.is_removed).unwrap();
            let found = Catalogue::read(directory).unwrap();
            assert_eq!((&found.maps, found.is_damaged), (&writer.catalogue.maps, false));
            assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1, "{call}");
        }
    }

    /// Faults are the whole process's.
    #[cfg(feature = "steps")]
    #[test]
    fn a_rewriting_that_fails_leaves_the_catalogue_as_it_was() {
        use commonhold_testing::support::process::Child;
        let calls = [
            "journal.write:ENOSPC:always",
            "journal.fdatasync:EIO:always",
            "draft.link:EIO:always",
            "draft.sync-directory:EIO:always",
        ];
        for call in calls {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let directory = directory.path();
            let mut writer = CatalogueWriter::open(directory).unwrap();
            many_lives(&mut writer);
            Child::run(call, || {
                crate::faults::arm(call).unwrap();
                let compacted = writer.compact_if_due(|_, life| life.is_removed);
                assert_eq!(compacted.is_ok(), call.starts_with("draft.sync"), "{call}");
                crate::faults::arm("").unwrap();
                writer.begin("map 70", Event::Created, [7; 32]).unwrap();
                let found = Catalogue::read(directory).unwrap();
                assert_eq!((&found.maps, found.is_damaged), (&writer.catalogue.maps, false));
            })
            .finish();
        }
    }

    /// Its writer may have been killed before they were synced, or in a sync that failed.
    #[cfg(feature = "steps")]
    #[test]
    fn events_of_an_earlier_writer_are_written_and_synced_first() {
        use commonhold_testing::support::process::Child;
        for call in ["journal.write:EIO:always", "journal.fdatasync:EIO:always"] {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let directory = directory.path();
            let mut writer = CatalogueWriter::open(directory).unwrap();
            writer.begin("it", Event::Found, [1; 32]).unwrap();
            let before = writer.catalogue.maps.clone();
            drop(writer);
            Child::run(call, || {
                crate::faults::arm(call).unwrap();
                let error = CatalogueWriter::open(directory).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            })
            .finish();
            assert_eq!(CatalogueWriter::open(directory).unwrap().catalogue.maps, before);
        }
    }

    #[test]
    fn events_come_back_without_those_that_are_not_whole() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = directory.path();
        assert!(Catalogue::read(directory).unwrap_err().is_not_found());
        let mut writer = CatalogueWriter::open(directory).unwrap();
        let first = writer.begin("it", Event::Found, [1; 32]).unwrap();
        writer.note("it", first.number, Event::Whole, [1; 32]).unwrap();
        writer.note("it", first.number, Event::Dropped, [1; 32]).unwrap();
        let next = writer.begin("it", Event::Created, [2; 32]).unwrap();
        writer.note("it", next.number, Event::Moved, [3; 32]).unwrap();
        let found = Catalogue::read(directory).unwrap();
        assert_eq!((&found.maps, found.is_damaged), (&writer.catalogue.maps, false));
        let present = found.present("it").unwrap();
        assert_eq!((first.number, present.number, present.of), (1, 2, [3; 32]));
        assert!(present.was_created && !found.maps["it"][0].is_on());
        drop(writer);
        let path = catalogue_of(directory);
        let bytes = std::fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let mut writer = CatalogueWriter::open(directory).unwrap();
            assert!(!writer.catalogue.is_damaged);
            writer.begin("other", Event::Found, [4; 32]).unwrap();
            let found = Catalogue::read(directory).unwrap();
            assert_eq!((&found.maps, found.is_damaged), (&writer.catalogue.maps, false));
            assert!(found.present("other").is_some());
        }
        for at in 16..bytes.len() - 104 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(Catalogue::read(directory).unwrap().is_damaged, "{at}");
            let error = CatalogueWriter::open(directory).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
        std::fs::write(&path, "something else").unwrap();
        assert_eq!(Catalogue::read(directory).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
