//! Curves of the last minutes, as hand-written SVG.
//!
//! The curves are in a picture that is stretched to the available space; the words next to them are
//! not stretched. The newest second is at the right edge, and missing values are a gap.

use super::markup::escaped;
use crate::monitor::history::SECONDS;
use std::fmt::Write;

/// One curve, oldest value first; the last one is of now.
pub struct Curve {
    pub name: &'static str,
    /// Its style: `one` or `two`.
    pub class: &'static str,
    pub values: Vec<Option<f64>>,
}

/// The scale of the vertical axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero on.
    Linear,
    /// Logarithmic: each power of ten has the same height.
    Log,
}

/// A chart.
pub struct Chart {
    pub title: &'static str,
    pub scale: Scale,
    pub curves: Vec<Curve>,
    /// A value for people.
    pub shown: fn(f64) -> String,
}

/// Height of the picture that is stretched.
const HEIGHT: f64 = 100.0;

impl Chart {
    /// The chart as a figure.
    pub fn html(&self) -> String {
        let (low, high, lines) = self.axis();
        let height = |value: f64| {
            let part = match self.scale {
                Scale::Linear => (value - low) / (high - low),
                Scale::Log => (value.max(low) / low).log10() / (high / low).log10(),
            };
            // Some room above and below for the width of lines.
            HEIGHT - 2.0 - part.clamp(0.0, 1.0) * (HEIGHT - 14.0)
        };
        let (mut grid, mut words) = (String::new(), String::new());
        for line in lines {
            let y = height(line);
            let _ = write!(grid, "<path class=\"grid\" d=\"M0 {y:.1}H{SECONDS}\"/>");
            let label = escaped(&(self.shown)(line).replace(".0 ", " "));
            let _ = write!(words, "<text x=\"2\" y=\"{y:.1}%\" dy=\"-3\">{label}</text>");
        }
        let curves: String =
            self.curves.iter().map(|curve| drawn(curve, self.scale, height)).collect();
        let legend: String = self.curves.iter().map(|curve| self.key(curve)).collect();
        let title = escaped(self.title);
        let minutes = SECONDS / 60;
        format!(
            "<figure>\n<figcaption><b>{title}</b>{legend}</figcaption>\n\
             <svg class=\"chart\" role=\"img\" aria-label=\"{title}, the last {minutes} minutes\">\n\
             <svg viewBox=\"0 0 {SECONDS} {HEIGHT}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">{grid}{curves}</svg>\n\
             {words}</svg>\n<p class=\"axis\"><span>{minutes} minutes ago</span><span>now</span></p>\n</figure>\n"
        )
    }

    /// The name of the curve and its present value; all values, for the script.
    fn key(&self, curve: &Curve) -> String {
        let shown = |value: &Option<f64>| value.map_or("–".to_owned(), self.shown);
        let now = escaped(&curve.values.last().map_or("–".to_owned(), shown));
        let all: Vec<String> = curve.values.iter().map(|value| escaped(&shown(value))).collect();
        format!(
            " <span class=\"key {}\" data-values=\"{}\">{} <output>{now}</output></span>",
            curve.class,
            all.join("|"),
            escaped(curve.name)
        )
    }

    /// Lowest and highest value, and the positions of grid lines.
    fn axis(&self) -> (f64, f64, Vec<f64>) {
        let values = || self.curves.iter().flat_map(|curve| curve.values.iter().flatten().copied());
        let most = values().fold(0.0, f64::max);
        match self.scale {
            Scale::Linear => {
                let high = round_up(most);
                (0.0, high, vec![high / 2.0, high])
            }
            Scale::Log => {
                let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
                let low = if least.is_finite() { least.log10().floor() } else { 1.0 };
                let high = most.max(1.0).log10().ceil().max(low + 2.0);
                let lines = (low as i32..=high as i32).map(|power| 10f64.powi(power)).collect();
                (10f64.powf(low), 10f64.powf(high), lines)
            }
        }
    }
}

/// The next number that begins with 1, 2 or 5.
fn round_up(value: f64) -> f64 {
    if !(value > 1.0 && value.is_finite()) {
        return 2.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|v| *v >= value)
        .unwrap_or(value)
}

fn drawn(curve: &Curve, scale: Scale, height: impl Fn(f64) -> f64) -> String {
    let first = SECONDS.saturating_sub(curve.values.len());
    let (mut line, mut area, mut begun) = (String::new(), String::new(), None);
    for (x, value) in (first..).zip(&curve.values) {
        match (value, begun) {
            (Some(value), before) => {
                let y = height(*value);
                let with = if before.is_none() { 'M' } else { 'L' };
                let _ = write!(line, "{with}{x} {y:.1}");
                match before {
                    None => area.push_str(&format!("M{x} {HEIGHT}V{y:.1}")),
                    Some(_) => area.push_str(&format!("L{x} {y:.1}")),
                }
                begun = Some(x);
            }
            (None, Some(last)) => {
                let _ = write!(area, "L{last} {HEIGHT}Z");
                begun = None;
            }
            (None, None) => {}
        }
    }
    if let Some(last) = begun {
        let _ = write!(area, "L{last} {HEIGHT}Z");
    }
    let class = curve.class;
    if scale == Scale::Log {
        // Without values there is no area.
        area.clear();
    }
    format!(
        "<path class=\"area {class}\" d=\"{area}\"/><path class=\"line {class}\" d=\"{line}\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, values: Vec<Option<f64>>) -> String {
        let curves = vec![Curve { name: "all", class: "one", values }];
        Chart { title: "Requests", scale, curves, shown: |value| value.to_string() }.html()
    }

    #[test]
    fn any_values_make_a_chart() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![None], vec![Some(0.0)], vec![Some(1e18), None, Some(1e-9)]]
            {
                let html = chart(scale, values.clone());
                assert!(
                    html.contains("</svg>") && !html.contains("NaN") && !html.contains("inf"),
                    "{values:?}: {html}"
                );
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let html = chart(Scale::Linear, vec![Some(1.0), Some(2.0), None, Some(2.0)]);
        assert!(html.contains("d=\"M296 55.0L297 12.0M299 12.0\""), "{html}");
        assert!(html.contains("data-values=\"1|2|–|2\""), "{html}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.0, 3.0, 5.0, 71.0, 101.0].map(round_up), [2.0, 5.0, 5.0, 100.0, 200.0]);
    }
}
