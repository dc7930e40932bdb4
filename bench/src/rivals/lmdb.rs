//! LMDB through heed: a B+tree in a shared mapping, the nearest relative.
//!
//! It runs without any sync and with a writable map, which is its fastest setting. Like a memory
//! hold, it then has no protection from a system crash. Keys come in ascending order of bytes,
//! which suits it best. One transaction per operation corresponds to Commonhold's calls. One per
//! batch makes it fast, but the whole batch waits for another writer.
//!
//! # Safety
//! Opening an environment in heed is unsafe, because a process must not open one twice without
//! heed's knowledge, and because another program could change the file. Only the workers of one run
//! know the directory. Each opens it once, and all of them use LMDB.
#![allow(unsafe_code)]

use std::{convert::Infallible, path::Path};

use anyhow::{Context, Result};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, types::Bytes};

use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{AnyStore, Found, Keeper, Op, Store},
    workloads::memory,
};

const BATCH: usize = 1000;
// The file is sparse, so only the written part needs memory. This is room for more than the largest
// run.
const MAP_BYTES: usize = 64 << 30;

/// A transaction for each operation.
pub static PER_OPERATION: Lmdb = Lmdb {
    name: "lmdb per-op",
    batch: 1,
    settings: "MDB_NOSYNC | MDB_WRITEMAP, one transaction per operation; get_many: one per 64 keys",
};
/// A transaction for each thousand operations.
pub static BATCHED: Lmdb = Lmdb {
    name: "lmdb batch 1000",
    batch: BATCH,
    settings: "MDB_NOSYNC | MDB_WRITEMAP, one transaction per 1000 operations; get_many: per 64",
};

/// LMDB with transactions of a certain size.
pub struct Lmdb {
    name: &'static str,
    batch: usize,
    settings: &'static str,
}

impl Rival for Lmdb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        let lmdb = heed::lmdb_version();
        Ok(format!("{} (heed {})", lmdb.string, super::locked_version("heed")?))
    }

    fn settings(&self) -> &'static str {
        self.settings
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        // The size of a transaction does not change the size of a pair.
        matches!(workload, "map" | "loop") || (self.batch > 1 && memory::is_named(workload))
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        table(&environment(site)?)?;
        Ok(None)
    }
}

impl Keeper for Lmdb {
    fn batch(&self) -> usize {
        self.batch
    }

    fn open(&self, site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        let env = environment(site)?;
        let table = table(&env)?;
        let store = || Box::new(Tree { env: env.clone(), table });
        Ok((0..threads).map(|_| store() as Box<AnyStore>).collect())
    }
}

type Table = Database<'static, Bytes, Bytes>;

/// Opens or creates the only table. heed returns it after the transaction is committed.
fn table(env: &Env) -> Result<Table> {
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let table = opener.create_database::<Bytes, Bytes>(txn, None)?;
        anyhow::Ok(CommitOrAbort::<_, Infallible>::Commit(table))
    })?;
    Ok(made.unwrap_commit())
}

fn environment(site: &Path) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: see the module: only this run's workers know the file, and each opens it once; these
    // flags only give up consistency after a system crash, and no program reads the file then.
    unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP);
        options.open(site).with_context(|| format!("cannot open LMDB in {}", site.display()))
    }
}

struct Tree {
    env: Env,
    table: Table,
}

impl Store for Tree {
    type Error = anyhow::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, key, value)?;
        txn.commit()?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let txn = self.env.read_txn()?;
        let Some(value) = self.table.get(&txn, key)? else { return Ok(false) };
        out.clear();
        out.extend_from_slice(value);
        Ok(true)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let mut txn = self.env.write_txn()?;
        let there = self.table.delete(&mut txn, key)?;
        txn.commit()?;
        Ok(there)
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        let txn = self.env.read_txn()?;
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = self.table.get(&txn, key)? {
                found(at, value);
            }
        }
        Ok(())
    }

    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<()> {
        // Readers do not wait for the writer, so a batch that only reads must not begin a write.
        if ops.iter().all(|op| matches!(op, Op::Get(_))) {
            let txn = self.env.read_txn()?;
            for (at, op) in ops.iter().enumerate() {
                let Op::Get(key) = op else { continue };
                if let Some(value) = self.table.get(&txn, key)? {
                    found(at, value);
                }
            }
            return Ok(());
        }
        let mut txn = self.env.write_txn()?;
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Put(key, value) => self.table.put(&mut txn, key, value)?,
                Op::Delete(key) => drop(self.table.delete(&mut txn, key)?),
                Op::Get(key) => {
                    if let Some(value) = self.table.get(&txn, key)? {
                        found(at, value);
                    }
                }
            }
        }
        txn.commit()?;
        Ok(())
    }
}
