//! Volumes on two nodes: shared by both and by S3, moved away from a node that was cut off, and kept over a loss of power.
//!
//! The lab cuts the network alone. A node that is cut off goes on to run, so its programs go on to write.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, Pod};
use super::lab::{FAR, Lab, NEAR};
use super::release::{self, NAMESPACE, Placement};
use crate::support::*;

/// How long the cluster may take to notice that a node is gone, or is back.
const LIMIT: Duration = Duration::from_secs(120);
/// How soon a node that is reached again learns that it was fenced.
const SOON: Duration = Duration::from_secs(30);
/// The taint with which an operator declares that a node is dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// A pod's program: appends numbers, each synced, until an append fails, and then waits.
const APPENDER: &str = "trap exit TERM; n=0; while echo $n >>/data/log; do sync /data/log; n=$((n+1)); usleep 20000; done; \
                        while :; do sleep 1; done";
/// Where kubelet has the volumes of pods, and their staged mounts.
const MOUNTS: &str = "kubernetes.io~csi|kubernetes.io/csi";

/// A pod's program: takes names that the pod on the other node wants too, and notes those that it got.
fn contender(own: &str) -> String {
    format!(
        "trap exit TERM; while [ ! -e /data/start ]; do usleep 10000; done; for i in $(seq 200); do \
         if (set -C; echo {own} >/data/name.$i) 2>/dev/null; then echo $i >>/data/{own}.got; fi; done; \
         touch /data/{own}.done; while :; do sleep 1; done"
    )
}

/// The lab, if the chart mounts on two nodes there.
pub(super) fn lab(cluster: &Cluster) -> Result<&Lab, String> {
    let lab = cluster.lab().filter(|lab| lab.chart() == Some(Placement::Nodes));
    lab.ok_or_else(|| format!("it needs a lab of two nodes with the chart: set {}=nodes", release::CHART))
}

/// Waits until no volume of the driver is mounted on a node.
#[track_caller]
fn wait_for_no_mount(lab: &Lab, node: &str) {
    let none = || lab.shell(node, &format!("! grep -E '{MOUNTS}' /proc/self/mountinfo")).ok();
    assert!(wait_until(LIMIT, none).is_some(), "{:?}", lab.shell(node, "grep csi /proc/self/mountinfo"));
}

#[test]
fn a_volume_is_the_same_on_both_nodes_and_through_s3() {
    let cluster = need!(Cluster::find("shared"));
    need!(lab(&cluster));
    let bucket = cluster.claim("shared", "ReadWriteMany");
    for node in [NEAR, FAR] {
        cluster.start(&Pod { node: Some(node), script: &contender(node), ..Pod::new(node, "shared") });
    }
    for round in 0..10 {
        let (from, to) = if round % 2 == 0 { (NEAR, FAR) } else { (FAR, NEAR) };
        cluster.exec(from, &format!("echo {round} >/data/f; echo {round} >>/data/all"));
        assert_eq!(cluster.exec(to, "cat /data/f; wc -l </data/all"), format!("{round}\n{}", round + 1));
    }
    let root = release::root_key(&bucket);
    assert_eq!(cluster.curl(&root, "f", &[]).ok(), "9\n", "S3 has what a pod wrote");
    let put = cluster.curl(&root, "f", &["--request", "PUT", "--data-binary", "from S3"]);
    assert!(put.status.success(), "{put}");
    for node in [NEAR, FAR] {
        assert_eq!(cluster.exec(node, "cat /data/f"), "from S3");
    }
    cluster.exec(NEAR, "touch /data/start");
    let done = || cluster.exec(FAR, "ls /data/*.done 2>/dev/null | wc -l");
    assert!(wait_until(LIMIT, || (done() == "2").then_some(())).is_some(), "both pods went through all names");
    let got = cluster.exec(NEAR, "cat /data/*.got | sort -n | uniq | wc -l; cat /data/*.got | wc -l");
    assert_eq!(got, "200\n200", "each name was created once");
    for node in [NEAR, FAR] {
        cluster.delete(&format!("pod/{node}"));
    }
    cluster.delete("pvc/shared");
}

