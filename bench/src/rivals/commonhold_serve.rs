//! Commonhold's file server, as users start it: `hold serve` with its default choices.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{OURS, server::Server};
use crate::{
    program,
    rival::{Rival, Shape, Sharing},
    served::{Ground, Host, Service},
};

/// See the module.
pub struct CommonholdServe;

/// The output that it prints when it is ready.
#[derive(Deserialize)]
struct Listening {
    listening: Vec<String>,
}

impl Rival for CommonholdServe {
    fn name(&self) -> &'static str {
        OURS
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "hold serve, default choices (epoll, one cache of 256 MiB in a hold, files over 32 KiB by sendfile), \
         TCP on the loopback interface, not paced (Reno where the system's default is BBR); one and two workers \
         and their supervisor"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "files"
    }

    fn missing(&self) -> Option<String> {
        program::missing()
    }

    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>> {
        Ground::make(site, shape.keys)?;
        Ok(None)
    }
}

impl Host for CommonholdServe {
    fn start(&self, ground: &Ground, place: &Path, files: &Path, workers: u64) -> Result<Service> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        let (program, hold) = (text(&ground.program)?, text(&place.join("cache"))?);
        let (files, workers) = (text(files)?, workers.to_string());
        let arguments = ["serve", &files, "--listen", "tcp:127.0.0.1:0", "--workers", &workers];
        // By default, the hold would be where all holds are, not in the run's directory.
        let arguments = arguments.into_iter().chain(["--hold", &hold, "--format", "json"]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        let log = place.join("serve.log");
        let answers = || listening(&log).is_some();
        let server = Server::start_family(&program, &arguments, &log, &answers)?;
        let address = listening(&log).context("hold serve does not print its address")?;
        Ok(Service { server, address })
    }
}

/// Its address, if it has printed one.
fn listening(log: &Path) -> Option<String> {
    let said = fs::read_to_string(log).ok()?;
    let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Listening>(line).ok());
    lines.next()?.listening.into_iter().next()
}
