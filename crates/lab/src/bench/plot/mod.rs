//! Curves of a benchmark, as SVG or as a page of HTML.
//!
//! - [`chart`]: one chart: axes, curves, a legend
//! - [`curves`]: the points of latencies and rates
//! - [`page`]: where charts go, one below the other
//!
//! Nothing is measured here.

pub mod chart;
pub mod curves;
pub mod page;
