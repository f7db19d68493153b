//! The condition of a volume, which kubelet shows as an event of the pod and as a metric.

use std::time::Duration;

use serde_json::json;

use super::cluster::Cluster;
use super::csi::{CLASS, class, end};
use crate::support::*;

/// How long kubelet may take: it asks for the condition every minute.
const LIMIT: Duration = Duration::from_secs(150);
/// The metric, which is 1 while the volume is abnormal.
const METRIC: &str = "kubelet_volume_stats_health_status_abnormal";

#[test]
fn a_full_volume_is_an_event_of_its_pod_until_it_has_room() {
    let cluster = need!(Cluster::find("health"));
    class(&cluster);
    let size = json!({"requests": {"storage": "16Mi"}});
    cluster.claim_with("a", &json!({"storageClassName": CLASS, "resources": size}));
    cluster.pod("one", "a");
    let node = cluster.field("pod/one", ".spec.nodeName");
    let metrics = || cluster.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/metrics")]);
    let gate = "kubernetes_feature_enabled{name=\"CSIVolumeHealth\"";
    if !metrics().lines().any(|line| line.starts_with(gate) && line.ends_with(" 1")) {
        end(&cluster);
        tests::skip!("kubelet does not ask for conditions: --feature-gates=CSIVolumeHealth=true");
    }
    cluster.exec("one", "! dd if=/dev/zero of=/data/f bs=1M count=20 2>/dev/null");
    let is = |state: &str| {
        let namespace = "namespace=\"amphora-test-health\"";
        let ours = |line: &str| line.starts_with(METRIC) && line.contains(namespace) && line.ends_with(state);
        metrics().lines().any(ours).then_some(())
    };
    assert!(wait_until(LIMIT, || is(" 1")).is_some(), "the volume is full, and kubelet does not say so");
    cluster.wait_for_event("the volume is full: 16777216 bytes are used of 16777216; expand it, or delete files");
    cluster.exec("one", "rm /data/f");
    assert!(wait_until(LIMIT, || is(" 0")).is_some(), "the volume has room, and kubelet does not say so");
    end(&cluster);
}
