//! The chart under a program that writes: its pods are deleted, upgraded and rolled back, and no write fails.

use std::time::Duration;

use serde_json::json;

use super::cluster::Cluster;
use super::release::{self, HOLDER, NAMESPACE, SERVER};
use crate::support::*;

/// Appends a number and the time every 20 ms, and ends when an append fails.
const WRITER: &str = "trap exit TERM; n=0; while :; do echo $n $(cut -d' ' -f1 /proc/uptime) >>/data/log || exit 9; \
                      n=$((n+1)); usleep 20000; done";

#[test]
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn a_write_goes_on_while_the_pods_of_the_chart_are_replaced() {
    let cluster = need!(Cluster::find("replaced"));
    let Some(lab) = cluster.lab().filter(|lab| lab.has_chart()) else {
        skip!("it needs a lab with the chart: set {}=1", release::CHART);
    };
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "amphora", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }));
    cluster.pod_that_runs("writer", "v", WRITER);
    let delete = |labels: &str, how: &[&str]| {
        cluster.kubectl(&[&["delete", "pod", "--namespace", NAMESPACE, "--selector", labels], how].concat());
    };
    let by_force = ["--grace-period=0", "--force"];
    let steps: [(&str, &dyn Fn()); 6] = [
        ("the server's pod deleted", &|| delete(SERVER, &[])),
        ("the server's pod deleted by force", &|| delete(SERVER, &by_force)),
        ("an upgrade of the chart", &|| release::upgrade(lab).expect("an upgrade")),
        ("a rollback", &|| release::rollback(lab).expect("a rollback")),
        ("the holder's pod deleted", &|| delete(HOLDER, &[])),
        ("the server's pod deleted after that", &|| delete(SERVER, &[])),
    ];
    for (what, step) in steps {
        let before = lines(&cluster).len();
        step();
        for labels in [SERVER, HOLDER] {
            let ready = ["wait", "--namespace", NAMESPACE, "--for=condition=Ready", "--timeout=120s", "pod"];
            let found = || {
                let mut wait = ready.to_vec();
                wait.extend(["--selector", labels]);
                cluster.kubectl_succeeds(&wait).then_some(())
            };
            assert!(wait_until(Duration::from_secs(120), found).is_some(), "{labels} is ready after {what}");
        }
        // The server looks for a holder every two seconds.
        std::thread::sleep(Duration::from_secs(4));
        let lines = lines(&cluster);
        let gaps = lines[before.saturating_sub(1)..].windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.fold(0.0, f64::max);
        println!("{what}: the longest pause was {longest:.2} s");
        assert!(longest < 60.0, "{what}: {longest} s");
    }
    cluster.delete("pod/writer");
    cluster.delete("pvc/v");
}

/// The times of all appends so far, which are complete and in order.
fn lines(cluster: &Cluster) -> Vec<f64> {
    let text = cluster.exec("writer", "cat /data/log");
    let lines = text.lines().enumerate().map(|(number, line)| {
        let (written, time) = line.split_once(' ').unwrap_or_else(|| panic!("half a line: {line}"));
        assert_eq!(written.parse(), Ok(number), "a line is lost or came twice");
        time.parse().expect("seconds")
    });
    lines.collect()
}
