//! Commonhold itself, through its public API and nothing else.

use std::path::Path;

use anyhow::{Context, Result};
use commonhold::map::{Map, MapOptions, Values};
use commonhold::{Hold, HoldOptions};

use super::OURS;
use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{Found, Keeper, Store},
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
        matches!(workload, "map" | "loop" | "private")
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
    fn open(&self, site: &Path, shape: &Shape, threads: usize) -> Result<Vec<Box<dyn Store>>> {
        let (options, name) = placed(site, shape);
        let hold = options.open(&name).context("cannot open the hold")?;
        let map =
            hold.maps().open_or_create(MAP, map_options(shape)).context("cannot open the map")?;
        let store = || Box::new(MapStore { map: map.clone(), values: Values::default() });
        Ok((0..threads).map(|_| store() as Box<dyn Store>).collect())
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

struct MapStore {
    map: Map,
    values: Values,
}

impl Store for MapStore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.set(key, value)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.map.get_into(key, out)?)
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.map.get(key)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.map.delete(key)?)
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        self.map.get_many(keys, &mut self.values)?;
        for at in 0..keys.len() {
            if let Some(value) = self.values.get(at) {
                found(at, value);
            }
        }
        Ok(())
    }
}
