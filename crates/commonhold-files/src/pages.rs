//! Files that stand in for others: pages for errors, and the page of an application that has paths
//! of its own.

use super::layout::Layout;
use commonhold::{Error, ErrorKind, Result};
use std::str::FromStr;
use std::sync::Arc;

/// The statuses that can have a page: those of requests that the server understood.
const STATUSES: [u16; 4] = [403, 404, 500, 503];

/// The page of a status. It is parsed from `STATUS=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    status: u16,
    file: String,
}

impl ErrorPage {
    /// The id of the page.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl FromStr for ErrorPage {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<ErrorPage, String> {
        let page = text.split_once('=').and_then(|(status, file)| {
            let status = STATUSES.into_iter().find(|of| of.to_string() == status)?;
            (!file.is_empty()).then(|| ErrorPage { status, file: file.to_owned() })
        });
        page.ok_or_else(|| {
            format!("expected STATUS=FILE with the status 403, 404, 500 or 503, got '{text}'")
        })
    }
}

/// See the module: canonical ids of a layout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    errors: Vec<(u16, Arc<[u8]>)>,
    fallback: Option<Arc<[u8]>>,
}

impl Pages {
    /// # Errors
    /// `Invalid` if a page cannot be an id, or a status has two pages.
    pub(crate) fn new(
        layout: &dyn Layout,
        errors: &[ErrorPage],
        fallback: Option<&str>,
    ) -> Result<Pages> {
        let mut pages = Pages::default();
        for ErrorPage { status, file } in errors {
            if pages.error(*status).is_some() {
                let text = format!("status {status} has two pages; expected at most one");
                return Err(Error::new(ErrorKind::Invalid, text));
            }
            pages.errors.push((*status, id_of(layout, file)?));
        }
        pages.fallback = fallback.map(|file| id_of(layout, file)).transpose()?;
        Ok(pages)
    }

    /// The page of a status.
    pub(crate) fn error(&self, status: u16) -> Option<Arc<[u8]>> {
        let page = self.errors.iter().find(|(of, _)| *of == status);
        page.map(|(_, id)| Arc::clone(id))
    }

    /// The page for a path without a file; `None` also if the path has the form of a file's name,
    /// with an extension: a script that is missing must not become a page.
    pub(crate) fn fallback(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.fallback.clone().filter(|_| !name.contains(&b'.'))
    }
}

fn id_of(layout: &dyn Layout, file: &str) -> Result<Arc<[u8]>> {
    let id = layout.id(file.as_bytes()).map(|id| Arc::from(&*id));
    id.ok_or_else(|| {
        let text = format!(
            "'{file}' cannot be a page: expected a file below DIR that the server does not hide, \
             as a path relative to DIR"
        );
        Error::new(ErrorKind::Invalid, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Tree;

    #[test]
    fn pages_have_a_status_and_a_file() {
        let page: ErrorPage = "404=errors/a=b.html".parse().unwrap();
        assert_eq!(page, ErrorPage { status: 404, file: "errors/a=b.html".to_owned() });
        for wrong in ["", "404", "404=", "=a", "200=a", "0404=a", "405=a", "x=a"] {
            assert!(wrong.parse::<ErrorPage>().is_err(), "{wrong:?}");
        }
        let tree = Tree::new(None, false);
        let new = |pages: &[&str], fallback| {
            let pages: Vec<ErrorPage> = pages.iter().map(|page| page.parse().unwrap()).collect();
            Pages::new(&tree, &pages, fallback)
        };
        assert!(new(&["404=a", "503=a"], Some("/app.html")).is_ok());
        assert!(new(&["404=a", "404=b"], None).is_err());
        for wrong in ["../a", ".env", "a/", ""] {
            assert!(new(&[], Some(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_with_an_extension_have_no_fallback() {
        let pages = Pages::new(&Tree::new(None, false), &[], Some("app.html")).unwrap();
        for path in ["/", "/users", "/users/7", "/v1.2/users", "/users/"] {
            assert_eq!(pages.fallback(path.as_bytes()).as_deref(), Some(&b"app.html"[..]));
        }
        for path in ["/app.js", "/users/7.json", "/.env", "/a."] {
            assert!(pages.fallback(path.as_bytes()).is_none(), "{path}");
        }
        assert!(Pages::default().fallback(b"/").is_none());
    }
}
