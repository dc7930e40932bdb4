//! The text format of Prometheus, version 0.0.4.
//!
//! ```text
//! # HELP name what it is
//! # TYPE name counter
//! name{label="value"} 1
//! ```
//! In help `\` and newlines are escaped, in values of labels quotes, too. All samples of a name are
//! consecutive.

use std::fmt::Write;

/// The kind of number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Never decreases; its name ends with `_total`.
    Counter,
    Gauge,
}

/// Labels of a sample: names and values.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// See the module.
#[derive(Default)]
pub struct Text(String);

impl Text {
    /// All samples of a name; nothing, if there are none.
    pub fn family<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        debug_assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.head(name, if kind == Kind::Counter { "counter" } else { "gauge" }, help);
        }
        samples.for_each(|(labels, value)| self.sample(name, &labels, value));
    }

    /// The lines above the samples of a name.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (number, (label, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_below_their_head() {
        let mut text = Text::default();
        text.family("none", Kind::Gauge, "nothing", []);
        let labels = vec![("map", "a\"b\\c\nd"), ("pid", "7")];
        text.family("hold_a_total", Kind::Counter, "of\n\\a", [(labels, 1e15), (vec![], 0.25)]);
        assert_eq!(
            text.finish(),
            "# HELP hold_a_total of\\n\\\\a\n# TYPE hold_a_total counter\n\
             hold_a_total{map=\"a\\\"b\\\\c\\nd\",pid=\"7\"} 1000000000000000\nhold_a_total 0.25\n"
        );
    }
}
