//! A key-value bucket of JetStream: the stream that it consists of, and single keys.

use crate::key::{KeyStyle, LONGEST_SUBJECT};
use crate::server::Link;
use crate::stream::{self, HEADERS, exceeded};
use crate::trouble::failed;
use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, InfoWithSubjects, LastRawMessageErrorKind, RawMessageError,
    RawMessageErrorKind, StorageType, Stream,
};
use commonhold::{Error, ErrorKind, Result};
use commonhold_terminal::text::shown;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The header that names the operation of a message without a value.
pub(crate) const OPERATION: &str = "KV-Operation";
/// The header of a marker that the server writes when a value's time to live has passed.
pub(crate) const MARKER: &str = "Nats-Marker-Reason";
/// The time in which the server recognizes a message that it has already, by its name.
const WINDOW: Duration = Duration::from_secs(120);

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub(crate) link: Link,
    name: String,
    stream: String,
    keys: KeyStyle,
    /// The longest message that the bucket accepted when it was asked last; 0 or less: any.
    max_message: Arc<AtomicI64>,
}

/// When a write is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// In any case.
    #[default]
    None,
    /// If the last change of the key has this revision; 0 for a key without any change.
    Revision(u64),
}

/// The last change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `None` if the key was deleted.
    pub value: Option<Vec<u8>>,
    /// The sequence number of the change in the bucket's stream.
    pub revision: u64,
}

/// How to create a bucket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BucketOptions {
    /// The number of servers that keep it.
    pub replicas: usize,
    /// The number of values that it keeps of each key.
    pub history: i64,
    /// The age at which values expire.
    pub max_age: Option<Duration>,
    /// Its maximum size.
    pub max_bytes: Option<u64>,
    /// It is in the memory of the servers, and not on their disks.
    pub in_memory: bool,
}

impl Default for BucketOptions {
    fn default() -> BucketOptions {
        let (max_age, max_bytes) = (None, None);
        BucketOptions { replicas: 1, history: 1, max_age, max_bytes, in_memory: false }
    }
}

