//! redb: a B-tree in a file, in pure Rust.
//!
//! A database belongs to one process, so its workers are threads of one process. It runs with
//! `Durability::None`, its fastest setting: like a memory hold, it guarantees nothing after a
//! system crash.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{AnyStore, Found, Keeper, Op, Store},
    workloads::memory,
};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bench");
const FILE: &str = "bench.redb";
const BATCH: usize = 1000;

/// A transaction for each operation.
pub static PER_OPERATION: Redb = Redb {
    name: "redb per-op",
    batch: 1,
    settings: "Durability::None, default cache, one transaction per operation; get_many: per 64",
};
/// A transaction for each thousand operations.
pub static BATCHED: Redb = Redb {
    name: "redb batch 1000",
    batch: BATCH,
    settings: "Durability::None, default cache, one transaction per 1000 operations; get_many: per 64",
};

/// redb with transactions of a certain size.
pub struct Redb {
    name: &'static str,
    batch: usize,
    settings: &'static str,
}

impl Rival for Redb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        super::locked_version("redb")
    }

    fn settings(&self) -> &'static str {
        self.settings
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        // The size of a transaction does not change the size of a pair.
        matches!(workload, "map" | "loop") || (self.batch > 1 && memory::is_named(workload))
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let database = Database::create(site.join(FILE)).context("cannot create the database")?;
        let txn = database.begin_write()?;
        txn.open_table(TABLE)?;
        txn.commit()?;
        Ok(None)
    }
}

impl Keeper for Redb {
    fn batch(&self) -> usize {
        self.batch
    }

    fn open(&self, site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        let database = Database::open(site.join(FILE)).context("cannot open the database")?;
        let database = Arc::new(database);
        let store = || Box::new(Tree { database: database.clone() });
        Ok((0..threads).map(|_| store() as Box<AnyStore>).collect())
    }
}

struct Tree {
    database: Arc<Database>,
}

impl Tree {
    fn write<T>(
        &self,
        change: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<T>,
    ) -> Result<T> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(Durability::None)?;
        let result = change(&mut txn.open_table(TABLE)?)?;
        txn.commit()?;
        Ok(result)
    }
}

impl Store for Tree {
    type Error = anyhow::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let Some(value) = table.get(key)? else { return Ok(false) };
        out.clear();
        out.extend_from_slice(value.value());
        Ok(true)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.write(|table| Ok(table.remove(key)?.is_some()))
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = table.get(*key)? {
                found(at, value.value());
            }
        }
        Ok(())
    }

    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<()> {
        // Readers do not wait for the writer, so a batch that only reads must not begin a write.
        if ops.iter().all(|op| matches!(op, Op::Get(_))) {
            let table = self.database.begin_read()?.open_table(TABLE)?;
            for (at, op) in ops.iter().enumerate() {
                let Op::Get(key) = op else { continue };
                if let Some(value) = table.get(*key)? {
                    found(at, value.value());
                }
            }
            return Ok(());
        }
        self.write(|table| {
            for (at, op) in ops.iter().enumerate() {
                match op {
                    Op::Put(key, value) => drop(table.insert(*key, *value)?),
                    Op::Delete(key) => drop(table.remove(*key)?),
                    Op::Get(key) => {
                        if let Some(value) = table.get(*key)? {
                            found(at, value.value());
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Commits without durability reach the file only with a later commit that has it.
    fn flush(&mut self) -> Result<()> {
        Ok(self.database.begin_write()?.commit()?)
    }
}
