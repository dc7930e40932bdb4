//! The type of a file's contents, by its name.

use std::borrow::Cow;
use std::path::Path;

/// The value of `Content-Type`. Text is UTF-8, as nearly all text is.
pub(crate) fn of(name: &[u8]) -> Cow<'static, str> {
    let name = String::from_utf8_lossy(name);
    let Some(kind) = mime_guess::from_path(Path::new(&*name)).first_raw() else {
        return Cow::Borrowed("application/octet-stream");
    };
    let is_text = kind.starts_with("text/")
        || matches!(kind, "application/javascript" | "application/json" | "image/svg+xml");
    match is_text {
        true => Cow::Owned(format!("{kind}; charset=utf-8")),
        false => Cow::Borrowed(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_tell_types() {
        assert_eq!(of(b"a.HTML"), "text/html; charset=utf-8");
        assert_eq!(of(b"a.js"), "text/javascript; charset=utf-8");
        assert_eq!(of(b"a.pdf"), "application/pdf");
        assert_eq!(of(b"a.svg"), "image/svg+xml; charset=utf-8");
        assert_eq!(of(b"README"), "application/octet-stream");
        assert_eq!(of(b"\xff.png"), "image/png");
    }
}
