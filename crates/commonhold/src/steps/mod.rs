//! Named steps and faults: places where a test stops or kills a process, makes it panic, or makes a
//! system call fail.
//!
//! With the feature `steps` every `step!` and every `fault!` checks whether it is armed, through
//! the environment or by a call. Without the feature nothing is compiled in. A test proves that the
//! lists and the sources agree.
//!
//! | module | idea |
//! |---|---|
//! | `list` | the names of all steps |
//! | `arm_step` | killing or stopping the process at a step, or panicking there |
//! | `table` | the names of all faults, each with its possible errors |
//! | `arm_fault` | making a call fail at a fault |
//! | `signal` | how a step stops or kills its process |
//! | [`shifts`] | clocks that run ahead or behind |
//!
//! `COMMONHOLD_STEP=name:kill`, `name:stop` or `name:panic` arms a step of a victim, with an
//! optional third field `:N` for the N-th pass; so does a call of `arm`.
//! `COMMONHOLD_FAULT=name:ERROR:once` or `:always` arms a fault, with an optional fourth field `:N`
//! for the N-th pass (and, if always, every later one); so does a call of `arm_fault`. Commas
//! separate several faults. Other crates of the workspace use the same macros under a feature of
//! their own called `steps`, and [`arm_fault_of`] with a table of theirs.

/// Marks a named instant; see [`crate::steps`].
#[doc(hidden)]
#[macro_export]
macro_rules! step {
    ($name:literal) => {
        #[cfg(feature = "steps")]
        $crate::steps::pass($name);
    };
}

/// An `io::Result<()>`: the error, if a test has armed the fault of this name. The error replaces
/// the system call or acquisition that follows. See [`crate::steps`]. `fault!("os.fdatasync")?;`
#[doc(hidden)]
#[macro_export]
macro_rules! fault {
    ($name:literal) => {{
        #[cfg(feature = "steps")]
        let struck = $crate::steps::strike($name);
        #[cfg(not(feature = "steps"))]
        let struck: ::std::io::Result<()> = Ok(());
        struck
    }};
}

/// The number of bytes, of `$len`, that a call asks for: fewer if a test has armed this name with
/// `SHORT`.
#[doc(hidden)]
#[macro_export]
macro_rules! shortened {
    ($name:literal, $len:expr) => {{
        #[cfg(feature = "steps")]
        let len = $crate::steps::shorten($name, $len);
        #[cfg(not(feature = "steps"))]
        let len: usize = $len;
        len
    }};
}

pub(crate) use {fault, shortened, step};

#[cfg(feature = "steps")]
mod arm_fault;
#[cfg(feature = "steps")]
mod arm_step;
#[cfg(feature = "steps")]
mod list;
#[cfg(feature = "steps")]
pub mod shifts;
#[cfg(feature = "steps")]
mod signal;
#[cfg(feature = "steps")]
mod table;

#[cfg(feature = "steps")]
pub use arm_fault::{
    arm_fault, arm_fault_of, observe_faults, read_faults_of_environment, shorten, strike,
};
#[cfg(feature = "steps")]
pub use arm_step::{arm, observe, pass, read_environment};
#[cfg(feature = "steps")]
pub use list::ALL;
#[cfg(feature = "steps")]
pub use table::{FAULTS, is_transient};

#[cfg(all(test, feature = "steps"))]
mod tests;
