//! The laboratory of Commonhold: its demo, its crash test and its benchmarks.
//!
//! `hold demo`, `hold crashtest` and `hold bench` are made of this crate. Each run starts processes
//! of the same program, so a program that links it dispatches to `run` for them too:
//!
//! ```no_run
//! use clap::Parser;
//!
//! #[derive(Parser)]
//! enum Program {
//!     /// Show what a hold is for
//!     Demo(commonhold_lab::demo::Args),
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let Program::Demo(args) = Program::parse();
//!     commonhold_lab::demo::run(&args, false).unwrap_or_else(|failure| failure.report())
//! }
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`demo`] | real data, many processes, one stopped and one killed, nothing lost |
//! | [`crashtest`] | processes are killed and stopped, and everything is checked |
//! | [`bench`](mod@bench) | how fast this machine is |
//! | `workload` | what these share: processes, a board to see them by, chance, time |

#![forbid(unsafe_code)]

pub mod bench;
pub mod crashtest;
pub mod demo;
mod workload;
