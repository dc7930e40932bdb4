//! The maps that an origin of a whole hold serves: found by name, each with an origin of its own.
//!
//! Invariant: no lock is held while an origin starts or ends, which may take long.

use crate::holds::ending::Ending;
use crate::holds::feed::Names;
use crate::holds::missing::dropped;
use crate::holds::origin::{HoldOriginOptions, ServedMap};
use crate::holds::patterns::Patterns;
use crate::holds::peer::Peer;
use crate::origin::handshake::Greeted;
use crate::origin::notices::Notices;
use crate::origin::subscriber_table::{InCommon, Known};
use crate::origin::{Notice, Origin, OriginOptions};
use commonhold::raw::map_names;
use commonhold::{Hold, Result};
use commonhold_io::thread_patience::with_patience;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long starting one origin may wait for a stopped process.
const PATIENCE: Duration = Duration::from_secs(1);
/// When an origin that could not start is started again.
const AGAIN: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct ServedMaps {
    pub(super) hold: Hold,
    pub(super) options: OriginOptions,
    pub(super) in_common: InCommon,
    pub(super) notices: Arc<Notices>,
    pub(super) ending: Ending,
    patterns: Patterns,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    maps: BTreeMap<String, Place>,
    /// The names of all of them, and the number of changes of the names.
    names: Names,
    /// The reason why the names cannot be read.
    fault: Option<String>,
}

impl State {
    /// Makes the list of names again, with another number.
    fn renumber(&mut self) {
        self.names = (self.names.0 + 1, Arc::new(self.maps.keys().cloned().collect()));
    }
}

/// A map of the hold.
enum Place {
    Served(Origin),
    /// Why it cannot be served, and when that is tried again.
    Failed(String, Instant),
}

