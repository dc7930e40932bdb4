//! The replica's side of the messages: applies changes to its map, or builds a shadow map and lets
//! that take the map's place.
//!
//! Invariant: the public map is always one that existed at the origin, or lies between two such
//! maps by changes applied in their order. A map that is being built is not public.

use crate::origin_clock::{OriginClock, has_expiry};
use crate::protocol::introduction::Introduction;
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::packed::{SyncBytes, unpack};
use crate::protocol::skip::Skip;
use crate::protocol::wire::{Broken, Note, Welcome, broken, capability};
use crate::replica::pin::Pin;
use crate::replica::position::StoredPosition;
use crate::replica::regain::Regain;
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::raw::{
    Proof, RawFrame, begin_stream_at, create_unready_map, is_unready, next_name, open_unready_map,
    proof_at, replay_frame, set_until,
};
use commonhold::stream::{ChangeKind, StreamFrame, StreamPosition};
use commonhold::{Error, ErrorKind, Hold, Result};

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
    Time { tail: u64, as_of_ms: u64 },
}

/// See the module.
pub(crate) struct Intake {
    hold: Hold,
    name: String,
    pub(crate) place: StoredPosition,
    pub(crate) pin: Pin,
    /// The public map.
    map: Option<Map>,
    /// The map that is being built.
    building: Option<Map>,
    /// The position of the public map, or of the one being built.
    position: Option<StreamPosition>,
    /// The last change before it, if that is known.
    proof: Option<Proof>,
    /// The clock by which the pairs of a cache expire.
    clock: OriginClock,
    /// Whether the connection may bring compressed blocks.
    unpacks: bool,
    /// Bytes of pairs since they were taken.
    sync_bytes: SyncBytes,
    /// The stored position.
    saved: Option<StreamPosition>,
    /// The offset at which it equals the origin's map after the connection was made, once the
    /// origin has sent it.
    end: Option<u64>,
    /// It has reached that offset.
    arrived: bool,
    /// It was killed while applying, and does not know its position yet.
    regain: Option<Regain>,
    /// Its map was promoted, so that it has nothing left to do.
    promoted: bool,
    /// The shadow map has taken the place, and [`claim`](Self::claim) has not succeeded yet.
    is_unclaimed: bool,
}

impl Intake {
    /// Begins where the replica was when it ended last, with the keys of a prefix.
    ///
    /// # Errors
    /// `Busy` if it runs already; `Mismatch` if the map is not a replica's, or has the keys of
    /// another prefix.
    pub(crate) fn open(hold: &Hold, name: &str, prefix: &KeyPrefix) -> Result<Intake> {
        // Before there is a map: without the slot, it would seem to be half rebuilt from a journal.
        // And before it is opened: another process may promote it, or put another in its place.
        let place = StoredPosition::take(hold, name)?;
        let map = match open_unready_map(hold, name) {
            Ok(map) => hold.maps().open_replica(name, map.options().clone())?,
            // From now on nobody makes an ordinary map of this name.
            Err(error) if error.is_not_found() => {
                create_unready_map(hold, name, MapOptions::general())?
            }
            Err(error) => return Err(error),
        };
        if !place.is_of(&map)? {
            place.forget()?;
            place.note_replaced(None)?;
            place.belongs_to(&map)?;
        }
        let position = place.applied()?.filter(|_| !is_unready(&map));
        let pin = Pin::open(hold, &map, prefix)?;
        let (hold, name) = (hold.clone(), name.to_owned());
        let (building, saved, proof, regain, end) = (None, None, None, None, None);
        let map = Some(map);
        let mut this = Intake {
            hold,
            name,
            place,
            pin,
            map,
            building,
            position,
            proof,
            clock: OriginClock::default(),
            unpacks: false,
            sync_bytes: SyncBytes::default(),
            saved,
            end,
            arrived: false,
            regain,
            promoted: false,
            is_unclaimed: false,
        };
        this.align()?;
        this.look_back()?;
        Ok(this)
    }

    /// Gives the map a stream with the origin's positions, unless it has a stream.
    ///
    /// # Errors
    /// Those of beginning a stream.
    pub(crate) fn begin_stream(&self, bytes: u64) -> Result<()> {
        match self.position().filter(|_| self.regain.is_none()) {
            Some(position) => begin_stream_at(&self.hold, &self.name, bytes, position),
            None => self.hold.maps().begin_stream(&self.name, bytes),
        }
        .map(drop)
    }

