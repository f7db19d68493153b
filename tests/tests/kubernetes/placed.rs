//! Where volumes can be used, and how much of them: topology and storage capacity.

use std::time::Duration;

use serde_json::json;

use super::cluster::{CSI_DRIVER, Cluster};
use super::lab::{ZONE, ZONE_KEY};
use crate::support::*;

/// How soon an event or an object appears.
const SOON: Duration = Duration::from_secs(90);

/// Makes a StorageClass whose volumes are made when a pod needs them.
fn class(cluster: &Cluster, name: &str, zone: &str) {
    cluster.kubectl(&["delete", "storageclass", name, "--ignore-not-found"]);
    cluster.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": CSI_DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE_KEY, "values": [zone]}]}],
    }));
}

/// Makes a claim, and a pod that wants it, without waiting for either.
fn claim_and_pod(cluster: &Cluster, name: &str, class: &str, size: &str) {
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
        },
    }));
    let volume = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]});
    cluster.apply_pod(name, &volume, &json!({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}));
}

#[test]
fn pods_go_where_their_volumes_are_and_where_they_fit() {
    let cluster = need!(Cluster::find("placed"));
    need!(cluster.lab().filter(|lab| lab.chart().is_none()).ok_or("it needs a lab in which the server has a zone"));
    let keys = cluster.field("csinode/node1", ".spec.drivers[*].topologyKeys[*]");
    assert_eq!(keys, ZONE_KEY);
    let (here, elsewhere) = ("amphora-test-here", "amphora-test-elsewhere");
    class(&cluster, here, ZONE);
    class(&cluster, elsewhere, "another");

    let sizes = format!("jsonpath={{.items[?(@.storageClassName==\"{here}\")].capacity}}");
    let capacity = || {
        let found = cluster.kubectl(&["get", "csistoragecapacity", "--all-namespaces", "--output", &sizes]);
        (!found.is_empty()).then_some(found)
    };
    let free = wait_until(SOON, capacity).expect("the free space of the store is published");
    assert!(free.chars().any(|letter| letter.is_ascii_digit() && letter != '0'), "{free}");

    claim_and_pod(&cluster, "fits", here, "64Mi");
    cluster.wait_ready("fits");
    let volume = cluster.field("pvc/fits", ".spec.volumeName");
    let affinity = cluster.field(&format!("pv/{volume}"), ".spec.nodeAffinity.required.nodeSelectorTerms");
    assert!(affinity.contains(ZONE_KEY) && affinity.contains(ZONE), "{affinity}");

    claim_and_pod(&cluster, "large", here, "1Pi");
    cluster.wait_for_event("did not have enough free storage");
    claim_and_pod(&cluster, "away", elsewhere, "64Mi");
    cluster.wait_for_event("didn't find available persistent volumes to bind");
    for name in ["large", "away"] {
        assert_eq!(cluster.field(&format!("pvc/{name}"), ".status.phase"), "Pending");
    }
    for name in ["fits", "large", "away"] {
        cluster.kubectl(&["delete", &format!("pod/{name}"), &format!("pvc/{name}"), "--timeout=120s"]);
    }
    cluster.wait_gone(&format!("pv/{volume}"));
    cluster.kubectl(&["delete", "storageclass", here, elsewhere]);
}
