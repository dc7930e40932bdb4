//! [`FullScreen`] uses the whole terminal as its screen. Dropping it, even after an error or a
//! panic, restores the terminal.

use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::wait_until_reader_is_gone;
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};
use std::ffi::OsStr;
use std::time::Duration;

/// See the module.
pub struct FullScreen {
    terminal: DefaultTerminal,
}

/// Checks that standard output can show a screen.
///
/// # Errors
/// If it cannot; the error names the remedy.
pub fn ensure_screen(is_terminal: bool, term: Option<&OsStr>) -> Result<()> {
    let found = match (is_terminal, term) {
        (false, _) => "standard output is not a terminal",
        (true, Some(term)) if term == "dumb" => "the terminal cannot move its cursor (TERM=dumb)",
        (true, _) => return Ok(()),
    };
    Err(Failure::failed(format!(
        "{found}; use 'hold top --once', which prints the view as plain text"
    )))
}

/// Whether the user allows colours: `NO_COLOR` is unset or empty.
pub fn has_colours(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

impl FullScreen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn begin() -> Result<FullScreen> {
        // After a panic, a hook restores the terminal before the panic's message is printed.
        match ratatui::try_init() {
            Ok(terminal) => {
                let screen = FullScreen { terminal };
                std::thread::spawn(end_with_terminal);
                // Not every terminal begins its second screen empty. (`Terminal::clear` would ask
                // the terminal for the position of its cursor, and wait for the answer.)
                let cleared = execute!(std::io::stdout(), Clear(ClearType::All));
                cleared.map(|()| screen).map_err(|error| failed(&error))
            }
            Err(error) => {
                let _ = ratatui::try_restore();
                Err(failed(&error))
            }
        }
    }

    /// Draws the screen.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        self.terminal.draw(draw).map(drop).map_err(|error| failed(&error))
    }

    /// Whether an event arrives within `time`. An error counts as an event: `event` reports it.
    pub fn has_event(time: Duration) -> bool {
        event::poll(time).unwrap_or(true)
    }

    /// The next event, if there is one now.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn event() -> Result<Option<Event>> {
        match event::poll(Duration::ZERO)
            .and_then(|is_there| is_there.then(event::read).transpose())
        {
            Ok(event) => Ok(event),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Ends the process when the terminal hangs up. It may not be the controlling one, whose end is a
/// signal, and crossterm tries to read from it again and again, without a way out.
fn end_with_terminal() {
    if wait_until_reader_is_gone() {
        std::process::exit(0);
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::failed(format!("the terminal: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_needs_a_terminal_that_can_move_its_cursor() {
        let dumb = OsStr::new("dumb");
        for (is_terminal, term) in [(false, None), (false, Some(dumb)), (true, Some(dumb))] {
            let error = ensure_screen(is_terminal, term).expect_err("an error");
            assert!(format!("{error:?}").contains("--once"), "{error:?}");
        }
        assert!(ensure_screen(true, Some(OsStr::new("xterm"))).is_ok());
        assert!(ensure_screen(true, None).is_ok());
    }

    #[test]
    fn no_color_counts_if_it_is_not_empty() {
        assert!(has_colours(None) && has_colours(Some(OsStr::new(""))));
        assert!(!has_colours(Some(OsStr::new("1"))));
    }
}
