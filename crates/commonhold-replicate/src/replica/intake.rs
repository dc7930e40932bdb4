//! The replica's side of the messages: applies changes to its map, or builds a shadow map and lets
//! that take the map's place.
//!
//! Invariant: the public map is always one that existed at the origin, or lies between two such
//! maps by changes applied in their order. A map that is being built is not public.

use crate::protocol::wire::{Broken, Note, Welcome, broken};
use crate::replica::position::{self, StoredPosition};
use crate::replica::regain::Regain;
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::stream::{ChangeKind, StreamFrame, StreamPosition};
use commonhold::{ErrorKind, Hold, Result};

/// The effect on the public map.
#[derive(Debug)]
pub(crate) enum Effect<'a> {
    /// Nothing visible.
    None,
    /// A change.
    Changed(StreamFrame<'a>),
    /// All changes at once that it may have applied before it was killed.
    Regained(Regain),
    /// The origin sent the end of its stream, and the time.
    Time { tail: u64, now_ms: u64 },
}

/// See the module.
pub(crate) struct Intake {
    hold: Hold,
    name: String,
    pub(crate) place: StoredPosition,
    /// The public map.
    map: Option<Map>,
    /// The map that is being built.
    building: Option<Map>,
    /// The position of the public map, or of the one being built.
    position: Option<StreamPosition>,
    /// The stored position.
    saved: Option<StreamPosition>,
    /// The offset at which it equals the origin's map after the connection was made, once the
    /// origin has sent it.
    end: Option<u64>,
    /// It has reached that offset.
    arrived: bool,
    /// It was killed while applying, and does not know its position yet.
    regain: Option<Regain>,
}

