//! The streams of the servers: how they are found, and what they accept.

use crate::server::Link;
use crate::trouble::failed;
use async_nats::jetstream::context::GetStreamByNameErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Info;
use commonhold::{Error, ErrorKind, Result};
use serde_json::json;

/// The error code of a stream that does not exist.
const NO_STREAM: u64 = 10059;
/// Room for the headers of a message.
pub(crate) const HEADERS: usize = 1024;
/// The longest name of a stream or a consumer: servers have files of that name.
const LONGEST_NAME: usize = 255;

/// The state of the stream of this name, or of the one that has this subject.
///
/// # Errors
/// `NotFound` if there is none; `Io`; `TimedOut`.
pub(crate) async fn find(link: &Link, name: Option<&str>, subject: &str) -> Result<Info> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => with_subject(link, subject).await?,
    };
    let doing = format!("stream '{name}'");
    info(link, &name, &doing).await?.ok_or_else(|| {
        let text = format!(
            "{doing} does not exist on {}; create it with 'nats stream add', or check --stream",
            link.servers()
        );
        Error::new(ErrorKind::NotFound, text)
    })
}

/// The configuration and the state of a stream; `None` if it does not exist.
///
/// # Errors
/// `Io` and `TimedOut`, which begin with `doing`.
pub(crate) async fn info(link: &Link, name: &str, doing: &str) -> Result<Option<Info>> {
    let (path, body) = (format!("STREAM.INFO.{name}"), json!({}));
    let answer = link.within(doing, link.js.request(path, &body)).await?;
    match answer.map_err(|error| failed(doing, error))? {
        Response::Ok(info) => Ok(Some(info)),
        Response::Err { error } if error.error_code().0 == NO_STREAM => Ok(None),
        Response::Err { error } => Err(failed(doing, error)),
    }
}

async fn with_subject(link: &Link, subject: &str) -> Result<String> {
    let doing = format!("subject '{subject}'");
    let found = link.within(&doing, link.js.stream_by_subject(subject)).await?;
    found.map_err(|error| match error.kind() {
        GetStreamByNameErrorKind::NotFound => {
            let text = format!(
                "no stream on {} has subject '{subject}'; create one with 'nats stream add', or \
                 name it with --stream",
                link.servers()
            );
            Error::new(ErrorKind::NotFound, text)
        }
        _ => failed(&doing, error),
    })
}

/// # Errors
/// `Invalid` for a text that is no subject; without `wildcards`, also for one that has them.
pub(crate) fn check_subject(subject: &str, wildcards: bool) -> Result<()> {
    let is_wild = |token: &str| token == "*" || token == ">";
    let is_legal = |token: &str| {
        !token.is_empty()
            && !token.contains(|c: char| c.is_whitespace() || c.is_control())
            && (wildcards || !is_wild(token))
    };
    if subject.split('.').all(is_legal) {
        return Ok(());
    }
    let what = if wildcards { "a subject" } else { "a subject without wildcards" };
    let text = format!(
        "expected {what}, got '{}'; use words that are joined by single dots",
        subject.escape_default()
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

/// # Errors
/// `Invalid` for a text that cannot be the name of a stream or a consumer.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_legal = |c: char| !c.is_whitespace() && !c.is_control() && !".*>/\\".contains(c);
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_legal) {
        return Ok(());
    }
    let text = format!(
        "expected the name of a {what} of 1 to {LONGEST_NAME} bytes without spaces, '.', '*', '>', \
         '/' and '\\', got '{}'; use {what} names of letters, digits, '-' and '_'",
        name.escape_default()
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

/// A limit that a message exceeds.
pub(crate) struct Limit {
    /// The most bytes of a message with its headers.
    pub(crate) most: usize,
    /// It is the server's limit, and not that of the stream.
    pub(crate) is_of_server: bool,
}

/// The limit that a message of this length exceeds. `of_stream` is the limit of its stream; 0 or
/// less for none.
pub(crate) fn exceeded(link: &Link, of_stream: i64, bytes: usize) -> Option<Limit> {
    let of_stream = usize::try_from(of_stream).unwrap_or(0);
    let bytes = bytes.saturating_add(HEADERS);
    let limits = [(link.max_payload(), true), (of_stream, false)];
    let (most, is_of_server) = limits.into_iter().find(|(most, _)| *most != 0 && bytes > *most)?;
    Some(Limit { most, is_of_server })
}
