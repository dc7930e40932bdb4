//! The hold as a whole.
//!
//! | idea | file |
//! |---|---|
//! | opening, creating, closing; names and files | [`open`] |
//! | figures, lists, proving it whole, memory | [`look`] |
//! | copies: backup, restore, salvage | [`copies`] |
//! | what is done to a structure by its name | [`named`] |

pub(crate) mod copies;
pub(crate) mod look;
mod named;
pub(crate) mod open;

use commonhold::Hold;

crate::ffi::handle::kinds! {
    Hold = b"ch-hold\0", "hold";
}
