//! Pods of several groups (`fsGroup`): the mount shows the group, and kubelet changes no file.

use serde_json::json;

use super::cluster::{CSI_DRIVER, Cluster};
use super::csi::{class, end};
use crate::support::*;

/// Starts a pod of user 1000 and a group, which shares the claim `a`.
fn pod(cluster: &Cluster, name: &str, group: u32) {
    let spec = json!({
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": group},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}],
    });
    cluster.apply_pod(name, &spec, &json!({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}));
    cluster.wait_ready(name);
}

#[test]
fn pods_of_two_groups_share_a_volume_and_no_file_of_it_is_changed() {
    let cluster = need!(Cluster::find("fs-group"));
    class(&cluster);
    // A node that keeps the file locks of a volume refuses pods of a second group.
    let shared = "amphora-test-groups";
    cluster.kubectl(&["delete", "storageclass", shared, "--ignore-not-found"]);
    cluster.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": shared},
        "provisioner": CSI_DRIVER, "mountOptions": ["locks=store"],
    }));
    cluster.claim_with("a", &json!({"storageClassName": shared}));
    cluster.pod("root", "a");
    cluster.exec(
        "root",
        "mkdir /data/d; echo of root >/data/d/f; chown 7:8 /data/d /data/d/f; chmod 2775 /data/d; chmod 664 /data/d/f",
    );
    cluster.delete("pod/root");
    for (name, group) in [("one", 3000), ("two", 4000)] {
        pod(&cluster, name, group);
        assert_eq!(cluster.exec(name, "stat -c %g /data /data/d /data/d/f | sort -u"), group.to_string());
        cluster.exec(name, &format!("echo {name} >>/data/d/f; echo {name} >/data/{name}"));
    }
    assert_eq!(
        cluster.exec("one", "cat /data/d/f /data/two; stat -c %u:%g /data/two"),
        "of root\none\ntwo\ntwo\n1000:3000"
    );
    for name in ["one", "two"] {
        cluster.delete(&format!("pod/{name}"));
    }
    cluster.pod("root", "a");
    assert_eq!(cluster.exec("root", "stat -c %u:%g /data/d /data/d/f"), "7:8\n7:8", "kubelet changed no file");
    end(&cluster);
    cluster.kubectl(&["delete", "storageclass", shared]);
}
