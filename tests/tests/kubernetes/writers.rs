//! One writer on several nodes: a second one that takes the writing over (`secondWriter: fence`).

use serde_json::json;

use super::cluster::{CSI_DRIVER, Cluster, Pod};
use super::lab::{FAR, NEAR};
use super::nodes::lab;
use crate::support::*;

#[test]
fn a_second_writer_takes_over_and_the_first_one_writes_nothing_more() {
    let cluster = need!(Cluster::find("writers"));
    need!(lab(&cluster));
    let class = "amphora-test-fence";
    cluster.kubectl(&["delete", "storageclass", class, "--ignore-not-found"]);
    cluster.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
        "provisioner": CSI_DRIVER, "parameters": {"secondWriter": "fence"},
    }));
    // No access mode of Kubernetes has one writer on several nodes: the class says it.
    let modes = json!({"storageClassName": class, "accessModes": ["ReadWriteMany"]});
    cluster.claim_with("shared", &modes);
    cluster.start(&Pod { node: Some(FAR), ..Pod::new("first", "shared") });
    cluster.exec("first", "echo first >/data/f; sync /data/f");
    cluster.start(&Pod { node: Some(NEAR), ..Pod::new("second", "shared") });
    assert_eq!(cluster.exec("second", "cat /data/f; echo second >/data/f; sync /data/f; cat /data/f"), "first\nsecond");
    let refused = cluster.exec("first", "(echo late >/data/f) 2>&1 || true; (echo late >/data/late) 2>&1 || true");
    assert_eq!(refused.matches("Stale file handle").count(), 2, "{refused}");
    assert_eq!(cluster.exec("second", "cat /data/f; ls /data"), "second\nf");

    cluster.delete("pod/first");
    cluster.delete("pod/second");
    cluster.delete("pvc/shared");
    cluster.delete(&format!("storageclass/{class}"));
}