#[test]
fn a_node_that_was_cut_off_writes_nothing_into_a_volume_that_moved() {
    let cluster = need!(Cluster::find("moved"));
    let lab = need!(lab(&cluster));
    let bucket = cluster.claim("moved", "ReadWriteOnce");
    cluster.start(&Pod { node: Some(FAR), script: APPENDER, ..Pod::new("before", "moved") });
    let volume = cluster.field("pvc/moved", ".spec.volumeName");
    let staged = lab.shell(FAR, "grep -o '/[^ ]*globalmount' /proc/self/mountinfo | head -n 1");
    let staged = staged.expect("a staged mount").trim().to_owned();
    lab.cut(true).expect("cut");
    let unknown = ["wait", "--for=condition=Ready=Unknown", "--timeout=120s", &format!("node/{FAR}")];
    cluster.kubectl(&unknown);
    cluster.kubectl(&["delete", "pod/before", "--wait=false"]);
    cluster.kubectl(&["taint", "node", FAR, &format!("{OUT_OF_SERVICE}=nodeshutdown:NoExecute")]);
    cluster.start(&Pod { node: Some(NEAR), ..Pod::new("after", "moved") });
    let moved = cluster.exec("after", "wc -c </data/log; echo moved >/data/owner; sync");
    // The node is still cut off, its program still wants to append, and this waits for the store as that does.
    let late =
        format!("(echo late >{staged}/late) 2>&1; (echo late >>{staged}/log) 2>&1; cat {staged}/owner 2>&1; true");
    std::thread::scope(|scope| {
        let late = scope.spawn(|| lab.shell(FAR, &late).expect("it ends"));
        std::thread::sleep(Duration::from_secs(15));
        lab.cut(false).expect("healed");
        let healed = Instant::now();
        let said = late.join().expect("no panic");
        assert!(!said.contains("moved"), "a node that was cut off shows no later content: {said}");
        assert!(said.matches("Stale file handle").count() == 3, "each call says that the session is lost: {said}");
        assert!(healed.elapsed() < SOON, "the store says so when it is reached: {:?}", healed.elapsed());
    });
    cluster.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", &format!("node/{FAR}")]);
    cluster.kubectl(&["taint", "node", FAR, &format!("{OUT_OF_SERVICE}-")]);
    wait_for_no_mount(lab, FAR);
    assert_eq!(cluster.exec("after", "wc -c </data/log; ls /data"), format!("{moved}\nlog\nowner"));
    assert_eq!(cluster.curl(&release::root_key(&bucket), "owner", &[]).ok(), "moved\n");

    cluster.delete("pod/after");
    cluster.start(&Pod { node: Some(FAR), ..Pod::new("again", "moved") });
    assert_eq!(cluster.exec("again", "cat /data/owner; wc -c </data/log"), format!("moved\n{moved}"));
    cluster.delete("pod/again");
    cluster.delete("pvc/moved");
    cluster.wait_gone(&format!("pv/{volume}"));
    wait_for_no_mount(lab, FAR);
}

#[test]
fn pods_find_their_volumes_again_after_their_node_lost_power() {
    let cluster = need!(Cluster::find("power"));
    let lab = need!(lab(&cluster));
    cluster.claim("power", "ReadWriteOnce");
    cluster.start(&Pod { node: Some(FAR), script: APPENDER, ..Pod::new("before", "power") });
    cluster.exec("before", "echo kept >/data/f; sync");
    lab.pull_the_plug().expect("its processes end");
    lab.join().expect("it starts");
    release::images(lab, &need!(amphora())).expect("its images");
    // The cluster still has the pod on this node, and kubelet starts it again.
    let back = || cluster.kubectl_succeeds(&["exec", "before", "--", "grep", "-q", "kept", "/data/f"]).then_some(());
    assert!(wait_until(LIMIT, back).is_some(), "{}", cluster.kubectl(&["describe", "pod/before"]));
    cluster.wait_ready("before");
    let numbers = cluster.exec("before", "cat /data/log");
    assert!(numbers.lines().all(|line| line.parse::<u64>().is_ok()), "whole lines: {numbers}");
    let node = ["wait", "--namespace", NAMESPACE, "--for=condition=Ready", "--timeout=120s", "pod", "--all"];
    cluster.kubectl(&node);
    cluster.delete("pod/before");
    cluster.delete("pvc/power");
    wait_for_no_mount(lab, FAR);
}
