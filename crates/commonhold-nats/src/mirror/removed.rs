//! Finds keys that left the bucket without a message: by a purge of the stream, by the removal of
//! old deletions, or by a limit.

use crate::bridge::Control;
use crate::bucket::Bucket;
use crate::mirror::copy::Copy;
use crate::trouble::{Session, failed};
use commonhold::stream::ChangeKind;
use futures_util::StreamExt;
use std::collections::HashSet;

/// Removes from the map the keys of which the bucket has no message. The map has everything that
/// the bucket had a moment ago.
///
/// # Errors
/// Those of the bucket and the map.
pub(crate) async fn remove(bucket: &Bucket, copy: &Copy, control: &Control<'_>) -> Session<()> {
    let listed = listed(bucket, control).await?;
    let mut unlisted = Vec::new();
    for key in copy.map.keys() {
        control.ensure_runs()?;
        let key = key?;
        if !listed.contains(&key) {
            unlisted.push(key);
        }
    }
    for key in unlisted {
        control.ensure_runs()?;
        // The list took a while: the key may have been set since.
        if bucket.get(&key).await?.is_none() {
            copy.remove(&key, ChangeKind::Delete)?;
        }
    }
    Ok(())
}

async fn listed(bucket: &Bucket, control: &Control<'_>) -> Session<HashSet<Vec<u8>>> {
    let mut subjects = bucket.subjects().await?;
    let mut listed = HashSet::new();
    let doing = || format!("bucket '{}'", bucket.name());
    while let Some(next) = bucket.link.within(doing(), subjects.next()).await? {
        control.ensure_runs()?;
        let (subject, _) = next.map_err(|error| failed(doing(), error))?;
        // The map cannot have the key of a subject that is none.
        listed.extend(bucket.key_of(&subject).ok());
    }
    Ok(listed)
}
