//! The catalogue of a directory with the journals of all maps of a hold: which maps there were at
//! which times, and which file has each.
//!
//! A *life* of a map lasts until the map is dropped. A later map of the same name has another life,
//! and another file. So the file of a dropped map stays, and its states can be restored.
//!
//! The catalogue is a file of 16 bytes that identify it, and frames, to which events are only
//! appended. The offset of each frame is its place in the file. A part at the end that is not sound
//! never became durable. An unsound part before sound frames was damaged later.

use crate::journal::file::{failed, shorten, sync_data, sync_directory, write_all};
use crate::journal::inspect;
use crate::journal::map_files::file_name;
use crate::protocol::wire::{self, long, now_ms};
use commonhold::raw::{MapIdentity, RawFrame};
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

    /// Whether its map was one of this hold.
    pub(crate) fn is_in(&self, hold: [u8; 16]) -> bool {
        self.of[..16] == hold
    }
}

/// The lives of all maps, by name, each in order.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) maps: BTreeMap<String, Vec<Life>>,
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
        let mut this = CatalogueWriter { file, path: path.clone(), len: sound as u64, catalogue };
        // Bytes that a crash left behind the end could pass for later events.
        shorten(&this.file, this.len).map_err(cannot)?;
        if sound == 0 {
            this.append(MAGIC)?;
            sync_directory(&path).map_err(cannot)?;
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
        let mut value = [ms, number, event as u64].map(u64::to_le_bytes).concat();
        value.extend(of);
        let mut frame = Vec::new();
        wire::put(&mut frame, EVENT, self.len, map.as_bytes(), &value);
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

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = write_all(&self.file, bytes, self.len).and_then(|()| sync_data(&self.file));
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            Err(_) => drop(shorten(&self.file, self.len)),
        }
        written.map_err(|e| failed(&self.path, "cannot write", &e))
    }
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
