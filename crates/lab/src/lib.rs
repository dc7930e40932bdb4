//! The laboratory of Commonhold: its demo, its crash test and its benchmarks.
//!
//! This crate provides `hold demo`, `hold crashtest` and `hold bench`. A run starts more processes
//! of the same program, so a program that links this crate must pass their arguments to `run`:
//!
//! ```no_run
//! use clap::Parser;
//!
//! #[derive(Parser)]
//! enum Program {
//!     /// Show what a hold can do
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
//! | [`bench`](mod@bench) | the speed of this machine |
//! | [`workload`] | shared parts, also with the rivals of `bench/`: workloads, processes, time |

#![forbid(unsafe_code)]

pub mod bench;
pub mod crashtest;
pub mod demo;
pub mod workload;
