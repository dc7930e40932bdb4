//! Everything in a hold at one moment, except file servers: sizes, maps, queues, channels, logs,
//! and what origins, replicas and journals report.

use commonhold::channel::ChannelStat;
use commonhold::hold::{HoldStat, StructureKind};
use commonhold::log::LogStat;
use commonhold::map::MapStat;
use commonhold::queue::QueueStat;
use commonhold::raw::open_unready_map;
use commonhold::{Error, Hold, Result};
use commonhold_io::reports::Report;

/// See the module.
#[derive(Debug)]
pub struct Inventory {
    pub hold: HoldStat,
    pub maps: Vec<MapStat>,
    pub queues: Vec<QueueStat>,
    /// With their names.
    pub channels: Vec<(String, ChannelStat)>,
    pub logs: Vec<(String, LogStat)>,
    /// The reports of origins, replicas and journals, without servers.
    pub reports: Vec<Report>,
}

impl Inventory {
    /// Reads everything. Structures that are dropped meanwhile are left out, and so are damaged
    /// ones: `hold check` reports those.
    ///
    /// # Errors
    /// Those of the hold itself.
    pub fn take(hold: &Hold) -> Result<Inventory> {
        let maps = hold.maps().list_all()?;
        let maps = maps.iter().map(|map| open_unready_map(hold, &map.name)?.stat());
        let maps = maps.filter_map(there).collect::<Result<_>>()?;
        let mut inventory = Inventory {
            hold: hold.stat()?,
            maps,
            queues: Vec::new(),
            channels: Vec::new(),
            logs: Vec::new(),
            reports: Vec::new(),
        };
        for other in hold.structures()? {
            let name = other.name;
            match other.kind {
                StructureKind::Queue => inventory.queues.extend(kept(hold.queues().stat(&name))?),
                StructureKind::Channel => {
                    let stat = hold.channels().open(&name).and_then(|channel| channel.stat());
                    inventory.channels.extend(kept(stat)?.map(|stat| (name, stat)));
                }
                StructureKind::Log => {
                    let stat = hold.logs().open(&name).and_then(|log| log.stat());
                    inventory.logs.extend(kept(stat)?.map(|stat| (name, stat)));
                }
                _ => {}
            }
        }
        let reports = commonhold_io::reports::reports(hold)?;
        inventory.reports = reports.into_iter().filter(|report| report.what != "server").collect();
        Ok(inventory)
    }

    /// A map by name.
    pub fn map(&self, name: &str) -> Option<&MapStat> {
        self.maps.iter().find(|map| map.name == name)
    }
}

/// `None` for a structure that does not exist any more, or cannot be read.
fn kept<T>(stat: Result<T>) -> Result<Option<T>> {
    match stat {
        Err(error) if is_gone(&error) => Ok(None),
        stat => stat.map(Some),
    }
}

fn there<T>(stat: Result<T>) -> Option<Result<T>> {
    kept(stat).transpose()
}

fn is_gone(error: &Error) -> bool {
    use commonhold::ErrorKind::{Damaged, Mismatch, NotFound};
    matches!(error.kind(), NotFound | Mismatch | Damaged)
}
