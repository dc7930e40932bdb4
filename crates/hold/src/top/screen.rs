//! The tables as a screen of a terminal: a line about the hold, its memory as a bar, the tables,
//! and the keys.
//!
//! Invariant: each line fits the screen. On a narrow screen, the less important columns are omitted
//! first, and then names are shortened.

use super::keys::{KEYS, Keys};
use super::sections::{Alarm, Section, sections};
use super::text::memory;
use super::view::View;
use commonhold_terminal::text::printable;
use console::{Alignment, measure_text_width, pad_str, truncate_str};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::time::Duration;

/// Space between two columns.
const GAP: usize = 2;
/// A shortened name keeps at least this width.
const LEAST: usize = 4;

/// The styles of the parts, with colours or without.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub has_colours: bool,
}

impl Theme {
    fn head(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.has_colours { style.fg(Color::Cyan) } else { style }
    }

    fn alarm(self, alarm: Alarm) -> Style {
        match (alarm, self.has_colours) {
            (Alarm::None, _) => Style::new(),
            (Alarm::Warning, true) => Style::new().fg(Color::Yellow),
            (Alarm::Danger, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (Alarm::Warning, false) => Style::new().add_modifier(Modifier::BOLD),
            (Alarm::Danger, false) => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// The style of the bar, by the share that is used (0 to 1).
    fn bar(self, share: f64) -> Style {
        self.alarm(match share {
            ..0.75 => Alarm::None,
            ..0.9 => Alarm::Warning,
            _ => Alarm::Danger,
        })
    }
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &View, keys: &mut Keys, interval: Duration, theme: Theme) {
    let parts =
        [Constraint::Length(2), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [top, _, middle, bottom] = Layout::vertical(parts).areas(frame.area());
    let width = usize::from(frame.area().width);
    let lines = body(&sections(view, keys.order), width, theme);
    keys.fit(lines.len(), usize::from(middle.height));
    head(frame, view, keys, interval, theme, top);
    let above = u16::try_from(keys.above).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(lines).scroll((above, 0)), middle);
    frame.render_widget(Line::from(foot(keys, width)).style(theme.head()), bottom);
}

fn head(
    frame: &mut Frame<'_>,
    view: &View,
    keys: &Keys,
    interval: Duration,
    theme: Theme,
    area: Rect,
) {
    let width = usize::from(area.width);
    let mut first = state(view, keys, interval, theme);
    let room = width.saturating_sub(first.iter().map(Span::width).sum());
    let path = printable(&view.hold.path);
    let path = pad_str(&shortened_path(&path, room), room, Alignment::Left, None).into_owned();
    first.insert(0, Span::styled(path, Style::new().add_modifier(Modifier::BOLD)));
    let first = Line::from(first);
    let share = view.hold.used_bytes as f64 / view.hold.max_bytes.max(1) as f64;
    let words = memory(view);
    // The bar takes the room that the words leave.
    let room = width.saturating_sub(measure_text_width(&words) + GAP + 2).min(40);
    let bar = match room {
        ..8 => Line::from(truncate_str(&words, width, "…").into_owned()),
        _ => {
            let used = ((share * room as f64).ceil() as usize).min(room);
            Line::from(vec![
                Span::raw("["),
                Span::styled("|".repeat(used), theme.bar(share)),
                Span::raw(format!("{}]  {words}", " ".repeat(room - used))),
            ])
        }
    };
    frame.render_widget(Paragraph::new(vec![first, bar]), area);
}

/// The number of suspended processes (their rows may be out of sight), and the interval or
/// `paused`.
fn state(view: &View, keys: &Keys, interval: Duration, theme: Theme) -> Vec<Span<'static>> {
    let mut state = Vec::new();
    let suspended: Vec<_> = view.participants.iter().filter(|one| one.is_suspended()).collect();
    if !suspended.is_empty() {
        let has_locks = suspended.iter().any(|one| !one.locks.is_empty());
        let alarm = if has_locks { Alarm::Danger } else { Alarm::Warning };
        state.push(Span::raw(" ".repeat(GAP)));
        state.push(Span::styled(format!("{} stopped", suspended.len()), theme.alarm(alarm)));
    }
    state.push(Span::raw(" ".repeat(GAP)));
    state.push(match keys.is_paused {
        true => Span::styled("paused", theme.alarm(Alarm::Warning)),
        false => Span::raw(format!("every {}", humantime::format_duration(interval))),
    });
    state
}

/// Shortens a path at its beginning, because its end is more important.
fn shortened_path(path: &str, room: usize) -> String {
    let width = measure_text_width(path);
    match width > room {
        false => path.to_owned(),
        true => {
            let keep = room.saturating_sub(1);
            let mut rest = path;
            while measure_text_width(rest) > keep {
                let mut letters = rest.chars();
                letters.next();
                rest = letters.as_str();
            }
            format!("…{rest}")
        }
    }
}

fn foot(keys: &Keys, width: usize) -> String {
    let order = format!("{KEYS}: {}", keys.order.name());
    let more = match keys.below() {
        0 => String::new(),
        lines => format!("{lines} more \u{2193}"),
    };
    let room = width.saturating_sub(measure_text_width(&more));
    let left = truncate_str(&order, room, "…");
    format!("{}{more}", pad_str(&left, room, Alignment::Left, None))
}

fn body(sections: &[Section], width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for section in sections {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let columns = fitting(section, width);
        let heads = columns.iter().map(|column| section.columns[column.number].name.to_uppercase());
        lines.push(Line::styled(joined(section, &columns, heads), theme.head()));
        for row in &section.rows {
            let cells = columns.iter().map(|column| row.cells[column.number].clone());
            lines.push(Line::styled(joined(section, &columns, cells), theme.alarm(row.alarm)));
        }
    }
    if lines.is_empty() {
        lines.push(Line::from("the hold is empty"));
    }
    lines
}

/// A column on the screen.
struct Placed {
    number: usize,
    width: usize,
}

/// The columns that fit the width.
fn fitting(section: &Section, width: usize) -> Vec<Placed> {
    let placed = |number: usize| {
        let cells = section.rows.iter().map(|row| measure_text_width(&row.cells[number]));
        let head = section.columns[number].name.len();
        Placed { number, width: cells.max().unwrap_or(0).max(head) }
    };
    let mut columns: Vec<Placed> = (0..section.columns.len()).map(placed).collect();
    while total(&columns) > width {
        let rank = |column: &&Placed| section.columns[column.number].rank;
        // The last column of the highest rank.
        let Some(last) = columns.iter().max_by_key(rank).filter(|c| rank(c) > 0) else { break };
        let number = last.number;
        columns.retain(|column| column.number != number);
    }
    shorten(section, &mut columns, width);
    columns
}

fn total(columns: &[Placed]) -> usize {
    columns.iter().map(|column| column.width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Takes room from the widest names.
fn shorten(section: &Section, columns: &mut [Placed], width: usize) {
    while total(columns) > width {
        let names = columns.iter_mut().filter(|column| !section.columns[column.number].is_number);
        match names.max_by_key(|column| column.width).filter(|column| column.width > LEAST) {
            Some(column) => column.width -= 1,
            None => return,
        }
    }
}

fn joined(section: &Section, columns: &[Placed], cells: impl Iterator<Item = String>) -> String {
    let cells = columns.iter().zip(cells).map(|(column, cell)| {
        let side = match section.columns[column.number].is_number {
            true => Alignment::Right,
            false => Alignment::Left,
        };
        pad_str(&truncate_str(&cell, column.width, "…"), column.width, side, None).into_owned()
    });
    cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
}
