//! All that is unsafe in this crate, each in one file with its reason.

pub mod descriptor;
pub mod frozen;
pub mod input;
pub mod scratch;
pub mod window;
