//! Commonhold's map for few values, through its public API and nothing else: by `get_into` and
//! `set` of a key of 8 bytes, or of a handle on each pair.

use std::{ops::Range, path::Path};

use anyhow::{Context, Result, ensure};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions, PairHandle};

use super::OURS;
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::newest::{Few, PLACES, Values},
};

const NAME: &str = "bench";

/// Pairs of 8 and 8 bytes in a fixed-length map.
pub static FIXED: Newest = Newest { name: OURS, way: Way::Fixed };
/// The same in a general map.
pub static GENERAL: Newest = Newest { name: "commonhold general", way: Way::General };
/// The same, with a handle on each pair.
pub static PAIR: Newest = Newest { name: "commonhold pair", way: Way::Pair };

/// The map in a memory hold.
pub struct Newest {
    name: &'static str,
    way: Way,
}

#[derive(PartialEq)]
enum Way {
    Fixed,
    General,
    Pair,
}

impl Rival for Newest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        match self.way {
            Way::Fixed => "memory hold, fixed-length map of 8 + 8 bytes; get_into and set",
            Way::General => "memory hold, general map; get_into and set",
            Way::Pair => "memory hold, general map, a handle on each pair; get_into and set",
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "newest"
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let hold = Hold::options().directory(site).create(NAME).context("cannot create a hold")?;
        let options = match self.way {
            Way::Fixed => MapOptions::fixed(8, 8),
            Way::General | Way::Pair => MapOptions::general(),
        };
        let map = hold.maps().open_or_create(NAME, options).context("cannot create the map")?;
        for place in 0..PLACES {
            map.set(key(place), [0; 8])?;
        }
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

impl Carrier for Newest {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let hold = Hold::options().directory(site).open(NAME).context("cannot open the hold")?;
        let map = hold.maps().open(NAME).context("cannot open the map")?;
        let port = |_| -> Result<Box<dyn Port>> {
            let value = Vec::new();
            Ok(match self.way {
                Way::Pair => {
                    let handles = (0..PLACES).map(|place| map.pair(key(place)));
                    let handles = handles.collect::<commonhold::Result<_>>()?;
                    Box::new(Few(Handles { handles, value }))
                }
                Way::Fixed | Way::General => Box::new(Few(Pairs { map: map.clone(), value })),
            })
        };
        workers.map(port).collect()
    }
}

fn key(place: usize) -> [u8; 8] {
    (place as u64).to_le_bytes()
}

struct Pairs {
    map: Map,
    value: Vec<u8>,
}

impl Values for Pairs {
    fn write(&mut self, place: usize, value: u64) -> Result<()> {
        self.map.set(key(place), value.to_le_bytes())?;
        Ok(())
    }

    fn read(&mut self, place: usize) -> Result<u64> {
        ensure!(self.map.get_into(key(place), &mut self.value)?, "value {place} is absent");
        number(&self.value)
    }
}

struct Handles {
    handles: Vec<PairHandle>,
    value: Vec<u8>,
}

impl Values for Handles {
    fn write(&mut self, place: usize, value: u64) -> Result<()> {
        self.handles[place].set(value.to_le_bytes())?;
        Ok(())
    }

    fn read(&mut self, place: usize) -> Result<u64> {
        ensure!(self.handles[place].get_into(&mut self.value)?, "value {place} is absent");
        number(&self.value)
    }
}

fn number(value: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(value.try_into().context("a value of another length")?))
}
