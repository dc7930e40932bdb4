//! The same workloads over Commonhold and its rivals, interleaved in one run.
//!
//! | module | contents |
//! |---|---|
//! | [`rival`] | the common part of all systems |
//! | [`store`] | the two traits that every system with keys and values is reduced to |
//! | [`messages`] | the two traits that every system that passes messages is reduced to |
//! | [`served`] | the trait that every system that serves files is reduced to |
//! | [`rivals`] | one file per system |
//! | [`workloads`] | one file per workload |
//! | [`worker`] | the process that does a workload's operations |
//! | [`team`] | the workers in it, each a thread, which start together |
//! | [`crew`] | the workers, as the starting process sees them |
//! | [`rounds`] | the order of the systems, and their numbers of keys |
//! | [`program`] | the command `hold`, which serves files and requests them |
//! | [`report`] | the one JSON object, and the table made from it |
//! | [`full`], [`quiet`], [`chart`] | everything in turns, how quiet the machine was, the chart |
//! | [`verdicts`] | the goals, each marked as met or missed |
//! | [`site`], [`machine`], [`install`] | the directory of a run, the machine, the packages |
//! | [`settings`] | the command line |
//!
//! A round runs every system once, each on a fresh store. Ratios are computed within a round, and
//! the report has the median of the rounds. So a slow minute of a shared machine affects all
//! systems alike.

pub mod chart;
pub mod crew;
pub mod full;
pub mod install;
pub mod machine;
pub mod messages;
pub mod program;
pub mod quiet;
pub mod report;
pub mod rival;
pub mod rivals;
pub mod rounds;
pub mod served;
pub mod settings;
pub mod site;
pub mod store;
pub mod team;
pub mod verdicts;
pub mod worker;
pub mod workloads;
