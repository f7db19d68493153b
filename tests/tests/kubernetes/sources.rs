//! Claims that begin with the content of a bucket (`fromBucket`).

use serde_json::json;

use super::cluster::{CSI_DRIVER, Cluster};
use super::csi::{CLASS, class, end};
use crate::support::*;

#[test]
fn a_claim_begins_as_the_content_of_a_bucket() {
    let cluster = need!(Cluster::find("sources"));
    class(&cluster);
    let golden = cluster.claim_with("golden", &json!({"storageClassName": CLASS}));
    cluster.pod("golden", "golden");
    cluster.exec(
        "golden",
        "mkdir -p /data/models/2026; echo weights >/data/models/2026/w; ln -s w /data/models/2026/l; sync",
    );
    let from = "amphora-test-from";
    cluster.kubectl(&["delete", "storageclass", from, "--ignore-not-found"]);
    cluster.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": from},
        "provisioner": CSI_DRIVER, "parameters": {"fromBucket": golden}, "mountOptions": ["prefix=models/2026"],
    }));
    for name in ["one", "two"] {
        cluster.claim_with(name, &json!({"storageClassName": from}));
        cluster.pod(name, name);
        assert_eq!(cluster.exec(name, &format!("cat /data/l; echo {name} >/data/w; ls /data")), "weights\nl\nw");
    }
    let all = ["golden", "one", "two"];
    let seen = all.map(|pod| cluster.exec(pod, "cat /data/w /data/models/2026/w 2>/dev/null || true"));
    assert_eq!(seen, ["weights", "one", "two"], "each has its own");
    end(&cluster);
    cluster.kubectl(&["delete", "storageclass", from]);
}
