//! The metrics of the volume listener.

use std::fmt;

use node_server::Stats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge};
use crate::volumes::Volumes;

/// Sessions of mounts on other machines; zeros without a volume listener.
#[derive(Debug)]
pub(super) struct VolumeStats(pub Option<Volumes>);

impl Collector for VolumeStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Stats { sessions, connections, answered, refused, expired } =
            self.0.as_ref().map(Volumes::stats).unwrap_or_default();
        let encoder = &mut encoder;
        gauge(encoder, "volume_sessions", "Sessions of mounts on other machines", sessions)?;
        gauge(encoder, "volume_connections", "Connections of other machines to the volume listener", connections)?;
        counter(encoder, "volume_calls", "Calls of other machines that were answered", answered)?;
        counter(encoder, "volume_calls_refused", "Calls of other machines that were refused", refused)?;
        counter(
            encoder,
            "volume_sessions_fenced",
            "Sessions that were ended because their lease or access was over",
            expired,
        )
    }
}
