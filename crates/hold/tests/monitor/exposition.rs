//! The text format of Prometheus (0.0.4), read strictly: what Prometheus would forgive is an error
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::{Chars, Split};

/// A sample's name and labels.
pub type Series = (String, BTreeMap<String, String>);

/// The parsed metrics.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Kinds by name.
    pub kinds: BTreeMap<String, String>,
    pub samples: BTreeMap<Series, f64>,
}

impl Exposition {
    /// Reads a text.
    ///
    /// # Panics
    /// If the text violates the format.
    pub fn read(text: &str) -> Exposition {
        let lines = text.strip_suffix('\n').expect("the last line has an end");
        let (mut all, mut lines) = (Exposition::default(), lines.split('\n').peekable());
        while lines.peek().is_some() {
            all.family(&mut lines);
        }
        all
    }

    /// The one sample of a name, with these labels among others.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |series: &Series| {
            series.0 == name && labels.iter().all(|(l, v)| series.1.get(*l).is_some_and(|s| s == v))
        };
        let found: Vec<_> = self.samples.iter().filter(|(series, _)| fits(series)).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        *found[0].1
    }

    /// All samples of a name together.
    pub fn sum(&self, name: &str) -> f64 {
        self.samples.iter().filter(|(series, _)| series.0 == name).map(|(_, value)| value).sum()
    }

    /// Counters, and the counts of histograms, which may never decrease.
    pub fn counters(&self) -> impl Iterator<Item = (&Series, f64)> {
        self.samples.iter().filter_map(|(series, value)| {
            let is = |suffix: &str| {
                let family = series.0.strip_suffix(suffix);
                family.and_then(|f| self.kinds.get(f)).is_some_and(|kind| kind == "histogram")
            };
            let is_counter = self.kinds.get(&series.0).is_some_and(|kind| kind == "counter");
            (is_counter || is("_bucket") || is("_count") || is("_sum")).then_some((series, *value))
        })
    }

    fn family(&mut self, lines: &mut Peekable<Split<'_, char>>) {
        let help = lines.next().and_then(|line| line.strip_prefix("# HELP ")).expect("HELP first");
        let (name, help) = help.split_once(' ').expect("a name and its help");
        assert!(is_name(name, true) && !help.is_empty(), "{name}");
        let escapes = help.replace("\\\\", "").replace("\\n", "");
        assert!(!escapes.contains('\\'), "a strange escape in the help of {name}");
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("TYPE next");
        let (of, kind) = kind.split_once(' ').expect("a name and its kind");
        assert_eq!(of, name);
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let before = self.kinds.insert(name.to_owned(), kind.to_owned());
        assert_eq!(before, None, "{name} stands at two places");
        let mut own = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (series, value) = sample(line);
            let suffix =
                series.0.strip_prefix(name).unwrap_or_else(|| panic!("{line} below {name}"));
            let allowed: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line} below {name}");
            assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
            own.push((series.clone(), value));
            assert_eq!(self.samples.insert(series, value), None, "{line} is there twice");
        }
        assert!(!own.is_empty(), "{name} has no samples");
        if kind == "histogram" {
            check_histogram(name, &own);
        }
    }
}

fn check_histogram(name: &str, samples: &[(Series, f64)]) {
    let without = |labels: &BTreeMap<String, String>| {
        let mut labels = labels.clone();
        labels.remove("le");
        labels
    };
    let groups: BTreeSet<_> = samples.iter().map(|((_, labels), _)| without(labels)).collect();
    for group in groups {
        let of = |suffix: &str| {
            let full = format!("{name}{suffix}");
            let own = samples.iter().filter(move |(s, _)| s.0 == full);
            own.filter(|(s, _)| without(&s.1) == group).collect::<Vec<_>>()
        };
        let buckets: Vec<(f64, f64)> = of("_bucket")
            .iter()
            .map(|((_, labels), count)| {
                (labels["le"].replace("+Inf", "inf").parse().expect("a number"), *count)
            })
            .collect();
        assert!(buckets.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{buckets:?}");
        let last = buckets.last().expect("buckets");
        assert_eq!((of("_sum").len(), of("_count").len()), (1, 1), "{name}");
        assert_eq!((last.0, last.1), (f64::INFINITY, of("_count")[0].1), "{name}");
    }
}

fn is_name(name: &str, with_colons: bool) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (with_colons && c == ':');
    name.chars().all(fits) && name.starts_with(|c: char| !c.is_ascii_digit())
}

fn sample(line: &str) -> (Series, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = line.split_at(end);
    assert!(is_name(name, true), "{line}");
    let mut chars = rest.chars().peekable();
    let labels = match chars.next_if_eq(&'{') {
        Some(_) => labels(&mut chars, line),
        None => BTreeMap::new(),
    };
    assert_eq!(chars.next(), Some(' '), "{line}");
    let value: String = chars.collect();
    let value = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
    ((name.to_owned(), labels), value)
}

fn labels(chars: &mut Peekable<Chars<'_>>, line: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    loop {
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| *c != '=') {
            name.push(c);
        }
        assert!(is_name(&name, false) && !name.starts_with("__"), "{name} in {line}");
        assert_eq!((chars.next(), chars.next()), (Some('='), Some('"')), "{line}");
        let value = quoted(chars, line);
        assert_eq!(labels.insert(name, value), None, "{line}");
        match chars.next() {
            Some(',') => {}
            Some('}') => return labels,
            other => panic!("{other:?} in {line}"),
        }
    }
}

fn quoted(chars: &mut Peekable<Chars<'_>>, line: &str) -> String {
    let mut value = String::new();
    loop {
        match chars.next() {
            Some('"') => return value,
            Some('\\') => value.push(match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => panic!("\\{other:?} in {line}"),
            }),
            Some(c) => value.push(c),
            None => panic!("a value without an end: {line}"),
        }
    }
}
