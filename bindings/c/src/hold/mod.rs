//! The hold as a whole.
//!
//! | idea | file |
//! |---|---|
//! | opening, creating, closing; names and files | [`open`] |
//! | statistics, lists, checking it, memory | [`look`] |
//! | copies: backup, restore, salvage | [`copies`] |

pub(crate) mod copies;
pub(crate) mod look;
pub(crate) mod open;

use commonhold::Hold;

crate::ffi::handle::kinds! {
    Hold = b"ch-hold\0", "hold";
}
