//! Journals, replicas and their origins while calls fail; see [`commonhold_testing::trial`].

mod journals;
mod replicas;
