//! The type of a file's contents, by its name.

use std::borrow::Cow;
use std::path::Path;

/// The value of `Content-Type`. Text is UTF-8, as nearly all text is.
pub(crate) fn of(name: &[u8]) -> Cow<'static, str> {
    let name = String::from_utf8_lossy(name);
    let path = Path::new(&*name);
    let kind = ours(path).or_else(|| mime_guess::from_path(path).first_raw());
    let Some(kind) = kind else { return Cow::Borrowed("application/octet-stream") };
    let is_text = kind.starts_with("text/")
        || matches!(kind, "application/javascript" | "application/json" | "image/svg+xml");
    match is_text {
        true => Cow::Owned(format!("{kind}; charset=utf-8")),
        false => Cow::Borrowed(kind),
    }
}

/// Types for names to which `mime_guess` gives an obsolete type, or the type of another kind of
/// file.
fn ours(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match &*extension {
        "map" => "application/json",
        "mjs" => "text/javascript",
        "tgz" => "application/gzip",
        "ts" => "video/mp2t",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_tell_types() {
        assert_eq!(of(b"a.HTML"), "text/html; charset=utf-8");
        assert_eq!(of(b"a.js"), "text/javascript; charset=utf-8");
        assert_eq!(of(b"a.js.MAP"), "application/json; charset=utf-8");
        assert_eq!(of(b"a.mjs"), "text/javascript; charset=utf-8");
        assert_eq!((of(b"a.tgz"), of(b"a.ts")), ("application/gzip".into(), "video/mp2t".into()));
        assert_eq!(of(b"a.pdf"), "application/pdf");
        assert_eq!(of(b"a.svg"), "image/svg+xml; charset=utf-8");
        assert_eq!(of(b"README"), "application/octet-stream");
        assert_eq!(of(b"\xff.png"), "image/png");
    }
}
