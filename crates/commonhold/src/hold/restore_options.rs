//! Options of restoring a backup: which of its maps.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::maps::lineage_name;
use crate::memory::roots::is_own;
use std::collections::BTreeSet;

/// The most names of maps that one error lists.
const MOST_NAMES: usize = 20;

/// Options of restoring a backup. Without options, all its maps are restored, as by
/// [`restore`](crate::hold::restore).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-restore-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// # hold.maps().open_or_create("prices", commonhold::map::MapOptions::general())?.set("a", "1")?;
/// # hold.maps().open_or_create("names", commonhold::map::MapOptions::general())?;
/// # let (backup, copy) = (dir.join("it.backup"), dir.join("copy.hold"));
/// # hold.backup(&backup)?;
/// use commonhold::hold::RestoreOptions;
///
/// let report = RestoreOptions::new().map("prices").restore(&backup, &copy)?;
/// assert_eq!((report.maps, report.pairs), (1, 1));
/// # drop(hold);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Empty for all maps.
    maps: BTreeSet<String>,
}

impl RestoreOptions {
    /// Restores all maps.
    #[must_use]
    pub fn new() -> RestoreOptions {
        RestoreOptions::default()
    }

    /// Restores this map, and only the maps that such calls name. The record of where a map comes
    /// from is restored with it, so replicas follow the restored map.
    #[must_use]
    pub fn map(mut self, name: impl Into<String>) -> RestoreOptions {
        self.maps.insert(name.into());
        self
    }

    /// Whether the map of this name in the backup is to be restored.
    pub(super) fn include(&self, name: &str) -> bool {
        self.maps.is_empty()
            || self.maps.contains(name)
            || self.maps.iter().any(|map| lineage_name(map) == name)
    }

    /// # Errors
    /// `NotFound` if one of the given maps is not among these names of the backup's maps.
    pub(super) fn ensure_present(&self, backup: &str, names: &BTreeSet<&str>) -> Result<()> {
        let names: Vec<_> = names.iter().filter(|name| !is_own(name)).copied().collect();
        let is_missing = |map: &&str| !names.contains(map);
        let missing: Vec<_> = self.maps.iter().map(String::as_str).filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = match names.is_empty() {
            true => "it contains no map".to_owned(),
            false => format!("it contains {}; name one of them", listed(&names)),
        };
        let text = format!("{backup}: the backup does not contain {}; {found}", listed(&missing));
        Err(Error::new(ErrorKind::NotFound, text).about(backup))
    }
}

/// The names of one map or of several, for an error.
fn listed(names: &[&str]) -> String {
    let quoted = |name: &&str| format!("'{}'", name.escape_debug());
    let shown: Vec<_> = names.iter().take(MOST_NAMES).map(quoted).collect();
    let more = names.len() - shown.len();
    let (shown, last) = match (shown.split_last(), more) {
        (Some((last, [])), 0) => return format!("map {last}"),
        (Some((last, before)), 0) => (before.join(", "), last.clone()),
        _ => (shown.join(", "), format!("{more} more")),
    };
    format!("the maps {shown} and {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed() {
        let all: Vec<_> = (10..35).map(|number| format!("m{number}")).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        assert_eq!(listed(&all[..1]), "map 'm10'");
        assert_eq!(listed(&all[..2]), "the maps 'm10' and 'm11'");
        assert_eq!(listed(&all[..3]), "the maps 'm10', 'm11' and 'm12'");
        assert!(listed(&all[..20]).ends_with("'m28' and 'm29'"));
        assert!(listed(&all).ends_with("'m28', 'm29' and 5 more"));
        assert_eq!(listed(&["a\nb"]), "map 'a\\nb'");
    }
}
