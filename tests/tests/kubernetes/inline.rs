//! Inline volumes: made and deleted with their pod, and a named bucket with a Secret.

use serde_json::{Value, json};

use super::cluster::{CSI_DRIVER, Cluster};
use super::lab::Lab;
use crate::support::*;

const BUCKET: &str = "amphora-test-photos";
const ACCOUNT: &str = "amphora-test-viewer";

fn lab(cluster: &Cluster) -> Result<&Lab, String> {
    let modes = cluster.field(&format!("csidriver/{CSI_DRIVER}"), ".spec.volumeLifecycleModes");
    if !modes.contains("Ephemeral") {
        return Err(
            "the driver has no inline volumes: the chart's csi.inlineVolumes, with node.placement: store".into()
        );
    }
    cluster.lab().ok_or_else(|| "it needs a lab, to call amphora".to_owned())
}

fn pod(cluster: &Cluster, name: &str, volume: Value) {
    let mut source = volume;
    source["driver"] = CSI_DRIVER.into();
    let container = json!({"volumeMounts": [{"name": "v", "mountPath": "/data"}]});
    cluster.apply_pod(name, &json!({"volumes": [{"name": "v", "csi": source}]}), &container);
}

fn buckets(lab: &Lab) -> usize {
    let listed = lab.amphora(&["bucket", "list"]).expect("listed");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let buckets = listed.as_array().or_else(|| listed["buckets"].as_array());
    buckets.unwrap_or_else(|| panic!("a list: {listed}")).len()
}

#[test]
fn an_inline_volume_lives_as_long_as_its_pod() {
    let cluster = need!(Cluster::find("inline"));
    let lab = need!(lab(&cluster));
    let before = buckets(lab);
    pod(&cluster, "scratch", json!({"volumeAttributes": {"size": "16Mi", "uid": "1000", "mode": "0770"}}));
    cluster.wait_ready("scratch");
    assert_eq!(buckets(lab), before + 1);
    assert_eq!(
        cluster.exec("scratch", "stat -c '%u %a' /data; df -P -k /data | tail -n 1 | awk '{print $2}'"),
        "1000 770\n16384"
    );
    cluster.exec("scratch", "echo kept >/data/f; ! dd if=/dev/zero of=/data/large bs=1M count=20 2>/dev/null");
    cluster.kill_driver().expect("killed");
    assert_eq!(cluster.exec("scratch", "cat /data/f"), "kept", "it outlives the driver");
    cluster.delete("pod/scratch");
    let gone = || (buckets(lab) == before).then_some(());
    assert!(wait_until(std::time::Duration::from_secs(60), gone).is_some(), "it ends with its pod");
}

#[test]
fn a_named_bucket_is_opened_by_the_key_of_a_secret_alone() {
    let cluster = need!(Cluster::find("inline-named"));
    let lab = need!(lab(&cluster));
    lab.amphora(&["bucket", "create", BUCKET]).expect("created");
    lab.amphora(&["account", "create", ACCOUNT]).expect("created");
    lab.amphora(&["grant", "add", BUCKET, "--account", ACCOUNT, "--mode", "rw"]).expect("granted");
    let key = lab.amphora(&["key", "create", "--account", ACCOUNT]).expect("created");
    let key: Value = serde_json::from_str(&key).expect("JSON");
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
        "stringData": {"accessKeyId": key["accessKeyId"], "secretAccessKey": key["secretAccessKey"]},
    }));
    let attributes = json!({"bucket": BUCKET});
    pod(&cluster, "viewer", json!({"volumeAttributes": attributes, "nodePublishSecretRef": {"name": "key"}}));
    pod(&cluster, "stranger", json!({"volumeAttributes": attributes}));
    pod(&cluster, "greedy", json!({"volumeAttributes": {"size": "900Ti"}}));
    cluster.wait_ready("viewer");
    cluster.exec("viewer", "echo hello >/data/f");
    cluster.wait_for_event("needs a nodePublishSecretRef with an S3 key of the bucket");
    cluster.wait_for_event("does not fit: the store's disk has");
    cluster.kubectl(&["delete", "pod", "--all", "--timeout=120s"]);
    let shown = lab.amphora(&["bucket", "show", BUCKET]).expect("it stays, and so does what is in it");
    assert!(shown.contains(BUCKET), "{shown}");
    for words in [&["account", "delete", ACCOUNT][..], &["bucket", "delete", BUCKET, "--force"][..]] {
        lab.amphora(words).expect("deleted");
    }
}