    /// If the map has a stream with the origin's positions, its end is the position.
    fn align(&mut self) -> Result<()> {
        let (Some(position), Some(own)) = (self.position, self.own_end()?) else { return Ok(()) };
        if own.stream != position.stream {
            return Ok(());
        }
        let most = self.place.may_be_applied()?.map_or(position, |(most, _)| most).offset;
        if !(position.offset..=most.max(position.offset)).contains(&own.offset) {
            self.position = None;
            return self.place.forget();
        }
        let proof = match own == position {
            true => self.place.proof(own)?,
            false => self.map.as_ref().map_or(Ok(None), |map| proof_at(map.follow()?, own))?,
        };
        self.place.reached(own, proof)?;
        self.place.applying(own, proof)?;
        self.position = Some(own);
        Ok(())
    }

    /// The end of the public map's stream, if it has one.
    fn own_end(&self) -> Result<Option<StreamPosition>> {
        let Some(map) = &self.map else { return Ok(None) };
        match map.follow() {
            Ok(follower) => follower.end().map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks whether the stored position is exact.
    fn look_back(&mut self) -> Result<()> {
        let may_be = self.place.may_be_applied()?;
        let bounds = self.position.filter(|_| self.building.is_none()).zip(may_be);
        self.regain = bounds.and_then(|(applied, may_be)| Regain::new(applied, may_be));
        self.proof = self.position.map_or(Ok(None), |position| self.place.proof(position))?;
        Ok(())
    }

    /// Checks that the map is still there, before its position is used.
    ///
    /// # Errors
    /// `Mismatch` if it is no longer a replica; those of reading the hold.
    pub(crate) fn look(&mut self) -> Result<()> {
        match open_unready_map(&self.hold, &self.name) {
            Ok(map) if !map.is_replica() => {
                self.promoted = true;
                let text = format!(
                    "map '{}' is no longer a replica, because it was promoted or created again; to \
                     make it one, drop it and start the replica again",
                    self.name
                );
                Err(Error::new(ErrorKind::Mismatch, text))
            }
            Err(error) if error.is_not_found() => {
                (self.map, self.position, self.saved) = (None, None, None);
                self.regain = None;
                self.place.forget()
            }
            other => other.map(drop),
        }
    }

    /// Whether the map was promoted: then the replica has nothing left to do.
    pub(crate) fn is_promoted(&self) -> bool {
        self.promoted
    }

    /// The last change before [`position`](Self::position), if it is known.
    pub(crate) fn proof(&self) -> Option<Proof> {
        self.proof.filter(|_| self.position().is_some())
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
    pub(crate) fn begin(
        &mut self,
        welcome: &Welcome,
        origin: &Introduction,
    ) -> std::result::Result<(), Broken> {
        // At once: every later moment would make pairs live longer.
        self.clock = OriginClock::showing(&self.hold, origin.clock_ms);
        self.place.note_clock(self.clock).map_err(failed)?;
        self.unpacks = origin.capabilities & capability::PACKED != 0;
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
        (self.position, self.proof) = (Some(welcome.position), origin.proof);
        Ok(())
    }

    fn build(&mut self, mode: MapMode) -> Result<()> {
        let (options, next) = (MapOptions::from(mode), next_name(&self.name));
        if self.has_another_mode(mode) && self.map.as_ref().is_some_and(is_unready) {
            // Nobody reads it yet.
            self.replace(mode)?;
        }
        let map = if self.has_another_mode(mode) {
            // The public map stays, also if the new one cannot be made or is never complete.
            self.hold.maps().drop(&next)?;
            self.hold.maps().open_replica(&next, options)?
        } else {
            self.map = Some(create_unready_map(&self.hold, &self.name, options)?);
            commonhold::raw::create_shadow_map(&self.hold, &next, &self.name)?
        };
        self.building = Some(map);
        Ok(())
    }

    /// Drops the public map for one of another mode, without contents.
    fn replace(&mut self, mode: MapMode) -> Result<()> {
        let bytes = self.stream_bytes()?;
        if let Some(map) = &self.map {
            self.pin.leaves(map)?;
        }
        self.hold.maps().drop(&self.name)?;
        let map = create_unready_map(&self.hold, &self.name, MapOptions::from(mode))?;
        if let Some(bytes) = bytes {
            self.hold.maps().begin_stream(&self.name, bytes)?;
        }
        self.pin.moves(&map, &map)?;
        self.map = Some(map);
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
            let _ = self.hold.maps().drop(&next_name(&self.name));
            self.position = self.place.applied().ok().flatten();
        } else if self.regain.is_none() {
            return;
        }
        // A position that cannot be read now cannot be written either: then nothing continues.
        let _ = self.look_back();
    }

    /// Stores that it may apply this number of bytes from here, up to this change.
    pub(crate) fn announce(&mut self, (bytes, last): (u64, Option<Proof>)) -> Result<()> {
        if bytes == 0 || self.regain.is_some() {
            return Ok(());
        }
        let Some(position) = self.position() else { return Ok(()) };
        // The origin may have sent any position.
        let offset = position.offset.saturating_add(bytes);
        // Stored again even if none of it is applied.
        self.saved = None;
        self.place.applying(StreamPosition { offset, ..position }, last)
    }

    /// Stores its position, and that it applies nothing more for now.
    ///
    /// # Errors
    /// `Mismatch` if the map's own stream has other positions than the origin's by now; those of
    /// the hold.
    pub(crate) fn save_position(&mut self) -> Result<()> {
        let unsaved = self.regain.is_none() && self.saved != self.position;
        let Some(position) = self.position().filter(|_| unsaved) else {
            return Ok(());
        };
        self.ensure_aligned(position)?;
        self.claim()?;
        self.place.reached(position, self.proof)?;
        self.place.applying(position, self.proof)?;
        self.saved = Some(position);
        Ok(())
    }

    /// Replicas of this map know the origin's positions. They differ from its stream's after a
    /// change that is too large for its stream, and not for the origin's.
    fn ensure_aligned(&mut self, position: StreamPosition) -> Result<()> {
        let own = self.map.as_ref().and_then(|map| map.follow().ok()).map(|own| own.position());
        if own.is_none_or(|own| own.stream != position.stream || own == position) {
            return Ok(());
        }
        self.position = None;
        self.place.forget()?;
        let text = format!(
            "the stream of map '{}' is too small for the origin's changes; requesting the whole \
             map",
            self.name
        );
        Err(Error::new(ErrorKind::Mismatch, text))
    }

    /// Applies one frame, which has this checksum.
    ///
    /// # Errors
    /// The fault of the frame, or of the hold.
    pub(crate) fn take<'a>(
        &mut self,
        frame: &RawFrame<'a>,
        sum: u32,
    ) -> std::result::Result<Effect<'a>, Broken> {
        let expected = self.regain.as_ref().and_then(Regain::end).unwrap_or(self.offset());
        let Some(position) = self.position.filter(|_| expected == frame.offset) else {
            return broken(format!("sent offset {} after {expected}", frame.offset));
        };
        if let Some(change) = frame.change() {
            return self.change(position, change, sum);
        }
        if !self.pin.prefix().is_of_all()
            && let Some(skip) = Skip::read(frame)?
        {
            return self.skip(position, skip);
        }
        match (Note::read(frame), &mut self.building) {
            (Some(Note::Time { tail, as_of_ms }), _) => return Ok(Effect::Time { tail, as_of_ms }),
            (Some(Note::Pair), Some(map)) if self.end.is_none() => {
                store(map, frame, self.clock).map_err(failed)?;
                let bytes = frame.len();
                self.sync_bytes.add(bytes, bytes);
            }
            (Some(Note::Packed), Some(map)) if self.end.is_none() && self.unpacks => {
                let mut pairs = unpack(frame.value)?;
                while let Some(pair) = pairs.next_pair(position.offset)? {
                    store(map, &pair, self.clock).map_err(failed)?;
                }
                self.sync_bytes.add(pairs.len(), frame.len());
            }
            (Some(Note::Complete { end }), _) if self.end.is_none() => {
                self.end = Some(end.max(position.offset));
            }
            _ => return broken(format!("sent an unexpected frame (code {:#x})", frame.code)),
        }
        Ok(Effect::None)
    }

