//! hashbrown's `HashMap<Vec<u8>, Vec<u8>>`: the usual choice within one process.
//!
//! It cannot be shared between processes, so its workers are threads of one process, behind a lock.
//! This favours it, because nothing of it must survive a killed neighbour. Without a lock it serves
//! a single worker, in the workload `private`.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use anyhow::{Result, ensure};
use commonhold_lab::workload::stores::{Private, Table};

use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{AnyStore, Found, Keeper, Store},
};

/// Alone, without a lock.
pub static PLAIN: Hashbrown =
    Hashbrown { name: "hashbrown", lock: Lock::None, settings: "default hasher, no lock" };
/// Behind the standard library's reader-writer lock.
pub static RW_LOCK: Hashbrown = Hashbrown {
    name: "hashbrown rwlock",
    lock: Lock::ReadWrite,
    settings: "default hasher, one std RwLock around it",
};
/// Behind the standard library's mutex.
pub static MUTEX: Hashbrown = Hashbrown {
    name: "hashbrown mutex",
    lock: Lock::Mutual,
    settings: "default hasher, one std Mutex around it",
};

#[derive(Clone, Copy, PartialEq)]
enum Lock {
    None,
    ReadWrite,
    Mutual,
}

/// The table behind one of the locks.
pub struct Hashbrown {
    name: &'static str,
    lock: Lock,
    settings: &'static str,
}

impl Rival for Hashbrown {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        super::locked_version("hashbrown")
    }

    fn settings(&self) -> &'static str {
        self.settings
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        match self.lock {
            Lock::None => workload == "private",
            Lock::ReadWrite | Lock::Mutual => matches!(workload, "map" | "loop"),
        }
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

impl Keeper for Hashbrown {
    fn open(&self, _site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        match self.lock {
            Lock::None => {
                ensure!(threads == 1, "hashbrown without a lock serves one worker, not {threads}");
                Ok(vec![Box::new(Private::default())])
            }
            Lock::ReadWrite => Ok(shared::<RwLock<Table>>(threads)),
            Lock::Mutual => Ok(shared::<Mutex<Table>>(threads)),
        }
    }
}

fn shared<L: Guarded + Default + 'static>(threads: usize) -> Vec<Box<AnyStore>> {
    let table = Arc::new(L::default());
    (0..threads).map(|_| Box::new(Locked(table.clone())) as Box<AnyStore>).collect()
}

/// The common interface of the two locks. Poisoning is ignored, because the panic is reported
/// anyway.
trait Guarded: Send + Sync {
    type Read<'a>: std::ops::Deref<Target = Table>
    where
        Self: 'a;
    type Write<'a>: std::ops::DerefMut<Target = Table>
    where
        Self: 'a;

    fn reading(&self) -> Self::Read<'_>;
    fn writing(&self) -> Self::Write<'_>;
}

impl Guarded for RwLock<Table> {
    type Read<'a> = RwLockReadGuard<'a, Table>;
    type Write<'a> = RwLockWriteGuard<'a, Table>;

    fn reading(&self) -> Self::Read<'_> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> Self::Write<'_> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guarded for Mutex<Table> {
    type Read<'a> = MutexGuard<'a, Table>;
    type Write<'a> = MutexGuard<'a, Table>;

    fn reading(&self) -> Self::Read<'_> {
        self.writing()
    }

    fn writing(&self) -> Self::Write<'_> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Locked<L>(Arc<L>);

impl<L: Guarded> Store for Locked<L> {
    type Error = anyhow::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.writing().put(key, value);
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.reading().get(key, out))
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.reading().get_owned(key))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.writing().delete(key))
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        self.0.reading().get_many(keys, found);
        Ok(())
    }
}
