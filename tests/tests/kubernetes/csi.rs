//! Volumes: claim, pod, snapshot, restored and cloned volumes, expansion, a crashing driver, and a clean end.

use serde_json::{Value, json};

use super::cluster::{CSI_DRIVER, Cluster};
use crate::support::*;

/// The StorageClass and VolumeSnapshotClass of the tests.
pub(super) const CLASS: &str = "amphora-test";

/// Makes both classes.
pub(super) fn class(cluster: &Cluster) {
    for object in [
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
            "provisioner": CSI_DRIVER, "allowVolumeExpansion": true, "reclaimPolicy": "Delete",
        }),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": CLASS},
            "driver": CSI_DRIVER, "deletionPolicy": "Delete",
        }),
    ] {
        cluster.apply(&object);
    }
}

/// Makes a claim and waits until it has a volume; the volume's handle, which is its bucket.
fn claim(cluster: &Cluster, name: &str, source: &Value) -> String {
    cluster.claim_with(name, &json!({"storageClassName": CLASS, "dataSource": source}))
}

/// Takes a snapshot of a claim and waits for it.
pub(super) fn snapshot(cluster: &Cluster, name: &str, claim: &str) {
    cluster.apply(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": name},
        "spec": {"volumeSnapshotClassName": CLASS, "source": {"persistentVolumeClaimName": claim}},
    }));
    cluster.wait_for(&format!("volumesnapshot/{name}"), ".status.readyToUse", "true");
}

/// A snapshot as the source of a claim.
pub(super) fn from_snapshot(name: &str) -> Value {
    json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name})
}

#[test]
fn a_volume_lives_from_its_claim_to_its_deletion() {
    let cluster = need!(Cluster::find("csi"));
    class(&cluster);
    claim(&cluster, "a", &Value::Null);
    cluster.pod("one", "a");
    cluster.exec("one", "grep ' /data ' /proc/mounts | grep -q amphora; echo one >/data/f; sync");
    cluster
        .exec("one", "dd if=/dev/urandom of=/data/blob bs=1M count=8 2>/dev/null; md5sum /data/blob >/data/sum; sync");
    cluster.delete("pod/one");
    cluster.pod("two", "a");
    assert_eq!(cluster.exec("two", "md5sum -c /data/sum >/dev/null; cat /data/f"), "one", "another pod finds it");

    snapshot(&cluster, "s", "a");
    cluster.exec("two", "echo two >/data/f; sync");
    claim(&cluster, "restored", &from_snapshot("s"));
    cluster.pod("restored", "restored");
    assert_eq!(cluster.exec("restored", "md5sum -c /data/sum >/dev/null; cat /data/f"), "one", "as at the snapshot");
    claim(&cluster, "clone", &json!({"kind": "PersistentVolumeClaim", "name": "a"}));
    cluster.pod("clone", "clone");
    assert_eq!(cluster.exec("clone", "cat /data/f; echo three >/data/f"), "two", "as the source is now");
    assert_eq!(cluster.exec("two", "cat /data/f"), "two", "the source does not see the clone's change");

    cluster.kubectl(&["patch", "pvc", "a", "--patch", r#"{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}"#]);
    cluster.wait_for("pvc/a", ".status.capacity.storage", "128Mi");
    assert_eq!(cluster.exec("two", "df -P -k /data | tail -n 1 | awk '{print $2}'"), "131072", "while the pod runs");

    match cluster.kill_driver() {
        Ok(()) => {
            let after = cluster.exec("two", "md5sum -c /data/sum >/dev/null; echo after >/data/f; cat /data/f");
            assert_eq!(after, "after", "the mount outlives the driver");
            cluster.pod("three", "a");
            assert_eq!(cluster.exec("three", "cat /data/f"), "after", "and new ones are made");
        }
        Err(reason) => tests::skip::notice(module_path!(), &reason),
    }
    in_a_user_namespace(&cluster);
    end(&cluster);
}

/// A pod with its own user namespace shares the volume `a` with the pod `two`: its container runtime mounts the volume
/// with mapped owners.
fn in_a_user_namespace(cluster: &Cluster) {
    let features = "jsonpath={.items[*].status.runtimeHandlers[*].features.userNamespaces}";
    if !cluster.kubectl(&["get", "nodes", "--output", features]).contains("true") {
        let reason = "no node's runtime offers user namespaces to pods: containerd 2 with runc 1.2 does";
        return tests::skip::notice(module_path!(), reason);
    }
    cluster.pod_apart("apart", "a");
    let map = cluster.exec("apart", "cat /proc/self/uid_map");
    let map: Vec<&str> = map.split_whitespace().collect();
    assert!(map[0] == "0" && map[1] != "0", "root of the pod is not root of the node: {map:?}");
    cluster.exec("two", "echo shared >/data/g; chown 7:8 /data/g; chmod 640 /data/g");
    assert_eq!(cluster.exec("apart", "stat -c %u:%g /data/g; cat /data/g"), "7:8\nshared");
    cluster.exec("apart", "echo mine >/data/mine; echo given >/data/given; chown 1000:1001 /data/given");
    let owners = cluster.exec("two", "stat -c %u:%g /data/mine /data/given; cat /data/given");
    assert_eq!(owners, "0:0\n1000:1001\ngiven", "the volume has the owners that the pod sees");
}

/// Deletes every object, and asserts that the buckets and mounts are gone.
pub(super) fn end(cluster: &Cluster) {
    cluster.kubectl(&["delete", "pod", "--all", "--timeout=120s"]);
    let volumes = cluster.kubectl(&["get", "pvc", "--output", "jsonpath={.items[*].spec.volumeName}"]);
    let bound = "jsonpath={.items[*].status.boundVolumeSnapshotContentName}";
    let contents = cluster.kubectl(&["get", "volumesnapshot", "--output", bound]);
    cluster.kubectl(&["delete", "volumesnapshot", "--all", "--timeout=120s"]);
    cluster.kubectl(&["delete", "pvc", "--all", "--timeout=120s"]);
    for volume in volumes.split_whitespace() {
        cluster.wait_gone(&format!("pv/{volume}"));
    }
    for content in contents.split_whitespace() {
        cluster.wait_gone(&format!("volumesnapshotcontent/{content}"));
    }
    cluster.kubectl(&["delete", &format!("storageclass/{CLASS}"), &format!("volumesnapshotclass/{CLASS}")]);
}
