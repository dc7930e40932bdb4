//! How a structure is opened by its name, as the facades of `by_name.py` ask for it.

use crate::errors::{Answer, error};
use commonhold::ErrorKind;

/// `how` of the constructors of `Map`, `Queue`, `Channel` and `Log`.
#[derive(Clone, Copy)]
pub enum How {
    Open,
    OpenOrCreate,
    Create,
}

impl How {
    /// # Errors
    /// `Invalid` for any other word.
    pub fn of(word: &str) -> Answer<How> {
        match word {
            "open" => Ok(How::Open),
            "open_or_create" => Ok(How::OpenOrCreate),
            "create" => Ok(How::Create),
            other => {
                let text =
                    format!("expected how='open', 'open_or_create' or 'create', got '{other}'");
                Err(error(ErrorKind::Invalid, text))
            }
        }
    }
}
