//! The Helm chart, installed in a lab: images made of the server under test and of the lab's sidecars, and the release.
//!
//! With [`Placement::Nodes`] the chart's values are its defaults, but for the images and the addresses of Services.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::lab::{Lab, NEAR};
use crate::support::*;

/// The variable that asks for the chart in place of a server beside the cluster: `nodes` or `store`.
pub(super) const CHART: &str = "AMPHORA_KUBERNETES_CHART";
/// The namespace and the name of the release.
pub(super) const NAMESPACE: &str = "amphora-system";
const RELEASE: &str = "amphora";
/// The labels of the server's pod, of the holders', and of the nodes'.
pub(super) const SERVER: &str = "app.kubernetes.io/component=store";
pub(super) const HOLDER: &str = "app.kubernetes.io/component=holder";
pub(super) const NODES: &str = "app.kubernetes.io/component=node";
/// The addresses of the Services of S3 and of the volume listener: the lab has no DNS.
const ADDRESS: &str = "10.125.0.77";
const VOLUMES: &str = "10.125.0.78";
/// The root key, which a Secret of the release has.
const KEY_ID: &str = "AMPHTESTROOTKEY00001";
const KEY_SECRET: &str = "secret-of-the-test-and-of-nothing-else-1";
/// The ConfigMap with the keys of the cluster's issuer of tokens.
const ISSUER_KEYS: &str = "issuer-keys";
/// The user of the server that mounts nothing.
const USER: u32 = 65532;
const HELM_LIMIT: Duration = Duration::from_secs(240);

/// What mounts the volumes of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The server, on its own node.
    Store,
    /// A DaemonSet, on every node.
    Nodes,
}

impl Placement {
    /// The placement that the environment asks for.
    ///
    /// # Panics
    /// It asks for one that does not exist.
    pub(super) fn asked_for() -> Option<Self> {
        match std::env::var(CHART).ok()?.as_str() {
            "nodes" => Some(Self::Nodes),
            "store" => Some(Self::Store),
            other => panic!("{CHART}={other}: it is nodes or store"),
        }
    }
}