impl Intake {
    /// Begins where the replica was when it ended last.
    ///
    /// # Errors
    /// `Busy` if it runs already; `Mismatch` if the map is not a replica's.
    pub(crate) fn open(hold: &Hold, name: &str) -> Result<Intake> {
        let map = match hold.maps().open(name) {
            Ok(map) => Some(hold.maps().open_replica(name, map.options().clone())?),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let place = StoredPosition::take(hold, name)?;
        let position = if map.is_some() { place.applied()? } else { None };
        let (hold, name) = (hold.clone(), name.to_owned());
        let (building, saved, end, arrived) = (None, None, None, false);
        let mut this = Intake {
            hold,
            name,
            place,
            map,
            building,
            position,
            saved,
            end,
            arrived,
            regain: None,
        };
        this.look_back()?;
        Ok(this)
    }

    /// Checks whether the stored position is exact.
    fn look_back(&mut self) -> Result<()> {
        let may_be = self.place.may_be_applied()?;
        let bounds = self.position.filter(|_| self.building.is_none()).zip(may_be);
        self.regain = bounds.and_then(|(applied, may_be)| Regain::new(applied, may_be));
        Ok(())
    }

    /// Checks that the map is still there, before its position is used.
    ///
    /// # Errors
    /// Those of reading the hold.
    pub(crate) fn look(&mut self) -> Result<()> {
        match self.hold.maps().open(&self.name) {
            Err(error) if error.is_not_found() => {
                (self.map, self.position, self.saved) = (None, None, None);
                self.regain = None;
                self.place.forget()
            }
            other => other.map(drop),
        }
    }

    /// The position of the public map; `None` before it is ready, and while a new one is built.
    pub(crate) fn position(&self) -> Option<StreamPosition> {
        self.position.filter(|_| self.building.is_none())
    }

    /// The offset up to which everything was applied, to either map.
    pub(crate) fn offset(&self) -> u64 {
        self.position.map_or(0, |position| position.offset)
    }

    /// Begins with the origin's announcement.
    ///
    /// # Errors
    /// The fault of the announcement, or of the hold.
    pub(crate) fn begin(&mut self, welcome: &Welcome) -> std::result::Result<(), Broken> {
        if !welcome.whole {
            let known = self.position() == Some(welcome.position) && self.map.is_some();
            return if known {
                Ok(())
            } else {
                broken("continues at a position that this replica never had")
            };
        }
        self.build(welcome.mode).map_err(failed)?;
        self.regain = None;
        self.position = Some(welcome.position);
        Ok(())
    }

    fn build(&mut self, mode: MapMode) -> Result<()> {
        let (options, next) = (MapOptions::from(mode), position::next_name(&self.name));
        let map = if self.has_another_mode(mode) {
            // The public map stays, also if the new one cannot be made or is never complete.
            self.hold.maps().drop(&next)?;
            self.hold.maps().open_replica(&next, options)?
        } else {
            self.map = Some(self.hold.maps().open_replica(&self.name, options)?);
            commonhold::raw::create_shadow_map(&self.hold, &next, &self.name)?
        };
        self.building = Some(map);
        Ok(())
    }

    fn has_another_mode(&self, mode: MapMode) -> bool {
        self.map.as_ref().is_some_and(|map| map.options().mode() != mode)
    }

    /// Called when the connection has ended: drops the map that is being built.
    pub(crate) fn abandon(&mut self) {
        // The next connection may fail before the origin has announced anything.
        (self.end, self.arrived) = (None, false);
        if self.building.take().is_some() {
            // If it stays, the next building drops it.
            let _ = self.hold.maps().drop(&position::next_name(&self.name));
            self.position = self.place.applied().ok().flatten();
        } else if self.regain.is_none() {
            return;
        }
        // A position that cannot be read now cannot be written either: then nothing continues.
        let _ = self.look_back();
    }

    /// Stores that it may apply up to `bytes` bytes from here.
    pub(crate) fn announce(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 || self.regain.is_some() {
            return Ok(());
        }
        let Some(position) = self.position() else { return Ok(()) };
        // The origin may have sent any position.
        let offset = position.offset.saturating_add(bytes as u64);
        // Stored again even if none of it is applied.
        self.saved = None;
        self.place.applying(StreamPosition { offset, ..position })
    }

    /// Stores its position, and that it applies nothing more for now.
    pub(crate) fn save_position(&mut self) -> Result<()> {
        let unsaved = self.regain.is_none() && self.saved != self.position;
        let Some(position) = self.position().filter(|_| unsaved) else {
            return Ok(());
        };
        self.place.reached(position)?;
        self.place.applying(position)?;
        self.saved = Some(position);
        Ok(())
    }

    /// Applies one frame.
    ///
    /// # Errors
    /// The fault of the frame, or of the hold.
    pub(crate) fn take<'a>(
        &mut self,
        frame: &RawFrame<'a>,
    ) -> std::result::Result<Effect<'a>, Broken> {
        let expected = self.regain.as_ref().and_then(Regain::end).unwrap_or(self.offset());
        let Some(position) = self.position.filter(|_| expected == frame.offset) else {
            return broken(format!("sent offset {} after {expected}", frame.offset));
        };
        if let Some(change) = frame.change() {
            return self.change(position, change);
        }
        match (Note::read(frame), &mut self.building) {
            (Some(Note::Time { tail, now_ms }), _) => return Ok(Effect::Time { tail, now_ms }),
            (Some(Note::Pair), Some(map)) if self.end.is_none() => {
                map.set(frame.key, frame.value).map_err(failed)?;
            }
            (Some(Note::Complete { end }), _) if self.end.is_none() => {
                self.end = Some(end.max(position.offset));
            }
            _ => return broken(format!("sent an unexpected frame (code {:#x})", frame.code)),
        }
        Ok(Effect::None)
    }

    fn change<'a>(
        &mut self,
        position: StreamPosition,
        change: StreamFrame<'a>,
    ) -> std::result::Result<Effect<'a>, Broken> {
        if change.kind == ChangeKind::Gap {
            // Only the whole map helps.
            self.place.forget().map_err(failed)?;
            self.position = None;
            return broken(
                "has a change that is too large for its stream; requesting the whole map",
            );
        }
        if let Some(regain) = &mut self.regain {
            if !regain.collect(&change) {
                return Ok(Effect::None);
            }
            let effect = self.regained().map_err(failed)?;
            self.position = Some(StreamPosition { offset: change.end, ..position });
            return Ok(effect);
        }
        if let Some(map) = self.building.as_ref().or(self.map.as_ref())
            && let Err(error) = map.apply_frame(&change)
        {
            if error.is_not_found() {
                // The map was dropped, and perhaps created again by others: begin again.
                (self.map, self.position) = (None, None);
                self.place.forget().map_err(failed)?;
            }
            return Err(failed(error));
        }
        self.position = Some(StreamPosition { offset: change.end, ..position });
        match self.building {
            None => Ok(Effect::Changed(change)),
            Some(_) => Ok(Effect::None),
        }
    }

    /// Called when all changes that it may have applied before it was killed are collected: finds
    /// the position that it had, and applies the rest.
    fn regained<'a>(&mut self) -> Result<Effect<'a>> {
        let (Some(regain), Some(map)) = (self.regain.take(), &self.map) else {
            return Ok(Effect::None);
        };
        match regain.finish(map) {
            Ok(()) => Ok(Effect::Regained(regain)),
            Err(error) => self.look_back().and(Err(error)),
        }
    }

    /// True if changes go into the public map, so that their range has to be stored before.
    pub(crate) fn is_visible(&self) -> bool {
        self.building.is_none() && self.regain.is_none()
    }

    /// Whether it has arrived by this connection.
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// True once for each connection: when the map equals the origin's map after the connection was
    /// made. A map that was built becomes the public one then.
    ///
    /// # Errors
    /// Those of the hold.
    pub(crate) fn arrive(&mut self) -> std::result::Result<bool, Broken> {
        let known = !self.arrived && self.regain.is_none();
        let Some(position) = self.position.filter(|_| known) else { return Ok(false) };
        if self.end.is_none_or(|end| position.offset < end) {
            return Ok(false);
        }
        if self.building.is_some() {
            self.succeed(position).map_err(failed)?;
        }
        self.arrived = true;
        Ok(true)
    }

    fn succeed(&mut self, position: StreamPosition) -> Result<()> {
        let next = position::next_name(&self.name);
        if let Some(bytes) = self.stream_bytes()? {
            self.hold.maps().begin_stream(&next, bytes)?;
        }
        // If it is killed behind this, the replica begins again: better than with a position that
        // its map is ahead of.
        self.place.forget()?;
        let mode = self.building.as_ref().map(|map| map.options().mode());
        if let Some(mode) = mode.filter(|mode| self.has_another_mode(*mode)) {
            // A map of another mode cannot take its place under its readers: they have to open it
            // again.
            self.hold.maps().drop(&self.name)?;
            self.map = Some(self.hold.maps().open_replica(&self.name, MapOptions::from(mode))?);
        }
        commonhold::raw::swap_in_shadow_map(&self.hold, &next, &self.name)?;
        self.map = self.building.take();
        self.place.applying(position)?;
        self.place.reached(position)
    }

    /// The size of the public map's stream, if it has one: the shadow map's stream has the same.
    fn stream_bytes(&self) -> Result<Option<u64>> {
        match self.hold.maps().open(&self.name)?.follow() {
            Ok(follower) => Ok(Some(follower.lag_bytes()?.1)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn failed(error: commonhold::Error) -> Broken {
    Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire;

    /// The offset of one of some changes of one pair.
    fn offset(number: u64) -> u64 {
        number * 48
    }

    /// Takes a change; returns the beginnings and ends of the changes that are shown then.
    fn take(intake: &mut Intake, number: u64) -> Vec<(u64, u64)> {
        let (code, value) = (ChangeKind::Set as u32, number.to_string());
        let (key, value, offset) = (&b"key"[..], value.as_bytes(), offset(number));
        let frame = RawFrame { code, key, value, expires_ms: 0, offset };
        match intake.take(&frame).unwrap() {
            Effect::Changed(change) => vec![(change.offset, change.end)],
            Effect::Regained(regain) => {
                regain.changes().map(|change| (change.offset, change.end)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn places(numbers: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        numbers.map(|number| (offset(number), offset(number + 1))).collect()
    }

    fn say(intake: &mut Intake, note: impl FnOnce(&mut Vec<u8>)) {
        let mut words = Vec::new();
        note(&mut words);
        intake.take(&RawFrame::decode(&words).unwrap()).unwrap();
    }

    /// An earlier arrival does not count as one by a later connection that fails.
    #[test]
    fn each_connection_arrives_once() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let mut intake = Intake::open(&hold, "it").unwrap();
        let (position, mode) = (StreamPosition { stream: 7, offset: 0 }, MapMode::General);
        let (proof, name) = (Vec::new(), "it".to_owned());
        intake.begin(&Welcome { proof, position, whole: true, mode, name }).unwrap();
        say(&mut intake, |words| wire::put_complete(words, 0, 0));
        assert!(intake.arrive().unwrap() && intake.has_arrived());
        intake.abandon();
        assert!(!intake.has_arrived() && !intake.arrive().unwrap());
    }

    /// The stored positions: it had applied two changes, and might apply six; it had applied four.
    #[test]
    fn a_killed_replica_shows_nothing_older_when_it_resumes() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
        let at = |number| StreamPosition { stream: 7, offset: offset(number) };
        let mut intake = Intake::open(&hold, "it").unwrap();
        intake.position = Some(at(0));
        for number in 0..4 {
            assert_eq!(take(&mut intake, number), places(number..number + 1));
        }
        intake.place.reached(at(2)).unwrap();
        intake.place.applying(at(6)).unwrap();
        drop(intake);

        let mut intake = Intake::open(&hold, "it").unwrap();
        for interrupted in [true, false] {
            for number in 2..5 {
                assert_eq!(intake.position(), Some(at(2)), "it does not know of more yet");
                let shown = take(&mut intake, number);
                assert!(shown.is_empty(), "the map has not {shown:?} yet");
                assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"3"[..]), "after {number}");
            }
            if interrupted {
                intake.abandon();
            }
        }
        assert_eq!(take(&mut intake, 5), places(2..6));
        assert_eq!(intake.position(), Some(at(6)));
        assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"5"[..]));
    }
}
