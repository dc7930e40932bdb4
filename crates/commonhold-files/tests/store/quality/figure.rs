//! The figure and the table of docs/guide/serving-files.md.

use super::super::Kinds;
use super::super::trace::Trace;
use super::hit_ratio;
use commonhold_files::store::{CacheKind, EvictionKind};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Shares of all files for which a store has room.
const SHARES: [f64; 6] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
/// The shares of the table.
const IN_TABLE: [f64; 3] = [0.01, 0.1, 0.5];

/// A curve: its label and its colour (after Okabe and Ito).
struct Policy {
    name: &'static str,
    kinds: Kinds,
    colour: RGBColor,
}

const POLICIES: [Policy; 4] = {
    const fn of(
        name: &'static str,
        kinds: (CacheKind, EvictionKind),
        colour: (u8, u8, u8),
    ) -> Policy {
        let (kinds, (red, green, blue)) = (Kinds { cache: kinds.0, eviction: kinds.1 }, colour);
        Policy { name, kinds, colour: RGBColor(red, green, blue) }
    }
    use {CacheKind as In, EvictionKind as By};
    [
        of("lockfree (S3-FIFO)", (In::Hashbrown, By::Lockfree), (0, 158, 115)),
        of("mutex (exact LRU)", (In::Hashbrown, By::Mutex), (0, 114, 178)),
        of("hold, lockfree (the map's own)", (In::Hold, By::Lockfree), (213, 94, 0)),
        of("none", (In::Hashbrown, By::None), (156, 163, 175)),
    ]
};

const TEXT: RGBColor = RGBColor(55, 65, 81);
const GRID: RGBColor = RGBColor(229, 231, 235);
const FONT: &str = "sans-serif";

/// Hit ratios of one trace: of each policy, for each share.
struct Panel {
    trace: Trace,
    ratios: Vec<Vec<f64>>,
}

impl Panel {
    fn measure(trace: Trace) -> Panel {
        let of = |policy: &Policy| {
            SHARES.iter().map(|share| hit_ratio(policy.kinds, trace, *share)).collect()
        };
        Panel { trace, ratios: POLICIES.iter().map(of).collect() }
    }

    fn name(&self) -> String {
        let scans = if self.trace.scans { ", with scans" } else { "" };
        format!("Zipf {}{scans}", self.trace.exponent)
    }

    /// Its line of the table.
    fn line(&self) -> String {
        let cell = |share: &f64| {
            let at = SHARES.iter().position(|other| other == share).expect("a share");
            let ratios = self.ratios[..3].iter().map(|ratios| format!("{:.1}", 100.0 * ratios[at]));
            ratios.collect::<Vec<_>>().join(" | ")
        };
        format!(
            "| {} | {} |",
            self.name(),
            IN_TABLE.iter().map(cell).collect::<Vec<_>>().join(" | ")
        )
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) {
        let place = |share: f64| share.log10();
        let mut chart = ChartBuilder::on(area)
            .caption(self.name(), (FONT, 19).into_font().color(&TEXT))
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(50)
            .build_cartesian_2d(place(SHARES[0])..place(SHARES[5]), 0.0..1.0)
            .unwrap();
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(TEXT.mix(0.5))
            .label_style((FONT, 15).into_font().color(&TEXT))
            .x_labels(3)
            .y_labels(5)
            .x_label_formatter(&|place| {
                format!("{} %", (10f64.powf(place + 2.0) * 10.0).round() / 10.0)
            })
            .y_label_formatter(&|ratio| format!("{:.0} %", 100.0 * ratio))
            .draw()
            .unwrap();
        for (policy, ratios) in POLICIES.iter().zip(&self.ratios).rev() {
            let points = SHARES.iter().zip(ratios).map(|(share, ratio)| (place(*share), *ratio));
            let style = policy.colour.stroke_width(2);
            chart.draw_series(LineSeries::new(points, style).point_size(2)).unwrap();
        }
    }
}

fn draw(panels: &[Panel], path: &Path) {
    let root = SVGBackend::new(path, (1020, 664)).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let (top, charts) = root.split_vertically(56);
    for (at, policy) in (0..).zip(&POLICIES) {
        let x = 54 + 230 * at;
        let line = PathElement::new([(x, 20), (x + 20, 20)], policy.colour.stroke_width(2));
        top.draw(&line).unwrap();
        let font = (FONT, 16).into_font().color(&TEXT);
        top.draw(&Text::new(policy.name, (x + 28, 14), font)).unwrap();
    }
    let axes = "hit rate of all requests, by cache size in % of all files";
    let font = (FONT, 15).into_font().color(&TEXT);
    top.draw(&Text::new(axes, (54, 36), font)).unwrap();
    for (panel, area) in panels.iter().zip(charts.split_evenly((2, 3))) {
        panel.draw(&area);
    }
    root.present().unwrap();
}

#[test]
#[ignore = "writes docs/figures/cache-quality.svg, and prints the table next to it"]
fn figure() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    std::fs::create_dir_all(&folder).unwrap();
    let panels: Vec<Panel> = Trace::ALL.into_iter().map(Panel::measure).collect();
    draw(&panels, &folder.join("cache-quality.svg"));
    panels.iter().for_each(|panel| println!("{}", panel.line()));
}