impl Bucket {
    /// A bucket of this name, which need not exist.
    ///
    /// # Errors
    /// `Invalid` for a name that no bucket can have.
    pub fn new(link: &Link, name: &str, keys: KeyStyle) -> Result<Bucket> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_legal) {
            let text = format!(
                "'{}' is not the name of a bucket: expected letters, digits, '-' and '_'",
                shown(name.as_bytes())
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let stream = format!("KV_{name}");
        let (link, name, max_message) = (link.clone(), name.to_owned(), Arc::default());
        Ok(Bucket { link, name, stream, keys, max_message })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its stream.
    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }

    /// How its keys correspond to a map's.
    pub(crate) fn key_style(&self) -> KeyStyle {
        self.keys
    }

    /// The subjects of all keys.
    pub(crate) fn all(&self) -> String {
        format!("$KV.{}.>", self.name)
    }

    /// The configuration and the state of the stream.
    ///
    /// # Errors
    /// `NotFound` if the bucket does not exist; `Io`.
    pub async fn info(&self) -> Result<Info> {
        let info = stream::info(&self.link, &self.stream, &self.shown()).await?;
        let info = info.ok_or_else(|| self.missing())?;
        // Relaxed: one number, which orders nothing.
        self.max_message.store(info.config.max_message_size.into(), Ordering::Relaxed);
        Ok(info)
    }

    fn shown(&self) -> String {
        format!("bucket '{}'", self.name)
    }

    /// Creates the bucket; false if it exists.
    ///
    /// # Errors
    /// `Io`, with the server's reason.
    pub async fn create(&self, options: &BucketOptions) -> Result<bool> {
        match self.info().await {
            Err(error) if error.is_not_found() => {}
            other => return other.map(|_| false),
        }
        let most = options.max_bytes.and_then(|bytes| i64::try_from(bytes).ok());
        let config = Config {
            name: self.stream.clone(),
            subjects: vec![self.all()],
            max_messages: -1,
            max_messages_per_subject: options.history,
            max_bytes: most.unwrap_or(-1),
            max_age: options.max_age.unwrap_or_default(),
            // The server's own window, and never longer than the age.
            duplicate_window: options.max_age.unwrap_or(WINDOW).min(WINDOW),
            storage: if options.in_memory { StorageType::Memory } else { StorageType::File },
            num_replicas: options.replicas,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            ..Config::default()
        };
        let created = self.link.within(self.shown(), self.link.js.create_stream(config)).await?;
        let name = &self.name;
        created.map(|_| true).map_err(|error| {
            failed(format!("cannot create bucket '{name}' on {}", self.link.servers()), error)
        })
    }

    fn missing(&self) -> Error {
        let text = format!(
            "bucket '{}' does not exist on {}; create it with 'hold nats create-bucket {}'",
            self.name,
            self.link.servers(),
            self.name
        );
        Error::new(ErrorKind::NotFound, text)
    }

    /// The map's key of a subject of the bucket.
    ///
    /// # Errors
    /// `Invalid` for a key of another style.
    pub(crate) fn key_of(&self, subject: &str) -> Result<Vec<u8>> {
        let key = subject.strip_prefix("$KV.").and_then(|rest| rest.strip_prefix(&*self.name));
        let key = key.and_then(|rest| rest.strip_prefix('.')).unwrap_or(subject);
        let key = self.keys.decode(key);
        key.map_err(|error| Error::new(error.kind(), format!("bucket '{}': {error}", self.name)))
    }

    /// The subject of a key in the stream.
    ///
    /// # Errors
    /// `TooLarge` if it is too long; `Invalid` for a plain key that NATS does not allow.
    pub(crate) fn subject_of(&self, key: &[u8]) -> Result<String> {
        let subject = format!("$KV.{}.{}", self.name, self.keys.encode(key)?);
        if subject.len() > LONGEST_SUBJECT {
            let text = format!(
                "key '{}' of {} bytes becomes a subject of {} bytes, and NATS has room for \
                 {LONGEST_SUBJECT}; use a shorter key",
                shown(&key[..key.len().min(40)]),
                key.len(),
                subject.len()
            );
            return Err(Error::new(ErrorKind::TooLarge, text));
        }
        Ok(subject)
    }

    /// Checks that the server and the bucket accept a pair.
    ///
    /// # Errors
    /// `TooLarge`, which names the key and the sizes; those of [`subject_of`](Self::subject_of).
    pub(crate) fn ensure_fits(&self, key: &[u8], value_bytes: usize) -> Result<()> {
        self.subject_of(key)?;
        let of_bucket = self.max_message.load(Ordering::Relaxed);
        let Some(limit) = exceeded(&self.link, of_bucket, value_bytes) else { return Ok(()) };
        let most = limit.most;
        let (what, way) = match limit.is_of_server {
            true => ("server", "raise max_payload in the server's configuration"),
            false => ("bucket", "raise the bucket's maximum message size"),
        };
        let text = format!(
            "bucket '{}', key '{}': the value has {value_bytes} bytes, and the {what} accepts \
             messages of {most} with up to {HEADERS} bytes of headers; {way}, or keep large values \
             elsewhere",
            self.name,
            shown(&key[..key.len().min(40)]),
        );
        Err(Error::new(ErrorKind::TooLarge, text))
    }

    /// The message of this number; `None` if it is no longer there.
    pub(crate) async fn message(&self, sequence: u64) -> Result<Option<StreamMessage>> {
        let stream = self.handle().await?;
        self.found(stream.get_raw_message(sequence)).await
    }

    /// The number of the first message behind this number that the bucket's leader has.
    pub(crate) async fn next_after(&self, sequence: u64) -> Result<Option<u64>> {
        let stream = self.handle().await?;
        let next = stream.get_first_raw_message_by_subject(self.all(), sequence + 1);
        Ok(self.found(next).await?.map(|message| message.sequence))
    }

    async fn found(
        &self,
        answer: impl Future<Output = std::result::Result<StreamMessage, RawMessageError>>,
    ) -> Result<Option<StreamMessage>> {
        match self.link.within(self.shown(), answer).await? {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(failed(self.shown(), error)),
        }
    }

    async fn handle(&self) -> Result<Stream<()>> {
        let stream = self.link.js.get_stream_no_info(&self.stream);
        let stream = self.link.within(self.shown(), stream).await?;
        stream.map_err(|error| failed(self.shown(), error))
    }

    /// The stream's handle, with all its keys as subjects.
    pub(crate) async fn subjects(&self) -> Result<InfoWithSubjects> {
        let stream = self.handle().await?;
        let subjects = self.link.within(self.shown(), stream.info_with_subjects(self.all()));
        subjects.await?.map_err(|error| failed(self.shown(), error))
    }

    /// The last change of a key, also if that was its deletion; `None` if the bucket knows nothing
    /// of the key.
    ///
    /// # Errors
    /// `Io`; those of the key.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        let subject = self.subject_of(key.as_ref())?;
        let stream = self.handle().await?;
        let last = stream.get_last_raw_message_by_subject(&subject);
        match self.link.within(self.shown(), last).await? {
            Ok(message) => {
                let value = (!is_removal(Some(&message.headers))).then(|| message.payload.to_vec());
                Ok(Some(Entry { value, revision: message.sequence }))
            }
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                // A bucket that does not exist has no message either.
                self.info().await.map(|_| None)
            }
            Err(error) => Err(failed(self.shown(), error)),
        }
    }

    /// Writes a value and returns its revision; `None` if the condition is false.
    ///
    /// # Errors
    /// `TooLarge`; `NotFound` if the bucket does not exist; `TimedOut` and `Io`, after which the
    /// value may have been written.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: Condition,
    ) -> Result<Option<u64>> {
        self.ensure_fits(key.as_ref(), value.as_ref().len())?;
        let payload = value.as_ref().to_vec().into();
        self.write(key.as_ref(), PublishMessage::build().payload(payload), condition).await
    }

    /// Deletes a key and returns the revision of the deletion; `None` if the condition is false.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub async fn delete(&self, key: impl AsRef<[u8]>, condition: Condition) -> Result<Option<u64>> {
        self.write(key.as_ref(), PublishMessage::build().header(OPERATION, "DEL"), condition).await
    }

    async fn write(
        &self,
        key: &[u8],
        message: PublishMessage,
        condition: Condition,
    ) -> Result<Option<u64>> {
        let message = match condition {
            Condition::None => message,
            Condition::Revision(revision) => message.expected_last_subject_sequence(revision),
        };
        let subject = self.put_subject(key)?;
        let answer = async { self.link.js.send_publish(subject, message).await?.await };
        match self.link.within(self.shown(), answer).await? {
            Ok(answer) => Ok(Some(answer.sequence)),
            Err(error) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Ok(None),
                PublishErrorKind::StreamNotFound => Err(self.missing()),
                PublishErrorKind::TimedOut => {
                    let text = format!(
                        "bucket '{}', key '{}': the server did not answer in time; the change \
                         may have been made",
                        self.name,
                        shown(key)
                    );
                    Err(Error::new(ErrorKind::TimedOut, text))
                }
                _ => Err(failed(format!("bucket '{}', key '{}'", self.name, shown(key)), error)),
            },
        }
    }

    /// The subject that a client of this account publishes a key to.
    pub(crate) fn put_subject(&self, key: &[u8]) -> Result<String> {
        Ok(format!("{}{}", self.link.before, self.subject_of(key)?))
    }
}

/// Whether the message of these headers is a key's deletion, purge or expiry.
pub(crate) fn is_removal(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| {
        headers.get(MARKER).is_some()
            || headers.get(OPERATION).is_some_and(|it| ["DEL", "PURGE"].contains(&it.as_str()))
    })
}
