//! The state that the user changes with keys: the order of rows, the position, and the pause.

use super::sections::Order;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The footer of the screen: the keys.
pub const KEYS: &str = "q quit  p pause  \u{2191}\u{2193} scroll  s sort";

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    pub order: Order,
    /// Lines of the tables above the screen.
    pub above: usize,
    pub is_paused: bool,
    pub is_over: bool,
    /// The number of lines that the screen shows at once, and the most lines that can be above it.
    page: usize,
    most_above: usize,
}

impl Keys {
    /// Notes the size of the tables and of the screen, and moves the position into the tables.
    pub fn fit(&mut self, lines: usize, height: usize) {
        self.page = height;
        self.most_above = lines.saturating_sub(height);
        self.above = self.above.min(self.most_above);
    }

    /// The lines that are below the screen.
    pub fn below(&self) -> usize {
        self.most_above.saturating_sub(self.above)
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'C') if control => self.is_over = true,
            _ if control => {}
            KeyCode::Char('q' | 'Q') => self.is_over = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(self.page as isize),
            KeyCode::PageUp => self.move_by(-(self.page as isize)),
            KeyCode::Home => self.above = 0,
            KeyCode::End => self.above = self.most_above,
            _ => {}
        }
    }

    fn move_by(&mut self, lines: isize) {
        self.above = self.above.saturating_add_signed(lines).min(self.most_above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(keys: &mut Keys, codes: &[KeyCode]) {
        codes.iter().for_each(|code| keys.press(KeyEvent::new(*code, KeyModifiers::NONE)));
    }

    #[test]
    fn the_position_stays_in_the_tables() {
        let mut keys = Keys::default();
        keys.fit(30, 10);
        pressed(&mut keys, &[KeyCode::Up]);
        assert_eq!((keys.above, keys.below()), (0, 20));
        pressed(&mut keys, &[KeyCode::Down, KeyCode::PageDown]);
        assert_eq!((keys.above, keys.below()), (11, 9));
        pressed(&mut keys, &[KeyCode::PageDown]);
        assert_eq!((keys.above, keys.below()), (20, 0));
        keys.fit(15, 10);
        assert_eq!(keys.above, 5);
        keys.fit(5, 10);
        pressed(&mut keys, &[KeyCode::End]);
        assert_eq!((keys.above, keys.below()), (0, 0));
    }

    #[test]
    fn keys_sort_pause_and_end() {
        let mut keys = Keys::default();
        let mut orders = Vec::new();
        for _ in 0..4 {
            orders.push(keys.order.name());
            pressed(&mut keys, &[KeyCode::Char('s')]);
        }
        assert_eq!(orders, ["name", "rate", "size", "name"]);
        pressed(&mut keys, &[KeyCode::Char('p')]);
        assert!(keys.is_paused && !keys.is_over);
        pressed(&mut keys, &[KeyCode::Char('p'), KeyCode::Char('c'), KeyCode::Esc]);
        assert!(!keys.is_paused && !keys.is_over);
        keys.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(keys.is_over);
        let mut keys = Keys::default();
        pressed(&mut keys, &[KeyCode::Char('q')]);
        assert!(keys.is_over);
    }
}
