//! The curves of `hold bench channel`: latency by percentile, latency over time, throughput over
//! time.

use super::super::{
    plot::{
        curves,
        page::{self, Words},
    },
    timeline::Timeline,
};
use super::{Args, Measured, report};
use crate::workload::Result;
use std::path::Path;

/// Draws them to `path`; `place` says where it was measured.
pub fn draw(args: &Args, measured: &Measured, path: &Path, place: &str) -> Result<()> {
    let title = report::title(args);
    let lines = std::iter::once(title).chain(place.lines().map(str::to_owned)).collect();
    let words = Words { title: "hold bench channel".to_owned(), lines };
    let named = measured.named();
    let charts = [
        curves::by_percentile(&named),
        curves::over_time(&measured.all()),
        curves::throughput("Messages", &named),
    ];
    page::write(path, &words, &charts)
}

impl Measured {
    fn named(&self) -> Vec<(String, &Timeline)> {
        let consumers = (1..).zip(&self.consumers);
        consumers.map(|(k, (_, timeline))| (format!("consumer {k}"), timeline)).collect()
    }
}
