//! The text of `hold --version` and `hold nats --version`: the version, the commit if it is known,
//! and the format of holds.

use commonhold::raw::FORMAT;
use std::sync::OnceLock;

/// The text after the name of the program.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| of(option_env!("COMMONHOLD_COMMIT")))
}

fn of(commit: Option<&str>) -> String {
    let commit = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    format!("{}{commit}, hold format {FORMAT}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_shown_if_it_is_known() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(of(None), format!("{version}, hold format {FORMAT}"));
        assert_eq!(of(Some("0a1b")), format!("{version} (0a1b), hold format {FORMAT}"));
    }
}
