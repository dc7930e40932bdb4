//! One chart: a title, two axes, curves with their names.
//!
//! The axis of percentiles is that of hdrhistogram's own plotter (Gil Tene): from 0 % to 90 % is as
//! far as from 90 % to 99 %, and from there to 99.9 %; so a tail is as visible as the middle.

use crate::workload::latency::show;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Display;
use std::ops::Range;

/// The drawing of one chart.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Colours that differ for most eyes, after Okabe and Ito; then they begin again.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// The colour of text.
pub const TEXT: RGBColor = RGBColor(55, 65, 81);
const GRID: RGBColor = RGBColor(229, 231, 235);
/// The font of every text.
pub const FONT: &str = "sans-serif";
/// Pixels to the right of a chart for the names of its curves, and how many there is room for.
const LEGEND: u32 = 140;
const NAMES: usize = 12;

/// The unit of an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Share of all, 0 to less than 1, on the stretched scale.
    Percentiles,
    /// Seconds since measuring began.
    Seconds,
    /// Nanoseconds, logarithmic.
    Latency,
    /// Something per second.
    Rate,
    /// Places in an order, the first is 1.
    Ranks,
}

/// A curve and its name.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// A chart without its place.
pub struct Chart {
    /// Above it.
    pub title: String,
    /// The horizontal and the vertical axis.
    pub axes: (Axis, Axis),
    /// Where the axis to the right ends, if not with the last point.
    pub until: Option<f64>,
    /// Its curves.
    pub curves: Vec<Curve>,
}

impl Axis {
    /// Where a value lies.
    fn place(self, value: f64) -> f64 {
        match self {
            Axis::Percentiles => -(1.0 - value.clamp(0.0, 1.0 - 1e-12)).log10(),
            Axis::Latency => value.max(1.0).log10(),
            Axis::Seconds | Axis::Rate | Axis::Ranks => value,
        }
    }

    /// The text at a place.
    fn label(self, place: f64) -> String {
        match self {
            Axis::Percentiles => {
                let nines = place.round() as usize;
                let decimals = nines.saturating_sub(2);
                format!("{:.decimals$} %", 100.0 * (1.0 - 10f64.powf(-place)))
            }
            Axis::Latency => {
                show(10f64.powf(place).round() as u64).replace(".00", "").replace(".0 ", " ")
            }
            Axis::Seconds => format!("{place} s"),
            Axis::Rate => short(place),
            // There is nothing between two places.
            Axis::Ranks if place.fract().abs() > 1e-6 => String::new(),
            Axis::Ranks => format!("{place:.0}"),
        }
    }

    /// From where to where, for places from `least` to `most`.
    fn range(self, least: f64, most: f64) -> Range<f64> {
        match self {
            Axis::Percentiles => 0.0..most.max(1.0),
            // Whole powers of ten, two at least.
            Axis::Latency => {
                let begin = least.floor();
                begin..most.ceil().max(begin + 2.0)
            }
            Axis::Seconds => 0.0..most.max(f64::MIN_POSITIVE),
            Axis::Rate => 0.0..(most * 1.15).max(1.0),
            Axis::Ranks => 1.0..most.max(2.0),
        }
    }

    /// How many labels there is room for; of powers, one each.
    fn labels(self, range: &Range<f64>, room: usize) -> usize {
        match self {
            Axis::Percentiles | Axis::Latency => (range.end - range.start).ceil() as usize + 1,
            Axis::Seconds | Axis::Rate => room,
            Axis::Ranks => room.min((range.end - range.start).ceil() as usize + 1),
        }
    }
}

