//! Group snapshots: volumes of a group are restored as they were at one moment.

use serde_json::json;

use super::cluster::Cluster;
use super::csi::{CLASS, class, end, from_snapshot};
use crate::support::*;

const GROUP: &str = "groupsnapshot.storage.k8s.io/v1beta2";
/// A pod's program: each number goes to the first log, and when it is on disk there to the second.
const LOGS: &str = "trap exit TERM; n=0; while echo $n >>/a/log && sync /a/log && echo $n >>/b/log && sync /b/log; do \
                    n=$((n+1)); done";

fn two_volumes(first: &str, second: &str) -> serde_json::Value {
    let volume = |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    json!({"volumes": [volume("a", first), volume("b", second)]})
}

/// The snapshot that a group has of a claim.
fn member(cluster: &Cluster, claim: &str) -> String {
    let path = format!("jsonpath={{.items[?(@.spec.source.persistentVolumeClaimName=='{claim}')].metadata.name}}");
    cluster.kubectl(&["get", "volumesnapshot", "--output", &path])
}

#[test]
fn volumes_of_a_group_are_restored_as_of_one_moment() {
    let cluster = need!(Cluster::find("groups"));
    if !cluster.kubectl_succeeds(&["get", "volumegroupsnapshots"]) {
        tests::skip!("the cluster has no volumegroupsnapshots of groupsnapshot.storage.k8s.io");
    }
    class(&cluster);
    cluster.apply(&json!({
        "apiVersion": GROUP, "kind": "VolumeGroupSnapshotClass", "metadata": {"name": CLASS},
        "driver": super::cluster::CSI_DRIVER, "deletionPolicy": "Delete",
    }));
    for name in ["a", "b", "other"] {
        cluster.claim_with(name, &json!({"storageClassName": CLASS}));
    }
    cluster.kubectl(&["label", "pvc", "a", "b", "app=shop"]);
    let mounts = json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]);
    let container = json!({"command": ["sh", "-c", LOGS], "volumeMounts": mounts});
    cluster.apply_pod("writer", &two_volumes("a", "b"), &container);
    cluster.wait_ready("writer");
    cluster.apply(&json!({
        "apiVersion": GROUP, "kind": "VolumeGroupSnapshot", "metadata": {"name": "group"},
        "spec": {"volumeGroupSnapshotClassName": CLASS, "source": {"selector": {"matchLabels": {"app": "shop"}}}},
    }));
    cluster.wait_for("volumegroupsnapshot/group", ".status.readyToUse", "true");
    let members = || cluster.kubectl(&["get", "volumesnapshot", "--output", "jsonpath={.items[*].metadata.name}"]);
    let two = || (members().split_whitespace().count() == 2).then_some(());
    assert!(wait_until(std::time::Duration::from_secs(60), two).is_some(), "of the labelled claims: {}", members());

    for name in ["a", "b"] {
        let source = from_snapshot(&member(&cluster, name));
        cluster.claim_with(&format!("restored-{name}"), &json!({"storageClassName": CLASS, "dataSource": source}));
    }
    cluster.apply_pod("reader", &two_volumes("restored-a", "restored-b"), &json!({"volumeMounts": mounts}));
    cluster.wait_ready("reader");
    let counts = cluster.exec("reader", "wc -l </a/log; wc -l </b/log; cat /a/log | tail -n 1");
    let counts: Vec<u64> = counts.lines().map(|line| line.trim().parse().expect("a number")).collect();
    let (first, second, last) = (counts[0], counts[1], counts[2]);
    assert!(first == last + 1 && (first == second || first == second + 1), "{first} lines, then {second}; last {last}");
    assert!(cluster.exec("writer", "wc -l </a/log").trim().parse::<u64>().is_ok_and(|now| now > first), "under load");

    cluster.delete("volumegroupsnapshot/group");
    assert!(
        wait_until(std::time::Duration::from_secs(60), || members().is_empty().then_some(())).is_some(),
        "the members go with their group: {}",
        members()
    );
    assert_eq!(cluster.exec("reader", "wc -l </a/log").trim(), first.to_string(), "what was restored stays");
    end(&cluster);
    cluster.kubectl(&["delete", &format!("volumegroupsnapshotclass/{CLASS}")]);
}
