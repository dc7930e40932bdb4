//! The output during the show: a table that stays in place on a terminal, plain lines when piped,
//! nothing if only the result is requested.

use super::processes::{Member, Processes, Seen, State};
use super::work::{Part, Role};
use crate::workload::{
    Result,
    latency::{Latencies, show},
    say,
};
use console::{Term, style, truncate_str};
use indicatif::HumanCount;
use std::io::IsTerminal;

/// The moment that is shown.
pub struct Frame<'a> {
    /// Seconds since the beginning.
    pub elapsed: f64,
    /// Seconds of the whole show.
    pub seconds: f64,
    /// The processes.
    pub processes: &'a Processes,
}

/// The kind of output.
pub enum Screen {
    /// A table on a terminal.
    Live(Live),
    /// A line now and then.
    Plain {
        /// Seconds at which the next line is due.
        next: f64,
    },
    /// Nothing.
    Silent,
}

/// A table that is drawn over itself.
pub struct Live {
    term: Term,
    title: String,
    happened: Vec<String>,
    drawn: usize,
    smoothed: [f64; 16],
}

impl Screen {
    /// The screen that fits standard output; silent if `silent`.
    pub fn new(silent: bool, title: &str) -> Result<Screen> {
        if silent {
            return Ok(Screen::Silent);
        }
        if !std::io::stdout().is_terminal() {
            say(title)?;
            return Ok(Screen::Plain { next: 1.0 });
        }
        let term = Term::stdout();
        // A terminal that cannot hide its cursor shows it; nothing else changes.
        let _ = term.hide_cursor();
        let title = title.to_owned();
        let smoothed = [0.0; 16];
        Ok(Screen::Live(Live { term, title, happened: Vec::new(), drawn: 0, smoothed }))
    }

    /// Reports a suspension or a kill.
    pub fn happened(&mut self, elapsed: f64, what: &str) -> Result<()> {
        let line = format!("{elapsed:5.1} s  {what}");
        match self {
            Screen::Live(live) => live.happened.push(line),
            Screen::Plain { .. } => say(&line)?,
            Screen::Silent => {}
        }
        Ok(())
    }

    /// Shows the moment.
    pub fn show(&mut self, frame: &Frame) -> Result<()> {
        match self {
            Screen::Live(live) => live.draw(frame),
            Screen::Plain { next } if frame.elapsed >= *next => {
                say(&plain(frame))?;
                *next = frame.elapsed.floor() + 1.0;
            }
            Screen::Plain { .. } | Screen::Silent => {}
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Screen::Live(live) = self {
            let _ = live.term.show_cursor();
        }
    }
}

impl Live {
    fn draw(&mut self, frame: &Frame) {
        let mut lines = vec![style(&self.title).bold().to_string(), clock(frame)];
        lines.push(
            style("process     pid       state             operations/s         total")
                .dim()
                .to_string(),
        );
        for (member, smoothed) in frame.processes.members.iter().zip(&mut self.smoothed) {
            // A little inertia, so that the numbers are readable.
            *smoothed =
                if *smoothed == 0.0 { member.rate } else { 0.7 * *smoothed + 0.3 * member.rate };
            let works = matches!(member.state, State::Working | State::Done);
            let rate = if works { *smoothed } else { 0.0 };
            lines.push(row(member, rate));
        }
        lines.push(String::new());
        lines.extend(latency_table(&frame.processes.seen, true));
        lines.push(String::new());
        lines.extend(self.happened.iter().cloned());
        self.put(&lines);
    }

    fn put(&mut self, lines: &[String]) {
        let width = usize::from(self.term.size().1);
        let mut text = String::new();
        for line in lines {
            text.push_str("\r\x1b[K");
            text.push_str(&truncate_str(line, width.saturating_sub(1), "…"));
            text.push('\n');
        }
        // The hang-up signal reports a terminal that went away.
        let _ = self.term.move_cursor_up(self.drawn);
        let _ = self.term.write_str(&text);
        let _ = self.term.flush();
        self.drawn = lines.len();
    }
}

fn clock(frame: &Frame) -> String {
    style(format!("{:.1} of {:.0} s", frame.elapsed, frame.seconds)).cyan().to_string()
}

fn row(member: &Member, rate: f64) -> String {
    let state = match (member.state, member.role) {
        (State::Working, Role::Reader) => style("reads").green(),
        (State::Working, Role::Writer { .. }) => style("writes").green(),
        (State::Suspended, _) => style("SUSPENDED").yellow().bold(),
        (State::Killed, _) => style("KILLED").red().bold(),
        (State::Done, _) => style("finished").dim(),
    };
    // Padded before it is coloured: colours have no width.
    let gap = " ".repeat(14usize.saturating_sub(console::measure_text_width(&state.to_string())));
    let (name, pid) = (&member.worker.name, member.worker.pid());
    let (rate, done) = (HumanCount(rate as u64).to_string(), HumanCount(member.done).to_string());
    format!("{name:<10}  {pid:<8}  {state}{gap}  {rate:>14}  {done:>12}")
}

/// The latency table's lines, of less than 80 columns; with colours if `coloured`.
pub fn latency_table(seen: &Seen, coloured: bool) -> Vec<String> {
    let heading = format!(
        "{:<25} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "time of one read", "reads", "median", "p99", "p99.9", "slowest"
    );
    let heading = if coloured { style(heading).dim().to_string() } else { heading };
    let labels = ["before", "one suspended, one killed", "after"];
    let rows = labels.iter().zip(&seen.latencies).map(|(label, l)| latency_row(label, l));
    std::iter::once(heading).chain(rows).collect()
}

fn latency_row(label: &str, latencies: &Latencies) -> String {
    if latencies.count() == 0 {
        return format!("{label:<25} {:>12}", "-");
    }
    let times = [0.5, 0.99, 0.999].map(|quantile| show(latencies.at(quantile)));
    let [median, p99, p999] = times;
    let (count, slowest) = (HumanCount(latencies.count()).to_string(), show(latencies.longest()));
    format!("{label:<25} {count:>12} {median:>9} {p99:>9} {p999:>9} {slowest:>9}")
}

/// One line with the current state.
fn plain(frame: &Frame) -> String {
    let rate = |wanted: fn(&Role) -> bool| {
        let members = frame.processes.members.iter();
        let rates = members.filter(|m| wanted(&m.role) && m.state == State::Working);
        HumanCount(rates.map(|m| m.rate).sum::<f64>() as u64).to_string()
    };
    let reads = rate(|role| *role == Role::Reader);
    let writes = rate(|role| *role != Role::Reader);
    let part = match frame.processes.seen.latencies.each_ref().map(Latencies::count) {
        [_, 0, 0] => Part::Before,
        [_, _, 0] => Part::During,
        _ => Part::After,
    };
    let median = show(frame.processes.seen.latencies[part as usize].at(0.5));
    format!(
        "{:5.1} s  {reads:>11} reads/s  {writes:>11} writes/s  median read {median}",
        frame.elapsed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_fits_80_columns() {
        let slow = || {
            let mut latencies = Latencies::new();
            latencies.record(999_000_000);
            latencies
        };
        let (latencies, wrong) = ([slow(), slow(), slow()], Default::default());
        let mut lines = latency_table(&Seen { latencies, wrong, first_wrong: None }, false);
        assert!(lines[0].ends_with("slowest"));
        lines.push(crate::demo::title(99_999));
        for line in lines {
            assert!(line.chars().count() < 80, "{line}");
        }
    }
}
