//! The reports of a replica of a whole hold, for `hold stat`: one about itself, and one for each
//! map that it does not follow. The replicas of the other maps report themselves.

use crate::holds::replica::{FollowState, FollowedMap, HoldReplicaStatus};
use crate::replica::ReplicaStatus;
use commonhold::raw::{is_unready, open_unready_map};
use commonhold::{Hold, Result};
use commonhold_io::reports::Reporter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often they are written.
const EVERY: Duration = Duration::from_secs(1);

/// A replica of a whole hold, as `hold stat` shows it.
#[derive(Clone, Debug, Serialize)]
struct Summary<'a> {
    pid: u32,
    origin: &'a str,
    connected: bool,
    listed: bool,
    last_error: Option<&'a str>,
    /// The number of maps that are followed.
    followed: usize,
    /// The names of the others.
    skipped: Vec<&'a str>,
    dropped: Vec<&'a str>,
}

/// See the module.
pub(super) struct Reports {
    hold: Hold,
    own: Reporter,
    /// For each map that is not followed.
    others: BTreeMap<String, Reporter>,
    due: Instant,
}

impl Reports {
    /// # Errors
    /// Those of writing a report.
    pub(super) fn new(hold: &Hold) -> Result<Reports> {
        let own = Reporter::new(hold, "hold", "")?;
        Ok(Reports { hold: hold.clone(), own, others: BTreeMap::new(), due: Instant::now() })
    }

    /// Writes the reports, if that is due.
    pub(super) fn write(&mut self, status: impl FnOnce() -> HoldReplicaStatus) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let status = status();
        self.own.report(true, || summary(&status));
        let idle = |map: &&FollowedMap| map.state != FollowState::Followed;
        let idle: BTreeMap<&str, &FollowedMap> =
            status.maps.iter().filter(idle).map(|map| (map.name.as_str(), map)).collect();
        self.others.retain(|name, _| idle.contains_key(name.as_str()));
        for (name, map) in idle {
            if !self.others.contains_key(name) {
                // Without a reporter now, there is one a second later.
                let reporter = Reporter::new(&self.hold, "replica", name);
                self.others.extend(reporter.map(|reporter| (name.to_owned(), reporter)));
            }
            let report = self.of_idle(&status, map);
            if let Some(reporter) = self.others.get_mut(name) {
                reporter.report(true, || report);
            }
        }
    }

    /// The status of a replica that does not run.
    fn of_idle(&self, status: &HoldReplicaStatus, map: &FollowedMap) -> ReplicaStatus {
        let local = open_unready_map(&self.hold, &map.name).ok();
        let lag = local.as_ref().and_then(|local| local.lag().ok().flatten());
        let has_contents = local.is_some_and(|local| !is_unready(&local));
        ReplicaStatus {
            pid: status.pid,
            origin: status.origin.clone(),
            ready: map.state == FollowState::Dropped && has_contents,
            lag_ms: lag.map_or(0, |lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
            last_error: map.reason.clone(),
            ended: true,
            ..ReplicaStatus::default()
        }
    }
}

fn summary(status: &HoldReplicaStatus) -> Summary<'_> {
    let names = |state: FollowState| {
        let maps = status.maps.iter().filter(move |map| map.state == state);
        maps.map(|map| map.name.as_str())
    };
    Summary {
        pid: status.pid,
        origin: &status.origin,
        connected: status.connected,
        listed: status.listed,
        last_error: status.last_error.as_deref(),
        followed: names(FollowState::Followed).count(),
        skipped: names(FollowState::Skipped).collect(),
        dropped: names(FollowState::Dropped).collect(),
    }
}
