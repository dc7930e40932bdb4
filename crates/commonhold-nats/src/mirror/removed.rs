//! Finds keys that left the bucket without a message: by a purge of the stream, by the removal of
//! old deletions, or by a limit.

use crate::bucket::Bucket;
use crate::mirror::copy::Copy;
use crate::trouble::failed;
use commonhold::Result;
use commonhold::stream::ChangeKind;
use futures_util::StreamExt;
use std::collections::HashSet;

/// Removes from the map the keys of which the bucket has no message. The map has everything that
/// the bucket had a moment ago.
///
/// # Errors
/// Those of the bucket and the map.
pub(crate) async fn remove(bucket: &Bucket, copy: &Copy) -> Result<()> {
    let listed = listed(bucket).await?;
    let mut unlisted = Vec::new();
    for key in copy.map.keys() {
        let key = key?;
        if !listed.contains(&key) {
            unlisted.push(key);
        }
    }
    for key in unlisted {
        // The list took a while: the key may have been set since.
        if bucket.get(&key).await?.is_none() {
            copy.remove(&key, ChangeKind::Delete)?;
        }
    }
    Ok(())
}

async fn listed(bucket: &Bucket) -> Result<HashSet<Vec<u8>>> {
    let mut subjects = bucket.subjects().await?;
    let mut listed = HashSet::new();
    while let Some(next) = subjects.next().await {
        let (subject, _) =
            next.map_err(|error| failed(format!("bucket '{}'", bucket.name()), error))?;
        // The map cannot have the key of a subject that is none.
        listed.extend(bucket.key_of(&subject).ok());
    }
    Ok(listed)
}
