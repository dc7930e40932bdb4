//! The interface of every system that serves files: a [`Host`] that starts a server for a
//! directory.
//!
//! Invariant: as in [`crate::store`], the workload knows a system only through this trait. The same
//! client, a separate program, sends all requests to every server over the network. So this
//! interface provides only the server's address and its process. Rivals implement it; the team and
//! the tests call it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{program, rival::Rival, rivals::server::Server, workloads::files::sets::SETS};

/// A rival that serves the files of a directory by HTTP/1.1.
pub trait Host: Rival {
    /// Starts a server for the files in `files` with `workers` workers, and returns when it
    /// answers. The server writes only to `place`, an empty directory. The calling thread must
    /// outlive it.
    fn start(&self, ground: &Ground, place: &Path, files: &Path, workers: u64) -> Result<Service>;
}

/// A server that answers. When this is dropped, the server ends, with all its processes.
pub struct Service {
    /// Its first process, from which all its others descend.
    pub server: Server,
    /// Its address, in the form of `hold bench files --address`.
    pub address: String,
}

/// The program and the files that the servers of one turn share with their client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ground {
    /// The path of `hold`, which is the client of every server.
    pub program: PathBuf,
    /// A directory for each set of files, under the set's name.
    pub files: PathBuf,
}

impl Ground {
    /// Creates the files in `site`, with a limit per set. The `prepare` of every host calls this.
    pub fn make(site: &Path, most_files: u64) -> Result<Ground> {
        let ground = Ground { program: program::hold()?, files: site.join("files") };
        fs::create_dir(&ground.files).context("cannot make a directory for the files")?;
        for set in &SETS {
            set.make(&ground, most_files)?;
        }
        let note = serde_json::to_vec(&ground)?;
        fs::write(note_in(site), note).context("cannot record the place of the files")?;
        Ok(ground)
    }

    /// The files that [`Ground::make`] created there, perhaps in another process.
    pub fn of(site: &Path) -> Result<Ground> {
        let note = fs::read(note_in(site)).context("cannot read the place of the files")?;
        Ok(serde_json::from_slice(&note)?)
    }
}

fn note_in(site: &Path) -> PathBuf {
    site.join("ground.json")
}
