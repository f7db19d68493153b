//! The chart under programs that write: its pods are deleted, killed, upgraded and rolled back, and no write fails.

use std::time::Duration;

use super::cluster::{Cluster, Pod};
use super::lab::{FAR, Lab, NEAR};
use super::release::{self, HOLDER, NAMESPACE, NODES, Placement, SERVER};
use crate::support::*;

/// How long a program may wait for one write.
const PAUSE_SECONDS: f64 = 60.0;

/// A pod's program: appends a number and the time every 20 ms to a file of its own, and ends when an append fails.
fn writer(name: &str) -> String {
    format!(
        "trap exit TERM; n=0; while :; do echo $n $(cut -d' ' -f1 /proc/uptime) >>/data/{name} || exit 9; n=$((n+1)); \
         usleep 20000; done"
    )
}

/// What is done to the release, and its name.
type Step<'a> = (&'a str, Box<dyn Fn() + 'a>);

fn delete(cluster: &Cluster, labels: &str, how: &[&str]) {
    cluster.kubectl(&[&["delete", "pod", "--namespace", NAMESPACE, "--selector", labels], how].concat());
}

fn steps<'a>(cluster: &'a Cluster, lab: &'a Lab, placement: Placement) -> Vec<Step<'a>> {
    let by_force = ["--grace-period=0", "--force"];
    let mut steps: Vec<Step<'a>> = vec![
        ("the server's process killed", Box::new(|| lab.kill(NEAR, "/usr/bin/amphora serve").expect("a server"))),
        ("the server's pod deleted", Box::new(|| delete(cluster, SERVER, &[]))),
        ("the server's pod deleted by force", Box::new(move || delete(cluster, SERVER, &by_force))),
        ("an upgrade of the chart", Box::new(|| release::upgrade(lab).expect("an upgrade"))),
        ("a rollback", Box::new(|| release::rollback(lab).expect("a rollback"))),
        ("the holders' pods deleted", Box::new(|| delete(cluster, HOLDER, &[]))),
        ("the server's pod deleted after that", Box::new(|| delete(cluster, SERVER, &[]))),
    ];
    if placement == Placement::Nodes {
        let kill = || [NEAR, FAR].iter().for_each(|node| lab.kill(node, "/usr/bin/amphora node").expect("a node"));
        let nodes: [Step<'a>; 4] = [
            ("the nodes' processes killed", Box::new(kill)),
            ("the nodes' pods deleted", Box::new(|| delete(cluster, NODES, &[]))),
            ("the nodes' pods deleted by force", Box::new(move || delete(cluster, NODES, &by_force))),
            ("the pods of the nodes and of the server deleted", {
                Box::new(|| delete(cluster, "app.kubernetes.io/component in (node,store)", &[]))
            }),
        ];
        steps.extend(nodes);
    }
    steps
}

#[test]
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn writes_go_on_while_the_pods_of_the_chart_are_replaced() {
    let cluster = need!(Cluster::find("replaced"));
    let Some((lab, placement)) = cluster.lab().and_then(|lab| Some((lab, lab.chart()?))) else {
        skip!("it needs a lab with the chart: set {}=nodes or store", release::CHART);
    };
    cluster.claim("v", "ReadWriteMany");
    let nodes = if placement == Placement::Nodes { &[NEAR, FAR][..] } else { &[NEAR] };
    for node in nodes {
        cluster.start(&Pod { node: Some(node), script: &writer(node), ..Pod::new(node, "v") });
    }
    for (what, step) in steps(&cluster, lab, placement) {
        let before: Vec<usize> = nodes.iter().map(|node| lines(&cluster, node).len()).collect();
        step();
        wait_for_pods(&cluster, placement, what);
        // The server looks for a holder every two seconds.
        std::thread::sleep(Duration::from_secs(4));
        let mut longest = Vec::new();
        for (node, before) in nodes.iter().zip(before) {
            let lines = lines(&cluster, node);
            let gaps = lines[before.saturating_sub(1)..].windows(2).map(|pair| pair[1] - pair[0]);
            let pause = gaps.fold(0.0, f64::max);
            assert!(lines.len() > before, "{what}: nothing was written on {node}");
            assert!(pause < PAUSE_SECONDS, "{what}: {pause} s on {node}");
            longest.push(format!("{pause:.2} s"));
        }
        println!("{what}: the longest pause was {}", longest.join(" and "));
    }
    for node in nodes {
        cluster.delete(&format!("pod/{node}"));
    }
    cluster.delete("pvc/v");
}

/// Waits until the pods of the release are ready again.
fn wait_for_pods(cluster: &Cluster, placement: Placement, after: &str) {
    let nodes = (placement == Placement::Nodes).then_some(NODES);
    for labels in [SERVER, HOLDER].into_iter().chain(nodes) {
        let wait = ["wait", "--namespace", NAMESPACE, "--for=condition=Ready", "--timeout=120s", "pod", "--selector"];
        let wait = [&wait[..], &[labels]].concat();
        let ready = || cluster.kubectl_succeeds(&wait).then_some(());
        assert!(wait_until(Duration::from_secs(120), ready).is_some(), "{labels} is ready after {after}");
    }
}

/// The times of all appends of a pod so far, which are complete and in order.
fn lines(cluster: &Cluster, pod: &str) -> Vec<f64> {
    let text = cluster.exec(pod, &format!("cat /data/{pod}"));
    let lines = text.lines().enumerate().map(|(number, line)| {
        let (written, time) = line.split_once(' ').unwrap_or_else(|| panic!("half a line: {line}"));
        assert_eq!(written.parse(), Ok(number), "a line is lost or came twice on {pod}");
        time.parse().expect("seconds")
    });
    lines.collect()
}
