//! The result of one check: severity, observation, meaning, advice.

use console::{Style, pad_str};
use serde_json::{Value, json};

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Holds work, but something may surprise.
    Warn,
    /// Holds do not work.
    Fail,
}

/// One check's result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The subject of the check.
    pub name: String,
    /// The severity.
    pub level: Level,
    /// The observation.
    pub seen: String,
    /// The meaning of the observation for holds.
    pub meaning: String,
    /// The advice; empty if there is none.
    pub advice: String,
}

/// The width of names in the text for people.
const NAME_WIDTH: usize = 24;
/// The width of explanations in the text for people.
const TEXT_WIDTH: usize = 88;

impl Finding {
    /// All is well with `name`.
    pub fn ok(name: &str, seen: impl Into<String>, meaning: &str) -> Finding {
        Finding::new(name, Level::Ok, seen, meaning, "")
    }

    /// Something about `name` may surprise.
    pub fn warn(name: &str, seen: impl Into<String>, meaning: &str, advice: &str) -> Finding {
        Finding::new(name, Level::Warn, seen, meaning, advice)
    }

    /// Holds do not work because of `name`.
    pub fn fail(name: &str, seen: impl Into<String>, meaning: &str, advice: &str) -> Finding {
        Finding::new(name, Level::Fail, seen, meaning, advice)
    }

    fn new(
        name: &str,
        level: Level,
        seen: impl Into<String>,
        meaning: &str,
        advice: &str,
    ) -> Finding {
        Finding {
            name: name.to_owned(),
            level,
            seen: seen.into(),
            meaning: meaning.to_owned(),
            advice: advice.to_owned(),
        }
    }

    /// The finding for people, with its meaning only where there is something to do.
    pub fn text(&self, colors: bool) -> String {
        let level = self.level.style().force_styling(colors).apply_to(self.level.name());
        let name = pad_str(&self.name, NAME_WIDTH, console::Alignment::Left, None);
        let mut text = format!("{level:4}  {name}  {}", self.seen);
        if self.level != Level::Ok {
            text.push_str(&explanation("means", &self.meaning));
            text.push_str(&explanation("to do", &self.advice));
        }
        text
    }

    /// The finding in JSON.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "level": self.level.name(),
            "seen": self.seen,
            "meaning": self.meaning,
            "advice": if self.advice.is_empty() { None } else { Some(&self.advice) },
        })
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        }
    }

    fn style(self) -> Style {
        match self {
            Level::Ok => Style::new().green(),
            Level::Warn => Style::new().yellow(),
            Level::Fail => Style::new().red().bold(),
        }
    }
}

/// A paragraph under a finding, its lines broken between words.
fn explanation(title: &str, text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > TEXT_WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let indent = format!("\n      {:7}", "");
    format!("\n      {title}: {}", lines.join(&indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_findings_with_advice_show_their_meaning() {
        let ok = Finding::ok("kernel", "6.18", "New enough.");
        assert_eq!(ok.text(false), "ok    kernel                    6.18");
        let warn = Finding::warn("limit", "1", "It is low.", "Raise it.");
        let text = warn.text(false);
        assert!(text.contains("\n      means: It is low.\n      to do: Raise it."), "{text}");
        assert_eq!(warn.json()["advice"], "Raise it.");
        assert_eq!(ok.json()["advice"], Value::Null);
    }
}
