//! Everything with keys and values, as the workloads see it: a [`Store`] through which one worker
//! does its operations.
//!
//! Invariant: the workloads know a system only through this trait, so that Commonhold and its
//! rivals run the very same code. `hold bench` calls it directly, and the `bench/` folder of the
//! project through a trait object.

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Store the value (second) under the key (first), whether or not the key is present.
    Put(&'a [u8], &'a [u8]),
    /// Look the key up.
    Get(&'a [u8]),
    /// Remove the key.
    Delete(&'a [u8]),
}

/// Called for each hit with the position in the batch and the value.
pub type Found<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// One worker's way into a store. It lives and dies on one thread.
pub trait Store: Send {
    /// What its operations fail with.
    type Error;

    /// Stores `value` under `key`, whether or not the key is present.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Copies the value into `out`, replacing what it held; false if the key is absent.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Self::Error>;

    /// The value as a fresh vector, the way a program usually asks for it.
    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        let mut out = Vec::new();
        Ok(self.get(key, &mut out)?.then_some(out))
    }

    /// Removes `key`; false if it was absent.
    fn delete(&mut self, key: &[u8]) -> Result<bool, Self::Error>;

    /// Looks all `keys` up at once, by the best means the system has for it.
    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<(), Self::Error>;

    /// Does all `ops` in order, by the best means the system has for many at a time: one
    /// transaction, one pipeline.
    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<(), Self::Error> {
        let mut out = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Put(key, value) => self.put(key, value)?,
                Op::Delete(key) => drop(self.delete(key)?),
                Op::Get(key) => {
                    if self.get(key, &mut out)? {
                        found(at, &out);
                    }
                }
            }
        }
        Ok(())
    }

    /// Flushes its contents to the place where its memory is measured. Called after each phase,
    /// outside its time.
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Leaves the store in order. The worker calls it once, after its last phase.
    fn finish(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
