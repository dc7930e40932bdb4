//! A freeze that keeps what it borrows.
//!
//! # Safety
//! A [`Freeze`] borrows from the hold, which is kept here beside it and dropped after it.
#![allow(unsafe_code)]

use crate::errors::Answer;
use crate::tie::Tie;
use commonhold::Freeze;
use std::sync::Arc;

/// A hold and its freeze; of the thread that made it.
pub struct Frozen {
    // The order matters: fields are dropped from the first on.
    freeze: Freeze<'static>,
    tie: Arc<Tie>,
}

impl Frozen {
    /// # Errors
    /// Those of freezing.
    pub fn new(tie: &Arc<Tie>) -> Answer<Frozen> {
        let tie = Arc::clone(tie);
        let freeze = tie.hold()?.freeze()?;
        // SAFETY: what it borrows lies behind the `Arc`, which lives longer.
        let freeze = unsafe { std::mem::transmute::<Freeze<'_>, Freeze<'static>>(freeze) };
        Ok(Frozen { freeze, tie })
    }

    /// Lets writers go on; gives the hold back.
    pub fn thaw(self) -> Arc<Tie> {
        drop(self.freeze);
        self.tie
    }
}
