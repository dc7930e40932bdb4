//! Curves of a benchmark, as SVG or as a page of HTML.
//!
//! - [`chart`]: one chart: axes, curves, a legend
//! - [`page`]: where charts go, one below the other
//!
//! Nothing is computed here but where a point lies.

pub mod chart;
pub mod page;
