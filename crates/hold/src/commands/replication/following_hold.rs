//! The following side of a whole hold: its replica, and the reports of its events.

use super::following::Follow;
use super::service::Service;
use crate::commands::shared::answer;
use crate::target::{Directory, MapOrHold};
use commonhold::stream::StreamPosition;
use commonhold_replicate::{
    FollowState, HoldReplica, HoldReplicaEvents, HoldReplicaOptions, HoldReplicaStatus,
};
use commonhold_terminal::descriptors;
use commonhold_terminal::failure::{Result, complain, note};
use commonhold_terminal::interrupt::EXIT_CODE;
use commonhold_terminal::output::Output;
use commonhold_terminal::text::printable;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Follows the maps of a hold until a signal comes; with `once`, until it has a copy of each, at
/// most for the time in it.
pub fn run(
    following: &Follow<MapOrHold>,
    once: Option<Option<Duration>>,
    directory: &Directory,
    output: &Output,
) -> Result<ExitCode> {
    let replica = following.options()?;
    let hold = following.new_hold().open_or_create(directory, &following.target.hold)?;
    // Before a script reads that it is ready, and ends it.
    let service = Service::begin(&hold)?;
    let options = HoldReplicaOptions { replica, maps: following.target.patterns.clone() };
    let voice =
        Voice { origin: following.origin().to_string(), output: *output, said: Arc::default() };
    // Each map needs two.
    descriptors::allow(u64::MAX);
    let replica = HoldReplica::connect(&hold, following.origin(), options, voice)?;
    let Some(patience) = once else {
        service.run(|| Ok(()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let is_ready = |time| replica.wait(time, HoldReplicaStatus::is_ready);
    let is_there = service.until(patience, is_ready)?;
    if service.is_over() && !is_there {
        return Ok(EXIT_CODE.into());
    }
    let missing = missing(&replica.status(), is_there);
    if let Some(missing) = missing.as_ref().filter(|_| !output.is_quiet()) {
        complain(&format!("the maps of {}: {missing}", following.origin()));
    }
    Ok(answer(missing.is_none()))
}

/// Why the copy is not complete.
fn missing(status: &HoldReplicaStatus, is_there: bool) -> Option<String> {
    if !is_there {
        let why = status.last_error.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let late =
            status.maps.iter().find(|map| map.state == FollowState::Followed && !map.caught_up);
        let late = late.map_or(String::new(), |map| {
            let why = map.replica.as_ref().and_then(|replica| replica.last_error.as_ref());
            let why = why.map_or(String::new(), |why| format!(": {}", printable(why)));
            format!("; map {} is not complete{why}", printable(&map.name))
        });
        return Some(format!("timed out before the copy was complete{why}{late}"));
    }
    let skipped = status.maps.iter().filter(|map| map.state == FollowState::Skipped);
    let names: Vec<_> = skipped.map(|map| printable(&map.name)).collect();
    (!names.is_empty()).then(|| format!("these maps were skipped: {}", names.join(", ")))
}

/// Reports the events of the replica.
struct Voice {
    origin: String,
    output: Output,
    /// The last trouble of each map and, without a name, of the connection that names them, until
    /// it is over: the same reason is reported once.
    said: Arc<Mutex<BTreeMap<Option<String>, String>>>,
}

impl Voice {
    fn say(&self, event: &serde_json::Value, text: &str) {
        if self.output.is_json() {
            // A user who no longer reads the events may still need the maps.
            let _ = self.output.json_line(event);
        } else if !self.output.is_quiet() {
            note(&format!("hold replica: {text}"));
        }
    }

    /// Notes a reason; whether it is new.
    fn is_new(&self, map: Option<&str>, why: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = said.insert(map.map(str::to_owned), why.to_owned());
        before.is_none_or(|before| before != why)
    }
}

impl HoldReplicaEvents for Voice {
    fn ready(&self, map: &str, position: StreamPosition) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.remove(&Some(map.to_owned()));
        said.remove(&None);
        drop(said);
        self.say(
            &json!({ "event": "ready", "map": map, "position": position.to_string() }),
            &format!(
                "map {}: ready: it has the state of {} at {position}",
                printable(map),
                self.origin
            ),
        );
    }

    fn lost(&self, map: Option<&str>, why: &str) {
        if !self.is_new(map, why) {
            return;
        }
        let what = map.map_or(String::new(), |map| format!("map {}: ", printable(map)));
        // Errors of connecting begin with the address.
        let reason = why.strip_prefix(&format!("{}: ", self.origin)).unwrap_or(why);
        self.say(
            &json!({ "event": "lost", "map": map, "why": why }),
            &format!("{what}not connected: {}: {}; retrying", self.origin, printable(reason)),
        );
    }

    fn skipped(&self, map: &str, why: &str) {
        self.say(
            &json!({ "event": "skipped", "map": map, "why": why }),
            &format!("map {}: skipped: {}; retrying", printable(map), printable(why)),
        );
    }

    fn dropped(&self, map: &str) {
        self.say(
            &json!({ "event": "dropped", "map": map }),
            &format!("map {}: the origin does not have it; the local map stays", printable(map)),
        );
    }
}
