//! Takes a bucket from the program that writes to it.
//!
//! The fence is a message without a condition, so it is stored even while another publisher writes
//! all the time. It breaks that publisher's chain: each message of the chain requires that the one
//! before is the stream's last. The comparison that follows corrects the key of the fence.

use crate::bucket::{Bucket, OPERATION};
use crate::publish::place::PUBLISHER;
use crate::trouble::failed;
use async_nats::jetstream::message::PublishMessage;
use commonhold::Result;
use commonhold::map::Map;

/// A key of both styles, if the map has no pair that fits.
const KEY: &[u8] = b"fence";
/// Pairs that may be tried.
const TRIES: usize = 100;

/// Fences others, and returns the number of the message that does so.
///
/// # Errors
/// Those of the map; `Io` and `TimedOut`, after which the fence may have been stored.
pub(crate) async fn fence(bucket: &Bucket, map: &Map, id: &str) -> Result<u64> {
    let message = PublishMessage::build().expected_stream(bucket.stream()).header(PUBLISHER, id);
    let (key, message) = match fitting(bucket, map)? {
        Some((key, value)) => (key, message.payload(value.into())),
        None => (KEY.to_vec(), message.header(OPERATION, "DEL")),
    };
    let doing = || format!("bucket '{}': cannot take it over", bucket.name());
    let subject = bucket.put_subject(&key)?;
    let stored = async { bucket.link.js.send_publish(subject, message).await?.await };
    let stored = bucket.link.within(doing(), stored).await?;
    Ok(stored.map_err(|error| failed(doing(), error))?.sequence)
}

/// A pair that the bucket should have anyway.
fn fitting(bucket: &Bucket, map: &Map) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    for pair in map.iter().take(TRIES) {
        let (key, value) = pair?;
        if bucket.ensure_fits(&key, value.len()).is_ok() {
            return Ok(Some((key, value)));
        }
    }
    Ok(None)
}
