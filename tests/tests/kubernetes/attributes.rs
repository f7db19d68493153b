//! VolumeAttributesClasses: what a volume is made with, and what is changed while a pod uses it.

use serde_json::{Value, json};

use super::cluster::{CSI_DRIVER, Cluster};
use super::csi::{CLASS, class, end};
use crate::support::*;

fn attributes(cluster: &Cluster, name: &str, parameters: &Value) {
    cluster.kubectl(&["delete", "volumeattributesclass", name, "--ignore-not-found"]);
    cluster.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
        "driverName": CSI_DRIVER, "parameters": parameters,
    }));
}

fn change(cluster: &Cluster, name: &str) {
    cluster.kubectl(&[
        "patch",
        "pvc",
        "a",
        "--patch",
        &format!(r#"{{"spec":{{"volumeAttributesClassName":"{name}"}}}}"#),
    ]);
}

#[test]
fn attributes_of_a_volume_are_changed_while_a_pod_uses_it() {
    let cluster = need!(Cluster::find("attributes"));
    if !cluster.kubectl_succeeds(&["get", "volumeattributesclass"]) {
        tests::skip!("the cluster has no VolumeAttributesClass: Kubernetes 1.34 has it");
    }
    class(&cluster);
    let [owned, kept, invalid] = ["owned", "kept", "invalid"].map(|name| format!("{CLASS}-{name}"));
    attributes(&cluster, &owned, &json!({"uid": "1000", "gid": "2000", "mode": "0750"}));
    attributes(&cluster, &kept, &json!({"versioning": "enabled", "noncurrentDays": "30", "mode": "0711"}));
    attributes(&cluster, &invalid, &json!({"versioning": "disabled", "mode": "0777"}));
    let bucket = cluster.claim_with("a", &json!({"storageClassName": CLASS, "volumeAttributesClassName": owned}));
    cluster.pod("one", "a");
    let owner = || cluster.exec("one", "stat -c '%u %g %a' /data");
    assert_eq!(owner(), "1000 2000 750", "a volume is made with the attributes of its claim");

    change(&cluster, &kept);
    let current = ".status.currentVolumeAttributesClassName";
    cluster.wait_for("pvc/a", current, &kept);
    assert_eq!(owner(), "1000 2000 711", "only what the class names is changed");
    if let Some(lab) = cluster.lab() {
        let shown = lab.amphora(&["bucket", "show", &bucket]).expect("shown");
        assert!(shown.contains("enabled"), "{shown}");
    }

    change(&cluster, &invalid);
    cluster.wait_for("pvc/a", ".status.modifyVolumeStatus.status", "Infeasible");
    let condition = cluster.field("pvc/a", ".status.conditions[*].message");
    assert!(condition.contains("a bucket that kept versions can only suspend that"), "{condition}");
    assert_eq!(owner(), "1000 2000 711", "all of a class or nothing");
    change(&cluster, &kept);
    cluster.wait_for("pvc/a", current, &kept);
    let pending = || cluster.field("pvc/a", ".status.modifyVolumeStatus").is_empty().then_some(());
    assert!(wait_until(std::time::Duration::from_secs(30), pending).is_some(), "the way back is open");
    end(&cluster);
    for name in [owned, kept, invalid] {
        cluster.delete(&format!("volumeattributesclass/{name}"));
    }
}