/// The lab's registrar has flags of its own.
const REGISTRAR: &str = r#"#!/bin/sh
for word in "$@"; do
  case $word in --csi-address=*) socket=${word#*=} ;; esac
done
exec /registrar -csi-address "$socket" -registry /registration
"#;

/// Makes the images and installs the chart.
pub(super) fn install(lab: &Lab, program: &Path, placement: Placement) -> Result<(), String> {
    images_once(lab, program)?;
    let values = lab.work().join("state/values.json");
    std::fs::write(&values, values_of(lab, placement).to_string()).map_err(|error| error.to_string())?;
    if placement == Placement::Nodes {
        let store = store(lab);
        std::fs::create_dir_all(&store).map_err(|error| error.to_string())?;
        std::os::unix::fs::chown(&store, Some(USER), Some(USER)).map_err(|error| error.to_string())?;
    }
    lab.script("in.sh", &["kubectl", "create", "namespace", NAMESPACE])?;
    let (id, secret) =
        (format!("--from-literal=accessKeyId={KEY_ID}"), format!("--from-literal=secretAccessKey={KEY_SECRET}"));
    let key = ["kubectl", "--namespace", NAMESPACE, "create", "secret", "generic", "root-key", &id, &secret];
    lab.script("in.sh", &key)?;
    lab.shell(NEAR, &format!("kubectl get --raw /openid/v1/jwks >{}", jwks(lab).display()))?;
    let keys = format!("--from-file=jwks.json={}", jwks(lab).display());
    lab.script("in.sh", &["kubectl", "--namespace", NAMESPACE, "create", "configmap", ISSUER_KEYS, &keys])?;
    helm(lab, &["install", "--values", text(&values)])
}

/// The root key and the endpoint, as in a Secret of COSI.
pub(super) fn root_key(bucket: &str) -> serde_json::Value {
    let s3 = json!({
        "endpoint": format!("http://{ADDRESS}:9000"), "region": "us-east-1", "accessKeyID": KEY_ID,
        "accessSecretKey": KEY_SECRET,
    });
    json!({"spec": {"bucketName": bucket, "secretS3": s3}})
}

/// Changes the release: what a new version of the chart changes in the pods of the server and of the nodes.
pub(super) fn upgrade(lab: &Lab) -> Result<(), String> {
    let values = lab.work().join("state/values.json");
    helm(lab, &["upgrade", "--values", text(&values), "--set", "store.logLevel=debug,node.logLevel=debug"])
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

/// Makes the images, unless a test before made them in this lab, of the same program.
fn images_once(lab: &Lab, program: &Path) -> Result<(), String> {
    let about = std::fs::metadata(program).map_err(|error| error.to_string())?;
    let (made_of, marker) = (format!("{} {:?}", about.len(), about.modified()), lab.work().join("state/images"));
    if std::fs::read_to_string(&marker).is_ok_and(|before| before == made_of) {
        return Ok(());
    }
    images(lab, program)?;
    std::fs::write(&marker, made_of).map_err(|error| error.to_string())
}

/// Makes the images that the chart names, on every node there is.
pub(super) fn images(lab: &Lab, program: &Path) -> Result<(), String> {
    let home = Home::new()?;
    let stripped = home.path().join("amphora");
    let strip = run(Command::new(required("strip")?).arg("-o").arg(&stripped).arg(program), HELM_LIMIT)?;
    drop(strip.ok());
    image(lab, "amphora", &["/usr/bin/amphora"], &with_libraries("usr/bin/amphora", &stripped)?)?;
    let bin = |name: &str| format!("{name}={}", lab.work().join("bin").join(name).display());
    for name in ["csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"] {
        image(lab, name, &[&format!("/{name}")], &[bin(name)])?;
    }
    let start = home.path().join("start.sh");
    std::fs::write(&start, REGISTRAR).map_err(|error| error.to_string())?;
    let shell = format!("bin/busybox={}", required("busybox")?.display());
    let files = [bin("registrar"), format!("start.sh={}", start.display()), shell];
    image(lab, "registrar", &["/bin/sh", "/start.sh"], &files)?;
    image(lab, "livenessprobe", &["/livenessprobe"], &with_libraries("livenessprobe", &liveness_probe()?)?)?;
    image(lab, "cosi", &["/cositool", "-mode", "sidecar"], &[bin("cositool")])
}

/// The program of `tests/examples/livenessprobe.rs`, which is built with the tests.
fn liveness_probe() -> Result<std::path::PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = test.parent().and_then(Path::parent).map(|folder| folder.join("examples/livenessprobe"));
    built.filter(|program| program.is_file()).ok_or_else(|| "the example livenessprobe is not built".to_owned())
}

pub(super) fn image(lab: &Lab, name: &str, entry: &[&str], files: &[String]) -> Result<(), String> {
    let (name, entry) = (format!("lab.local/{name}:1"), json!(entry).to_string());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    lab.script("image.sh", &[&[name.as_str(), &entry], &files[..]].concat())
}

/// A program, and its libraries if it is not static, as files of an image.
pub(super) fn with_libraries(name: &str, program: &Path) -> Result<Vec<String>, String> {
    let listed = run(Command::new("ldd").arg(program), HELM_LIMIT)?.stdout;
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let libraries = paths.map(|path| format!("{}={path}", path.trim_start_matches('/')));
    Ok(std::iter::once(format!("{name}={}", program.display())).chain(libraries).collect())
}

/// The folder of the store's data.
fn store(lab: &Lab) -> std::path::PathBuf {
    lab.work().join("state/store")
}

/// The file with the keys of the cluster's issuer of tokens.
fn jwks(lab: &Lab) -> std::path::PathBuf {
    lab.work().join("state/jwks.json")
}

fn values_of(lab: &Lab, placement: Placement) -> serde_json::Value {
    let path = |name: &str| lab.work().join("state").join(name).display().to_string();
    let image = |name: &str| json!({"image": {"repository": format!("lab.local/{name}"), "tag": "1"}});
    let mut liveness = image("livenessprobe");
    liveness["enabled"] = true.into();
    let mut snapshotter = image("csi-snapshotter");
    snapshotter["groups"] = true.into();
    let mut values = json!({
        "image": {"repository": "lab.local/amphora", "tag": "1"},
        "rootKey": {"existingSecret": "root-key"},
        "store": {
            "storage": {"type": "hostPath", "hostPath": store(lab)},
            "nodeSelector": {"kubernetes.io/hostname": NEAR},
            "s3": {"endpointUrl": format!("http://{ADDRESS}:9000")},
            "oidc": {"issuer": super::lab::ISSUER, "keys": {"configMap": ISSUER_KEYS}},
            "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        },
        "service": {"clusterIP": ADDRESS},
        "volumes": {"service": {"clusterIP": VOLUMES}},
        "node": {"server": format!("{VOLUMES}:9002"), "registrar": image("registrar"), "livenessProbe": liveness},
        "csi": {
            "provisioner": image("csi-provisioner"), "attacher": image("csi-attacher"),
            "resizer": image("csi-resizer"), "snapshotter": snapshotter,
            "inlineVolumes": placement == Placement::Store,
        },
        "cosi": {"enabled": true, "secretNamespaces": ["*"], "sidecar": image("cosi")},
    });
    if placement == Placement::Store {
        values["node"]["placement"] = "store".into();
        // The only node has kubelet's folder among the lab's files.
        values["kubeletPath"] = path("kubelet").into();
        values["holder"] = json!({"hostPath": path("amphora")});
    }
    values
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}
