//! Metrics for Prometheus: text of the format 0.0.4. Base units: seconds and bytes; a metric that
//! ends with `_total` never decreases while its object lives.
//!
//! - [`text`]: the format
//! - [`servers`]: file servers
//! - [`structures`]: the hold, maps, queues, channels, logs
//! - [`replication`]: origins, replicas, journals
//! - [`running`]: whether journals, replicas and bridges run

mod replication;
mod running;
mod servers;
mod structures;
mod text;

use super::observer::Observer;
pub use replication::lag_of_journal;
use text::Text;

/// All metrics.
///
/// # Errors
/// Those of reading the hold.
pub fn text(observer: &Observer) -> commonhold::Result<String> {
    let inventory = observer.inventory()?;
    let mut text = Text::default();
    {
        let live = observer.live();
        servers::write(&mut text, &live.workers);
    }
    structures::write(&mut text, &inventory);
    replication::write(&mut text, &inventory);
    running::write(&mut text, &inventory);
    Ok(text.finish())
}
