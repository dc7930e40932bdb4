//! Patterns of names, as in a shell: `*` stands for any characters, `?` for one.

use commonhold::{Error, ErrorKind, Result};

/// Patterns, of which a name must match one; without any, every name matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(Vec<Vec<char>>);

impl Patterns {
    /// # Errors
    /// `Invalid` for an empty pattern, which no name matches.
    pub(crate) fn new(patterns: &[String]) -> Result<Patterns> {
        if patterns.iter().any(String::is_empty) {
            let text = "expected a pattern of map names, such as 'session:*', got an empty one";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(Patterns(patterns.iter().map(|pattern| pattern.chars().collect()).collect()))
    }

    /// Whether an ordinary map of this name is meant. Commonhold's own names never match.
    pub(crate) fn accept(&self, name: &str) -> bool {
        let chars: Vec<char> = name.chars().collect();
        let is_own = name.starts_with('.');
        let is_meant = self.0.is_empty() || self.0.iter().any(|pattern| matches(pattern, &chars));
        !is_own && is_meant
    }
}

/// Takes at most as many steps as the product of both lengths.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Behind the last star, and the first character that it does not stand for.
    let mut star = None;
    while next < name.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, next));
            }
            Some(wanted) if *wanted == '?' || *wanted == name[next] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((behind, end)) = star else { return false };
                star = Some((behind, end + 1));
                (at, next) = (behind, end + 1);
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(patterns: &[&str], name: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        Patterns::new(&patterns).unwrap().accept(name)
    }

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name) in [
            ("prices", "prices"),
            ("*", "prices"),
            ("session:*", "session:"),
            ("session:*", "session:a/b"),
            ("*s", "prices"),
            ("p*i*s", "prices"),
            ("pr?ces", "prüces"),
            ("a*b*a*b", "abaabab"),
            ("**", "x"),
        ] {
            assert!(accepts(&[pattern], name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("prices", "price"),
            ("price", "prices"),
            ("session:*", "session"),
            ("?", ""),
            ("p*x", "prices"),
            ("[p]rices", "prices"),
            ("*", ".reports"),
            (".reports", ".reports"),
        ] {
            assert!(!accepts(&[pattern], name), "{pattern} {name}");
        }
        assert!(accepts(&[], "prices") && !accepts(&[], ".acks/prices"));
        assert!(accepts(&["a", "b"], "b") && !accepts(&["a", "b"], "c"));
        assert!(Patterns::new(&[String::new()]).is_err());
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = "*a".repeat(100) + "b";
        assert!(!accepts(&[&pattern], &"a".repeat(200)));
    }
}