impl ServedMaps {
    /// # Errors
    /// `Invalid` for bad options; `Io`.
    pub(super) fn new(hold: &Hold, options: HoldOriginOptions) -> Result<ServedMaps> {
        let patterns = Patterns::new(&options.maps)?;
        let options = options.origin;
        options.threads()?;
        let notices = Arc::new(Notices::to(options.notice.clone()));
        let (hold, ending, state) = (hold.clone(), Ending::new()?, Mutex::default());
        let in_common = InCommon::default();
        Ok(ServedMaps { hold, options, in_common, notices, ending, patterns, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the origins of maps that are gone, and starts those of new maps.
    pub(super) fn scan(&self) {
        let names = match map_names(&self.hold) {
            Ok(names) => names.into_iter().filter(|name| self.patterns.accept(name)).collect(),
            Err(error) => return self.complain(error.to_string()),
        };
        self.lock().fault = None;
        self.forget_others(&names);
        for name in self.unserved(names, Instant::now()) {
            if self.ending.is_over() {
                return;
            }
            self.begin(name);
        }
    }

    #[cold]
    fn complain(&self, why: String) {
        if self.lock().fault.replace(why.clone()).is_none_or(|before| before != why) {
            self.notices.note(&format!("cannot read which maps there are: {why}; retrying"));
        }
    }

    fn forget_others(&self, names: &BTreeSet<String>) {
        let known: BTreeSet<String> = self.lock().maps.keys().cloned().collect();
        let missing = known.difference(names).cloned().collect();
        let gone = dropped(&self.hold, &self.ending, missing, String::as_str);
        let mut state = self.lock();
        let gone: Vec<_> = state.maps.extract_if(.., |name, _| gone.contains(name)).collect();
        if !gone.is_empty() {
            state.renumber();
        }
        drop(state);
        // Their origins end here.
        for (name, _) in gone {
            self.notices.note(&format!("map '{name}': was dropped"));
        }
    }

    /// The maps whose origins have to be started.
    fn unserved(&self, names: BTreeSet<String>, now: Instant) -> Vec<String> {
        let state = self.lock();
        let is_due = |name: &String| match state.maps.get(name) {
            None => true,
            Some(Place::Served(_)) => false,
            Some(Place::Failed(_, again)) => now >= *again,
        };
        names.into_iter().filter(is_due).collect()
    }

    fn begin(&self, name: String) {
        let options = OriginOptions { notice: Some(self.notice_of(&name)), ..self.options.clone() };
        let start = || Origin::start_among(&self.hold, &name, options, self.in_common.clone());
        let place = match with_patience(PATIENCE, start) {
            Ok(origin) => Place::Served(origin),
            // The next scan finds out.
            Err(error) if error.is_not_found() => return,
            Err(error) => Place::Failed(error.to_string(), Instant::now() + AGAIN),
        };
        let why = match &place {
            Place::Failed(why, _) => Some(why.clone()),
            Place::Served(_) => None,
        };
        let mut state = self.lock();
        if self.ending.is_over() {
            // The others have ended, or end now. This one ends outside the lock.
            drop(state);
            return drop(place);
        }
        let before = state.maps.insert(name.clone(), place);
        if before.is_none() {
            state.renumber();
        }
        drop(state);
        let is_known =
            matches!(&before, Some(Place::Failed(text, _)) if Some(text) == why.as_ref());
        if let Some(why) = why.filter(|_| !is_known) {
            self.notices.note(&format!("map '{name}': cannot be served: {why}; retrying"));
        }
    }

    /// The callback of the origin of one map.
    fn notice_of(&self, name: &str) -> Notice {
        let (notices, name) = (Arc::clone(&self.notices), name.to_owned());
        Arc::new(move |text: &str| notices.note(&format!("map '{name}': {text}")))
    }

    /// The names of the maps and the number of this list, unless it is the list of this number.
    pub(super) fn names_unless(&self, version: Option<u64>) -> Option<Names> {
        let state = self.lock();
        (version != Some(state.names.0)).then(|| state.names.clone())
    }

    /// Passes the connection of a peer that has identified itself to the origin of a map.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn pass(
        &self,
        map: &str,
        peer: Peer,
        greeted: Greeted,
    ) -> std::result::Result<(), Unserved> {
        let state = self.lock();
        let why = match state.maps.get(map) {
            Some(Place::Served(origin)) => {
                let Peer { socket, name, inbox, words, .. } = peer;
                let known = Known { greeted, inbox, words };
                return origin.serve_known(name, socket, known).map_err(Unserved::NoPlace);
            }
            Some(Place::Failed(why, _)) => format!("cannot serve the map '{map}': {why}"),
            None => format!(
                "does not serve a map '{map}': there is no such map, or the origin's patterns \
                 (--maps) exclude it"
            ),
        };
        Err(Unserved::Map(Box::new(peer), why))
    }

    /// All maps, as of now.
    pub(super) fn all(&self) -> Vec<ServedMap> {
        let served = |(name, place): (&String, &Place)| {
            let (error, replicas) = match place {
                Place::Served(origin) => (None, origin.replicas()),
                Place::Failed(why, _) => (Some(why.clone()), Vec::new()),
            };
            ServedMap { name: name.clone(), error, replicas }
        };
        self.lock().maps.iter().map(served).collect()
    }

    /// Ends all origins, which send all changes before, at most for `time`.
    pub(super) fn finish(&self, time: Duration) {
        let maps = std::mem::take(&mut self.lock().maps);
        let by = Instant::now().checked_add(time);
        let mut origins: Vec<_> = maps
            .into_values()
            .filter_map(|place| match place {
                Place::Served(origin) => Some(origin),
                Place::Failed(..) => None,
            })
            .collect();
        // All at the same time, and then the threads that watch the streams.
        origins.iter().for_each(|origin| origin.begin_end(time));
        for origin in &mut origins {
            origin.end_serving(by.map_or(time, |by| by.saturating_duration_since(Instant::now())));
        }
        drop(origins);
    }
}

/// Why a connection was not passed on.
pub(super) enum Unserved {
    /// The maximum number of replicas is connected; the connection is closed.
    NoPlace(&'static str),
    /// The map is not served.
    Map(Box<Peer>, String),
}

#[cfg(all(test, feature = "steps"))]
mod tests;
