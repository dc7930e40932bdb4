//! hashbrown's `HashMap<Vec<u8>, Vec<u8>>`: the usual choice within one process.
//!
//! It cannot be shared between processes, so its workers are threads of one process, behind a
//! lock: a kinder case than ours, as nothing of it must survive a killed neighbour. Without a lock
//! it serves a single worker, in the workload `private`.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use anyhow::{Result, ensure};
use hashbrown::{HashMap, hash_map::EntryRef};

use crate::{
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    store::{Found, Keeper, Store},
};

type Table = HashMap<Vec<u8>, Vec<u8>>;

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
    fn open(&self, _site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<dyn Store>>> {
        match self.lock {
            Lock::None => {
                ensure!(threads == 1, "hashbrown without a lock serves one worker, not {threads}");
                Ok(vec![Box::new(Plain(Table::new()))])
            }
            Lock::ReadWrite => Ok(shared::<RwLock<Table>>(threads)),
            Lock::Mutual => Ok(shared::<Mutex<Table>>(threads)),
        }
    }
}

fn shared<L: Guarded + Default + 'static>(threads: usize) -> Vec<Box<dyn Store>> {
    let table = Arc::new(L::default());
    (0..threads).map(|_| Box::new(Locked(table.clone())) as Box<dyn Store>).collect()
}

/// Overwrites in place, as that is its fastest way; allocates only for a new key.
fn store(table: &mut Table, key: &[u8], value: &[u8]) {
    match table.entry_ref(key) {
        EntryRef::Occupied(mut there) => {
            let old = there.get_mut();
            old.clear();
            old.extend_from_slice(value);
        }
        EntryRef::Vacant(absent) => {
            absent.insert(value.to_vec());
        }
    }
}

fn copy(table: &Table, key: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(value) = table.get(key) else { return false };
    out.clear();
    out.extend_from_slice(value);
    true
}

fn copy_many(table: &Table, keys: &[&[u8]], found: Found<'_>) {
    for (at, key) in keys.iter().enumerate() {
        if let Some(value) = table.get(*key) {
            found(at, value);
        }
    }
}

struct Plain(Table);

impl Store for Plain {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        store(&mut self.0, key, value);
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(&self.0, key, out))
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.remove(key).is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        copy_many(&self.0, keys, found);
        Ok(())
    }
}

/// The two locks under one name. A poisoned one is passed on: the panic is reported anyway.
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
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        store(&mut self.0.writing(), key, value);
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(&self.0.reading(), key, out))
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.reading().get(key).cloned())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.writing().remove(key).is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        copy_many(&self.0.reading(), keys, found);
        Ok(())
    }
}
