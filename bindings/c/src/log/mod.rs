//! Logs.
//!
//! | idea | file |
//! |---|---|
//! | creating, opening, statistics; writing lines | [`write`] |
//! | the lines of dumps and readers | [`read`] |
//! | collecting | [`collect`] |

pub(crate) mod collect;
pub(crate) mod read;
pub(crate) mod write;

use crate::ffi::invalid;
use commonhold::Result;
use commonhold::log::LogLevel;

/// The level of a code.
fn level(code: u32) -> Result<LogLevel> {
    let known = LogLevel::ALL.into_iter().find(|level| *level as u32 == code);
    known
        .ok_or_else(|| invalid(format!("expected a level from 1 (error) to 5 (trace), got {code}")))
}
