//! The contexts of the tool `nats`: named sets of options in `~/.config/nats/context/NAME.json`.
//! The file `context.txt` in that directory's parent names the selected one.

use crate::server::{ServerOptions, unreadable};
use commonhold::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The fields that matter here; the tool writes an empty text for what is not set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    url: String,
    token: String,
    user: String,
    password: String,
    creds: String,
    nkey: String,
    cert: String,
    key: String,
    ca: String,
    nsc: String,
    tls_first: bool,
    jetstream_domain: String,
    jetstream_api_prefix: String,
    inbox_prefix: String,
}

/// The directory of the tool's configuration; `None` without a home.
pub fn directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&set("HOME")?).join(".config")))?;
    Some(config.join("nats"))
}

/// The name of the selected context, if one is selected.
pub fn selected(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join("context.txt")).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Reads a context.
///
/// # Errors
/// `Invalid` for a name that is a path, for text that is not JSON and for a context that only the
/// tool `nsc` can use; `NotFound` for a missing file.
pub fn read(directory: &Path, name: &str) -> Result<ServerOptions> {
    let invalid = |text: String| Error::new(ErrorKind::Invalid, text);
    if name.contains('/') || name.starts_with('.') {
        return Err(invalid(format!("'{name}' is not the name of a context: it is a path")));
    }
    let file = directory.join("context").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file)
        .map_err(|error| unreadable(&format!("context '{name}'"), &file, error))?;
    let fields: Fields = serde_json::from_str(&text).map_err(|error| {
        invalid(format!("{}: expected a context of the tool nats: {error}", file.display()))
    })?;
    if !fields.nsc.is_empty() && fields.creds.is_empty() {
        return Err(invalid(format!(
            "{}: this context takes its credentials from nsc; write them to a file with \
             'nsc generate creds', and name that file with --creds",
            file.display()
        )));
    }
    Ok(options(fields))
}

fn options(fields: Fields) -> ServerOptions {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let path = |name: String| text(name).map(|name| expanded(&name));
    let urls = fields.url.split(',').map(str::trim).filter(|url| !url.is_empty());
    ServerOptions {
        servers: urls.map(str::to_owned).collect(),
        credentials: path(fields.creds),
        nkey: path(fields.nkey),
        user: text(fields.user),
        password: text(fields.password),
        token: text(fields.token),
        tls_ca: path(fields.ca),
        tls_cert: path(fields.cert),
        tls_key: path(fields.key),
        tls_first: fields.tls_first,
        domain: text(fields.jetstream_domain),
        prefix: text(fields.jetstream_api_prefix),
        inbox_prefix: text(fields.inbox_prefix),
    }
}

/// The path, with the home directory for `~`.
fn expanded(path: &str) -> PathBuf {
    let home = std::env::var_os("HOME").filter(|_| path.starts_with("~/"));
    home.map_or_else(|| path.into(), |home| Path::new(&home).join(&path[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_and_its_faults_are_named() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path();
        assert_eq!(selected(directory), None);
        std::fs::create_dir(directory.join("context")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("context.txt", "shop\n");
        assert_eq!(selected(directory).as_deref(), Some("shop"));
        let text = r#"{"description": "x", "url": "nats://a:1, tls://b", "user": "", "creds":
            "/c.creds", "jetstream_domain": "hub", "socks_proxy": ""}"#;
        write("context/shop.json", text);
        let wanted = ServerOptions {
            servers: vec!["nats://a:1".into(), "tls://b".into()],
            credentials: Some("/c.creds".into()),
            domain: Some("hub".into()),
            ..ServerOptions::default()
        };
        assert_eq!(read(directory, "shop").unwrap(), wanted);
        write("context/bad.json", "{");
        write("context/nsc.json", r#"{"nsc": "nsc://o/a/u"}"#);
        for (name, kind, part) in [
            ("bad", ErrorKind::Invalid, "bad.json"),
            ("nsc", ErrorKind::Invalid, "--creds"),
            ("none", ErrorKind::NotFound, "none.json"),
            ("../shop", ErrorKind::Invalid, "a path"),
        ] {
            let error = read(directory, name).unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(part), "{error}");
        }
    }
}
