//! The order of the keys, as the command line names it.

use crate::workload::pairs;
use serde::{Deserialize, Serialize};

/// The order in which keys are read and changed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Ascending, in the order in which they were put
    Own,
    /// Shuffled within the range of each process
    Random,
}

impl Order {
    /// Its name in the option and the results.
    pub fn name(self) -> &'static str {
        match self {
            Order::Own => "own",
            Order::Random => "random",
        }
    }

    /// The same for the workload.
    pub fn of_workload(self) -> pairs::Order {
        match self {
            Order::Own => pairs::Order::Own,
            Order::Random => pairs::Order::Shuffled,
        }
    }
}
