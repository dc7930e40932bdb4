//! The chart of all ratios: green bars where Commonhold is ahead, red ones where the rival is.
//!
//! Invariant: the chart shows every ratio of its parts, losses as well as wins. A thin line spans
//! the rounds from the lowest to the highest.

use std::fmt::Display;

use anyhow::{Result, anyhow};
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::report::{Ratio, Report};

const WIDTH: i32 = 900;
const LEFT: i32 = 300;
const RIGHT: i32 = 70;
const TOP: i32 = 84;
const LINE: i32 = 17;
const BETWEEN: i32 = 8;
const BOTTOM: i32 = 30;
const TEXT: RGBColor = RGBColor(36, 41, 47);
const FAINT: RGBColor = RGBColor(110, 119, 129);
const GRID: RGBColor = RGBColor(208, 215, 222);
const AHEAD: RGBColor = RGBColor(45, 164, 78);
const BEHIND: RGBColor = RGBColor(207, 34, 46);
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One bar.
struct Bar {
    name: String,
    ratio: Ratio,
}

/// Bars under one title.
struct Group {
    title: String,
    bars: Vec<Bar>,
}

/// Draws the chart of the given parts as SVG. Each part has the name with which its titles begin.
pub fn svg(parts: &[(&str, &Report)], below_title: &str) -> Result<String> {
    let groups: Vec<Group> = parts.iter().flat_map(|(name, part)| groups(name, part)).collect();
    let height: i32 = groups.iter().map(Group::height).sum();
    let mut text = String::new();
    {
        let size = (WIDTH as u32, (TOP + height + BOTTOM) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area, &groups, TOP + height, below_title)?;
        area.present().map_err(said)?;
    }
    Ok(text)
}

fn groups(name: &str, part: &Report) -> Vec<Group> {
    let mut groups = Vec::new();
    for (workload, metric) in part.headings() {
        let here = part.results.iter().filter(|o| o.workload == workload && o.metric == metric);
        let bars: Vec<Bar> = here
            .filter_map(|one| {
                let ratio = part.ratio(&one.system, workload, metric)?;
                Some(Bar { name: one.system.clone(), ratio })
            })
            .filter(|bar| bar.ratio.median.is_finite() && bar.ratio.lowest > 0.0)
            .collect();
        if !bars.is_empty() {
            let title = format!("{name}{workload}, {}", metric.replace('_', " "));
            groups.push(Group { title, bars });
        }
    }
    groups
}

impl Group {
    fn height(&self) -> i32 {
        LINE * (self.bars.len() as i32 + 1) + BETWEEN
    }
}

/// The powers of ten between which all ratios lie.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn of(groups: &[Group]) -> Scale {
        let ratios = || groups.iter().flat_map(|group| &group.bars).map(|bar| &bar.ratio);
        let lowest = ratios().map(|ratio| ratio.lowest).fold(0.1, f64::min);
        let highest = ratios().map(|ratio| ratio.highest).fold(10.0, f64::max);
        Scale { low: lowest.log10().floor() as i32, high: highest.log10().ceil() as i32 }
    }

    fn x(&self, ratio: f64) -> i32 {
        let share = (ratio.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        LEFT + (share * f64::from(WIDTH - LEFT - RIGHT)).round() as i32
    }
}

fn draw(area: &Area<'_>, groups: &[Group], end: i32, below_title: &str) -> Result<()> {
    area.fill(&WHITE).map_err(said)?;
    write(area, "Commonhold compared with its rivals: how many times better", 14, 22, 17, &TEXT)?;
    let legend =
        "Green: Commonhold is ahead. Red: the rival is ahead. Logarithmic. Thin line: the rounds.";
    write(area, legend, 14, 44, 12, &FAINT)?;
    write(area, below_title, 14, 62, 12, &FAINT)?;
    let scale = Scale::of(groups);
    for power in scale.low..=scale.high {
        let x = scale.x(10f64.powi(power));
        let colour = if power == 0 { &TEXT } else { &GRID };
        area.draw(&PathElement::new([(x, TOP - 8), (x, end)], colour)).map_err(said)?;
        place(area, &shown(10f64.powi(power)), (x, end + 14), HPos::Center, &FAINT)?;
    }
    let mut y = TOP;
    for group in groups {
        write(area, &group.title, 14, y + LINE / 2, 12, &TEXT)?;
        for (bar, line) in group.bars.iter().zip(1..) {
            draw_bar(area, &scale, bar, y + line * LINE)?;
        }
        y += group.height();
    }
    Ok(())
}

fn draw_bar(area: &Area<'_>, scale: &Scale, bar: &Bar, y: i32) -> Result<()> {
    let ahead = bar.ratio.median >= 1.0;
    let colour = if ahead { &AHEAD } else { &BEHIND };
    let (one, end) = (scale.x(1.0), scale.x(bar.ratio.median));
    let corners = [(one.min(end), y + 3), (one.max(end).max(one.min(end) + 1), y + LINE - 3)];
    area.draw(&Rectangle::new(corners, colour.filled())).map_err(said)?;
    let middle = y + LINE / 2;
    let (low, high) = (scale.x(bar.ratio.lowest), scale.x(bar.ratio.highest));
    area.draw(&PathElement::new([(low, middle), (high, middle)], FAINT)).map_err(said)?;
    place(area, &bar.name, (LEFT - 8, middle), HPos::Right, &TEXT)?;
    let (x, side) = match ahead {
        true => (end.max(high) + 5, HPos::Left),
        false => (end.min(low) - 5, HPos::Right),
    };
    place(area, &shown(bar.ratio.median), (x, middle), side, &FAINT)
}

fn write(area: &Area<'_>, text: &str, x: i32, y: i32, size: i32, colour: &RGBColor) -> Result<()> {
    let style = TextStyle::from((FONT, size).into_font()).color(colour);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(text.to_owned(), (x, y), style)).map_err(said)
}

fn place(area: &Area<'_>, text: &str, at: (i32, i32), side: HPos, colour: &RGBColor) -> Result<()> {
    let style = TextStyle::from((FONT, 12).into_font()).color(colour);
    let style = style.pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(said)
}

/// A ratio with as few digits as it needs.
fn shown(ratio: f64) -> String {
    match ratio {
        r if r >= 10.0 => format!("{r:.0}x"),
        r if r >= 1.0 => format!("{r:.1}x").replace(".0x", "x"),
        r if r < 0.01 => format!("{r:.4}x"),
        r => format!("{r:.2}x").replace("0x", "x"),
    }
}

fn said(error: impl Display) -> anyhow::Error {
    anyhow!("the chart cannot be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_short() {
        let texts = [1234.4, 10.0, 2.04, 0.5, 0.36].map(shown);
        assert_eq!(texts, ["1234x", "10x", "2x", "0.5x", "0.36x"]);
    }

    #[test]
    fn every_ratio_is_on_the_scale() {
        let bar = |median, lowest, highest| Bar {
            name: "rival".to_owned(),
            ratio: Ratio { median, lowest, highest },
        };
        let bars = vec![bar(0.02, 0.004, 0.03), bar(300.0, 90.0, 2000.0)];
        let groups = [Group { title: "map".to_owned(), bars }];
        let scale = Scale::of(&groups);
        assert!(LEFT <= scale.x(0.004) && scale.x(2000.0) <= WIDTH - RIGHT);
        assert!(scale.x(0.02) < scale.x(1.0) && scale.x(1.0) < scale.x(300.0));
    }
}
