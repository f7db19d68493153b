//! The Helm chart, installed in a lab: images made of the server under test and of the lab's sidecars, and the release.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::lab::Lab;
use crate::support::*;

/// The variable that asks for the chart in place of a server beside the cluster.
pub(super) const CHART: &str = "AMPHORA_KUBERNETES_CHART";
/// The namespace and the name of the release.
pub(super) const NAMESPACE: &str = "amphora-system";
const RELEASE: &str = "amphora";
/// The labels of the server's pod, and of the holder's.
pub(super) const SERVER: &str = "app.kubernetes.io/component=store";
pub(super) const HOLDER: &str = "app.kubernetes.io/component=holder";
/// The Service's address: the lab has no DNS.
const ADDRESS: &str = "10.125.0.77";
const HELM_LIMIT: Duration = Duration::from_secs(180);

/// The lab's registrar has flags of its own.
const REGISTRAR: &str = r#"#!/bin/sh
for word in "$@"; do
  case $word in --csi-address=*) socket=${word#*=} ;; esac
done
exec /registrar -csi-address "$socket" -registry /registration
"#;

/// Makes the images and installs the chart.
pub(super) fn install(lab: &Lab, program: &Path) -> Result<(), String> {
    let home = Home::new()?;
    images(lab, program, home.path())?;
    let values = lab.work().join("state/values.json");
    std::fs::write(&values, values_of(lab).to_string()).map_err(|error| error.to_string())?;
    lab.script("in.sh", &["kubectl", "create", "namespace", NAMESPACE])?;
    helm(lab, &["install", "--values", text(&values)])
}

/// Changes the release: what a new version of the chart changes in the server's pod.
pub(super) fn upgrade(lab: &Lab) -> Result<(), String> {
    let values = lab.work().join("state/values.json");
    helm(lab, &["upgrade", "--values", text(&values), "--set", "store.logLevel=debug"])
}

/// Goes back to the release before.
pub(super) fn rollback(lab: &Lab) -> Result<(), String> {
    run_helm(lab, &["rollback", RELEASE])
}

/// Removes the release, and looks whether anything of it is left in the cluster.
pub(super) fn uninstall(lab: &Lab) -> Result<(), String> {
    run_helm(lab, &["uninstall", RELEASE])?;
    let kinds = "statefulset,daemonset,service,csidriver,storageclass,clusterrole,clusterrolebinding,bucketclass";
    let selector = format!("app.kubernetes.io/instance={RELEASE}");
    let mut command = lab.inside(&lab.kubectl());
    command.args(["get", kinds, "--all-namespaces", "--selector", &selector, "--output", "name"]);
    let left = run(&mut command, HELM_LIMIT)?.stdout;
    if left.trim().is_empty() { Ok(()) } else { Err(format!("uninstalling left {left}")) }
}

fn helm(lab: &Lab, words: &[&str]) -> Result<(), String> {
    let chart = repo().join("deploy/helm/amphora");
    let (verb, rest) = words.split_first().expect("a verb");
    run_helm(lab, &[&[*verb, RELEASE, text(&chart)], rest].concat())
}

/// Runs helm and waits until the release is ready.
fn run_helm(lab: &Lab, words: &[&str]) -> Result<(), String> {
    let mut command = lab.inside(&required("helm")?);
    command.args(words).args(["--namespace", NAMESPACE, "--wait", "--timeout", "120s"]);
    let outcome = run(&mut command, HELM_LIMIT)?;
    if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
}

/// The images that the chart names, of one file each, or of a program and its libraries.
fn images(lab: &Lab, program: &Path, home: &Path) -> Result<(), String> {
    let stripped = home.join("amphora");
    let strip = run(Command::new(required("strip")?).arg("-o").arg(&stripped).arg(program), HELM_LIMIT)?;
    drop(strip.ok());
    let mut files = vec![format!("usr/bin/amphora={}", stripped.display())];
    files.extend(libraries(program)?);
    image(lab, "amphora", &["/usr/bin/amphora"], &files)?;
    let bin = |name: &str| format!("{name}={}", lab.work().join("bin").join(name).display());
    for name in ["csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"] {
        image(lab, name, &[&format!("/{name}")], &[bin(name)])?;
    }
    let start = home.join("start.sh");
    std::fs::write(&start, REGISTRAR).map_err(|error| error.to_string())?;
    let shell = format!("bin/busybox={}", required("busybox")?.display());
    let files = [bin("registrar"), format!("start.sh={}", start.display()), shell];
    image(lab, "registrar", &["/bin/sh", "/start.sh"], &files)?;
    image(lab, "cosi", &["/cositool", "-mode", "sidecar"], &[bin("cositool")])
}

fn image(lab: &Lab, name: &str, entry: &[&str], files: &[String]) -> Result<(), String> {
    let (name, entry) = (format!("lab.local/{name}:1"), json!(entry).to_string());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    lab.script("image.sh", &[&[name.as_str(), &entry], &files[..]].concat())
}

/// The libraries of a program that is not static, as files of an image.
fn libraries(program: &Path) -> Result<Vec<String>, String> {
    let listed = run(Command::new("ldd").arg(program), HELM_LIMIT)?.stdout;
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|path| format!("{}={path}", path.trim_start_matches('/'))).collect())
}

fn values_of(lab: &Lab) -> serde_json::Value {
    let state = lab.work().join("state");
    let path = |name: &str| state.join(name).display().to_string();
    let image = |name: &str| json!({"image": {"repository": format!("lab.local/{name}"), "tag": "1"}});
    json!({
        "image": {"repository": "lab.local/amphora", "tag": "1"},
        "kubeletPath": path("kubelet"),
        "store": {
            "storage": {"type": "hostPath", "hostPath": path("store")},
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "s3": {"endpointUrl": format!("http://{ADDRESS}:9000")},
            "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        },
        "service": {"clusterIP": ADDRESS},
        "holder": {"hostPath": path("amphora")},
        "node": {"placement": "store", "registrar": image("registrar")},
        "csi": {
            "provisioner": image("csi-provisioner"), "attacher": image("csi-attacher"),
            "resizer": image("csi-resizer"), "snapshotter": image("csi-snapshotter"),
        },
        "cosi": {"enabled": true, "secretNamespaces": ["*"], "sidecar": image("cosi")},
    })
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}