impl Chart {
    /// Draws it.
    pub fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (area, legend) = area.split_horizontally(area.dim_in_pixel().0 - LEGEND);
        let (across, upwards) = (self.across(), self.range(self.axes.1, |p| p.1));
        let labels = (self.axes.0.labels(&across, 11), self.axes.1.labels(&upwards, 7));
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 19).into_font().color(&TEXT))
            .margin(14)
            .margin_right(24)
            .x_label_area_size(34)
            .y_label_area_size(78)
            .build_cartesian_2d(across, upwards)
            .map_err(said)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(TEXT.mix(0.5))
            .label_style((FONT, 13).into_font().color(&TEXT))
            .x_labels(labels.0)
            .y_labels(labels.1)
            .x_label_formatter(&|place| self.axes.0.label(*place))
            .y_label_formatter(&|place| self.axes.1.label(*place))
            .draw()
            .map_err(said)?;
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(self.placed(curve), style).point_size(self.dot(curve)))
                .map_err(said)?;
        }
        self.name(&legend)
    }

    /// The legend, next to the chart, where no curve is in the way.
    fn name(&self, legend: &Area<'_>) -> Result<(), String> {
        let font = (FONT, 13).into_font().color(&TEXT);
        let more = self.curves.len().saturating_sub(NAMES);
        let names = self.curves.iter().zip(COLOURS.iter().cycle()).take(NAMES);
        for (number, (curve, colour)) in (0..).zip(names) {
            let middle = 54 + 22 * number;
            let line = [(0, middle), (20, middle)];
            legend.draw(&PathElement::new(line, colour.stroke_width(2))).map_err(said)?;
            let name = Text::new(curve.name.clone(), (28, middle - 6), font.clone());
            legend.draw(&name).map_err(said)?;
        }
        if more > 0 {
            let place = (28, 54 + 22 * NAMES as i32 - 6);
            legend.draw(&Text::new(format!("and {more} more"), place, font)).map_err(said)?;
        }
        Ok(())
    }

    fn across(&self) -> Range<f64> {
        match self.until {
            Some(end) => self.axes.0.range(0.0, self.axes.0.place(end)),
            None => self.range(self.axes.0, |p| p.0),
        }
    }

    fn placed<'a>(&'a self, curve: &'a Curve) -> impl Iterator<Item = (f64, f64)> + 'a {
        let (across, upwards) = self.axes;
        curve.points.iter().map(move |(x, y)| (across.place(*x), upwards.place(*y)))
    }

    /// A few points get dots; a single one would not be visible otherwise.
    fn dot(&self, curve: &Curve) -> u32 {
        if self.axes.0 != Axis::Percentiles && curve.points.len() <= 60 { 3 } else { 0 }
    }

    fn range(&self, axis: Axis, of: impl Fn((f64, f64)) -> f64) -> Range<f64> {
        let places = self.curves.iter().flat_map(|curve| self.placed(curve)).map(of);
        let (least, most) =
            places.fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(p), high.max(p)));
        if least > most { axis.range(0.0, 1.0) } else { axis.range(least, most) }
    }
}

/// A number with as few digits as it needs.
fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1e9 => format!("{} G", number / 1e9),
        n if n >= 1e6 => format!("{} M", number / 1e6),
        n if n >= 1e3 => format!("{} k", number / 1e3),
        _ => format!("{number}"),
    }
}

/// Why something could not be drawn.
pub fn said(error: impl Display) -> String {
    format!("the chart cannot be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_are_equally_far_from_each_other() {
        let axis = Axis::Percentiles;
        for (share, place, label) in
            [(0.0, 0.0, "0 %"), (0.9, 1.0, "90 %"), (0.99, 2.0, "99 %"), (0.9999, 4.0, "99.99 %")]
        {
            assert!((axis.place(share) - place).abs() < 1e-9);
            assert_eq!(axis.label(place), label);
        }
        assert!(axis.place(1.0).is_finite());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(Axis::Latency.label(3.0), "1 µs");
        assert_eq!(Axis::Latency.label(7.0), "10 ms");
        assert_eq!(Axis::Rate.label(2.5e6), "2.5 M");
        assert_eq!(Axis::Seconds.label(0.5), "0.5 s");
        assert_eq!([Axis::Ranks.label(2.0), Axis::Ranks.label(2.5)], ["2", ""]);
        assert_eq!(Axis::Latency.range(2.3, 2.4), 2.0..4.0);
    }
}