    /// Bytes of pairs since the last call.
    pub(crate) fn take_sync_bytes(&mut self) -> SyncBytes {
        std::mem::take(&mut self.sync_bytes)
    }

    fn change<'a>(
        &mut self,
        position: StreamPosition,
        change: StreamFrame<'a>,
        sum: u32,
    ) -> std::result::Result<Effect<'a>, Broken> {
        if change.kind == ChangeKind::Gap {
            // Only the whole map helps.
            self.place.forget().map_err(failed)?;
            self.position = None;
            return broken(
                "has a change that is too large for its stream; requesting the whole map",
            );
        }
        let bytes = u32::try_from(change.end - change.offset).unwrap_or(0);
        let proof = Some(Proof { bytes, sum });
        if let Some(regain) = &mut self.regain {
            if !regain.collect(&change) {
                return Ok(Effect::None);
            }
            if !regain.is_of(&change, proof) {
                return self.leave_history();
            }
            let effect = self.regained().map_err(failed)?;
            self.position = Some(StreamPosition { offset: change.end, ..position });
            self.proof = proof;
            return Ok(effect);
        }
        if let Some(map) = self.building.as_ref().or(self.map.as_ref())
            && let Err(error) = replay_frame(map, &change, self.clock.in_hold(change.expires_ms))
        {
            if error.is_not_found() {
                // The map was dropped, and perhaps created again by others: begin again.
                (self.map, self.position) = (None, None);
                self.place.forget().map_err(failed)?;
            }
            return Err(failed(error));
        }
        self.position = Some(StreamPosition { offset: change.end, ..position });
        self.proof = proof;
        match self.building {
            None => Ok(Effect::Changed(change)),
            Some(_) => Ok(Effect::None),
        }
    }

    /// Moves its position past changes that it does not want.
    fn skip<'a>(
        &mut self,
        position: StreamPosition,
        skip: Skip,
    ) -> std::result::Result<Effect<'a>, Broken> {
        if let Some(regain) = &mut self.regain {
            let goes_on = regain.pass_over(skip.to);
            return if goes_on { Ok(Effect::None) } else { self.leave_history() };
        }
        self.position = Some(StreamPosition { offset: skip.to, ..position });
        self.proof = Some(skip.last);
        Ok(Effect::None)
    }

    /// Called if it was killed while it applied another history than the origin's.
    fn leave_history<T>(&mut self) -> std::result::Result<T, Broken> {
        (self.regain, self.position) = (None, None);
        self.place.forget().map_err(failed)?;
        broken(
            "has other changes than those that this replica was applying when it was killed; \
             requesting the whole map",
        )
    }

    /// Called when all changes that it may have applied before it was killed are collected: finds
    /// the position that it had, and applies the rest.
    fn regained<'a>(&mut self) -> Result<Effect<'a>> {
        let (Some(regain), Some(map)) = (self.regain.take(), &self.map) else {
            return Ok(Effect::None);
        };
        match regain.finish(map, &self.hold, self.clock) {
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
        let next = next_name(&self.name);
        if let Some(bytes) = self.stream_bytes()? {
            self.begin_stream_of(&next, bytes, position)?;
        }
        self.note_replaced(position)?;
        // If it is killed behind this, the replica begins again: better than with a position that
        // its map is ahead of.
        self.saved = None;
        self.place.forget()?;
        let mode = self.building.as_ref().map(|map| map.options().mode());
        if let Some(mode) = mode.filter(|mode| self.has_another_mode(*mode)) {
            // A map of another mode cannot take its place under its readers: they have to open it
            // again.
            self.replace(mode)?;
        }
        if let (Some(map), Some(next)) = (&self.map, &self.building) {
            self.pin.moves(map, next)?;
        }
        commonhold::raw::swap_in_shadow_map(&self.hold, &next, &self.name)?;
        self.map = self.building.take();
        self.is_unclaimed = true;
        self.claim()?;
        self.place.applying(position, self.proof)?;
        self.place.reached(position, self.proof)
    }

    /// Notes whether the shadow map, which has come to this position, has all changes of the public
    /// map: the origin may have an earlier state, and positions of different streams cannot be
    /// compared.
    fn note_replaced(&self, position: StreamPosition) -> Result<()> {
        let old = self.map.as_ref().and_then(|map| map.follow().ok());
        let old = old.map(|follower| follower.position().stream);
        let most = self.place.may_be_applied()?.map(|(most, _)| most);
        let has_all = most
            .is_some_and(|most| most.stream == position.stream && most.offset <= position.offset);
        match old.filter(|_| has_all) {
            // The earlier note is still true.
            Some(old) if old == position.stream => Ok(()),
            Some(old) => self.place.note_replaced(Some((old, position.stream))),
            None => self.place.note_replaced(None),
        }
    }

    /// Begins the shadow map's stream, with the origin's positions if it gets all of the changes.
    fn begin_stream_of(&self, next: &str, bytes: u64, position: StreamPosition) -> Result<()> {
        match self.pin.prefix().is_of_all() {
            true => begin_stream_at(&self.hold, next, bytes, position).map(drop),
            false => self.hold.maps().begin_stream(next, bytes).map(drop),
        }
    }

    /// Notes that its record and its positions belong to the map that has taken the place.
    fn claim(&mut self) -> Result<()> {
        if let Some(map) = self.map.as_ref().filter(|_| self.is_unclaimed) {
            self.pin.moves(map, map)?;
            self.place.belongs_to(map)?;
        }
        self.is_unclaimed = false;
        Ok(())
    }

    /// The size of the public map's stream, if it has one: the shadow map's stream has the same.
    fn stream_bytes(&self) -> Result<Option<u64>> {
        match open_unready_map(&self.hold, &self.name)?.follow() {
            Ok(follower) => Ok(Some(follower.lag_bytes()?.1)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Stores a pair of the full sync.
fn store(map: &Map, frame: &RawFrame<'_>, clock: OriginClock) -> Result<()> {
    if has_expiry(map) {
        return set_until(map, frame.key, frame.value, clock.in_hold(frame.expires_ms));
    }
    map.set(frame.key, frame.value).map(drop)
}

fn failed(error: commonhold::Error) -> Broken {
    Broken(error.to_string())
}

#[cfg(test)]
mod tests;
