//! Commonhold itself, through its public API and nothing else.

use std::path::Path;

use anyhow::{Context, Result};
use commonhold::map::MapOptions;
use commonhold::{Hold, HoldOptions};
use commonhold_lab::workload::stores::MapStore;

use super::OURS;
use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{AnyStore, Keeper},
    workloads::memory,
};

const MAP: &str = "bench";

/// The map in a memory hold; in a file hold where the workload asks for one.
pub struct Commonhold;

impl Rival for Commonhold {
    fn name(&self) -> &'static str {
        OURS
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "default options: memory hold, general map, unless the workload says otherwise"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        matches!(workload, "map" | "loop" | "private") || memory::is_named(workload)
    }

    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>> {
        let (options, name) = placed(site, shape);
        let hold = options.create(&name).context("cannot create the hold")?;
        hold.maps().open_or_create(MAP, map_options(shape)).context("cannot create the map")?;
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

impl Keeper for Commonhold {
    fn open(&self, site: &Path, shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        let (options, name) = placed(site, shape);
        let hold = options.open(&name).context("cannot open the hold")?;
        let map =
            hold.maps().open_or_create(MAP, map_options(shape)).context("cannot open the map")?;
        let store = |_| Box::new(MapStore::new(map.clone())) as Box<AnyStore>;
        Ok((0..threads).map(store).collect())
    }
}

/// A bare name means a memory hold, a name that ends in `.hold` a file hold.
fn placed(site: &Path, shape: &Shape) -> (HoldOptions, String) {
    if shape.in_file {
        (Hold::options(), site.join("bench.hold").to_string_lossy().into_owned())
    } else {
        (Hold::options().directory(site), "bench".to_owned())
    }
}

fn map_options(shape: &Shape) -> MapOptions {
    if shape.fixed { MapOptions::fixed(4, 4) } else { MapOptions::general() }
}
