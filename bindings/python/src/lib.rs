//! `commonhold._native`: the native part of the Python package `commonhold`.
//!
//! The package's classes are written in Python where that costs nothing and derive from the classes
//! here, which do the work. Rules: whatever may wait (locks of other processes included) is done
//! with the interpreter released, reads never wait and keep it; no argument is trusted; an error of
//! the library becomes the exception of its kind (`errors`).
//!
//! | module | what |
//! |---|---|
//! | `ffi/` | all that is unsafe: bytes from Python (`input`), memory shown to Python (`window`) |
//! | `shared_hold` | one open hold, shared by all objects that came from it; closing it, even while views of its memory exist |
//! | `turn` | values that one thread at a time may use and any thread may close: a consumer, a producer |
//! | `errors`, `waiting`, `convert` | exceptions; waiting that Ctrl-C ends; small conversions |
//! | `earlier_changes` | waiting for the journal and for replicas |
//! | `hold`, `map`, `pair`, `walk`, `follow`, `queue`, `producer`, `consumer`, `log`, `net`, `holds`, `journal` | a class or two each |
//! | `net_options` | the options of origins and replicas, from keywords |

mod by_name;
mod consumer;
mod convert;
mod earlier_changes;
mod errors;
mod ffi;
mod follow;
mod hold;
mod holds;
mod journal;
mod log;
mod map;
mod net;
mod net_options;
mod pair;
mod producer;
mod queue;
mod shared_hold;
mod turn;
mod waiting;
mod walk;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::consumer::Consumer;
    #[pymodule_export]
    use crate::follow::Follower;
    #[pymodule_export]
    use crate::hold::{Freeze, Hold, list, remove, resolve, restore, salvage};
    #[pymodule_export]
    use crate::holds::{HoldOrigin, HoldReplica};
    #[pymodule_export]
    use crate::journal::Journal;
    #[pymodule_export]
    use crate::log::{Collector, Log, LogReader};
    #[pymodule_export]
    use crate::map::Map;
    #[pymodule_export]
    use crate::net::{Origin, Replica};
    #[pymodule_export]
    use crate::pair::Pair;
    #[pymodule_export]
    use crate::producer::{Channel, Producer};
    #[pymodule_export]
    use crate::queue::{NamedQueue, Notifier, Queue};
    #[pymodule_export]
    use crate::walk::{Keys, Pairs};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("Buffer", crate::ffi::window::class(module.py())?)?;
        Ok(())
    }
}
