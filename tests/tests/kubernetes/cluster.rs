//! A running cluster, used through kubectl, with a namespace for one test.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::lab::Lab;
use crate::support::*;

/// The time limit for an object to reach the expected state.
const CONDITION_SECONDS: u64 = 120;
/// The time limit of a kubectl call, longer than its own `--timeout`.
const CALL_LIMIT: Duration = Duration::from_secs(CONDITION_SECONDS + 30);
/// The variable that names the image of pods in the cluster of `KUBECONFIG`.
const IMAGE: &str = "AMPHORA_KUBERNETES_IMAGE";
/// The variable that holds the labels of the driver's pod there.
const DRIVER_POD: &str = "AMPHORA_KUBERNETES_DRIVER_POD";

/// What a pod runs that has nothing to do.
const IDLE: &str = "trap exit TERM; while :; do sleep 1; done";

/// The names of the two drivers.
pub(super) const CSI_DRIVER: &str = "csi.amphora.dev";
pub(super) const COSI_DRIVER: &str = "cosi.amphora.dev";

/// A pod with a volume at `/data`.
pub(super) struct Pod<'a> {
    pub(super) name: &'a str,
    pub(super) claim: &'a str,
    /// The node on which it runs; any if there is none.
    pub(super) node: Option<&'a str>,
    pub(super) script: &'a str,
    /// Whether its users are those of the node.
    pub(super) host_users: bool,
}

impl<'a> Pod<'a> {
    /// A pod that does nothing, on any node.
    pub(super) fn new(name: &'a str, claim: &'a str) -> Self {
        Self { name, claim, node: None, script: IDLE, host_users: true }
    }
}

/// A cluster that has both drivers. Dropping it deletes what the test made there.
pub(super) struct Cluster {
    lab: Option<Lab>,
    kubectl: PathBuf,
    image: String,
    namespace: String,
    home: Home,
}

impl Cluster {
    /// The cluster that `KUBECONFIG` names, or the lab; with an empty namespace.
    ///
    /// # Errors
    /// There is none, which is the reason to skip a test.
    pub(super) fn find(namespace: &str) -> Result<Self, String> {
        super::asked_for()?;
        let home = Home::new()?;
        let namespace = format!("amphora-test-{namespace}");
        let cluster = match std::env::var_os("KUBECONFIG") {
            Some(_) => {
                let image = std::env::var(IMAGE).unwrap_or_else(|_| "busybox:1.36".to_owned());
                let kubectl = tool("kubectl").ok_or("KUBECONFIG is set, and kubectl is not installed")?;
                Self { lab: None, kubectl, image, namespace, home }
            }
            None => {
                let lab = Lab::start()?;
                let kubectl = lab.kubectl();
                Self { lab: Some(lab), kubectl, image: super::lab::IMAGE.to_owned(), namespace, home }
            }
        };
        cluster.kubectl(&["delete", "namespace", &cluster.namespace, "--ignore-not-found"]);
        cluster.kubectl(&["create", "namespace", &cluster.namespace]);
        let account = |cluster: &Self| cluster.try_kubectl(&["get", "serviceaccount", "default"]).status.success();
        wait_until(Duration::from_secs(60), || account(&cluster).then_some(())).ok_or("no service account")?;
        Ok(cluster)
    }

    /// A command that runs where the cluster's addresses are reached.
    pub(super) fn command(&self, program: impl Into<PathBuf>) -> Command {
        let program = program.into();
        match &self.lab {
            Some(lab) => lab.inside(&program),
            None => Command::new(program),
        }
    }

    fn try_kubectl(&self, args: &[&str]) -> Outcome {
        let mut command = self.command(&self.kubectl);
        command.args(["--namespace", &self.namespace]).args(args);
        run(&mut command, CALL_LIMIT).expect("kubectl ends")
    }

    /// Runs kubectl in the test's namespace; what it printed.
    #[track_caller]
    pub(super) fn kubectl(&self, args: &[&str]) -> String {
        let outcome = self.try_kubectl(args);
        if !outcome.status.success() {
            let events = self.try_kubectl(&["get", "events", "--sort-by=.lastTimestamp"]);
            panic!("{outcome}\n{}", events.stdout);
        }
        outcome.stdout.trim().to_owned()
    }

    /// Whether a call of kubectl succeeds.
    pub(super) fn kubectl_succeeds(&self, args: &[&str]) -> bool {
        self.try_kubectl(args).status.success()
    }

    /// The namespace of the test.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The lab, if the cluster is one.
    pub(super) fn lab(&self) -> Option<&Lab> {
        self.lab.as_ref()
    }

    /// Makes or changes an object.
    #[track_caller]
    pub(super) fn apply(&self, object: &Value) {
        let file = self.home.path().join("object.json");
        std::fs::write(&file, object.to_string()).expect("written");
        self.kubectl(&["apply", "--filename", file.to_str().expect("a path of ours")]);
    }

    /// The value of a field (kubectl's jsonpath) of an object.
    #[track_caller]
    pub(super) fn field(&self, object: &str, path: &str) -> String {
        self.kubectl(&["get", object, "--output", &format!("jsonpath={{{path}}}")])
    }

    /// Waits until a field of an object has a value.
    #[track_caller]
    pub(super) fn wait_for(&self, object: &str, path: &str, value: &str) {
        let condition = format!("--for=jsonpath={{{path}}}={value}");
        self.kubectl(&["wait", &condition, &format!("--timeout={CONDITION_SECONDS}s"), object]);
    }

    /// Deletes an object and waits until it is gone.
    #[track_caller]
    pub(super) fn delete(&self, object: &str) {
        self.kubectl(&["delete", object, &format!("--timeout={CONDITION_SECONDS}s")]);
    }

    /// Waits until there is no such object.
    #[track_caller]
    pub(super) fn wait_gone(&self, object: &str) {
        let gone = || (!self.try_kubectl(&["get", object]).status.success()).then_some(());
        assert!(wait_until(Duration::from_secs(CONDITION_SECONDS), gone).is_some(), "{object} is still there");
    }

    /// Claims a volume of the chart's class; its handle, which is its bucket.
    #[track_caller]
    pub(super) fn claim(&self, name: &str, access: &str) -> String {
        self.claim_with(name, &json!({"storageClassName": "amphora", "accessModes": [access]}))
    }

    /// Claims a volume of 64 MiB for one node, with these fields of the claim's spec in place of that; its handle.
    #[track_caller]
    pub(super) fn claim_with(&self, name: &str, fields: &Value) -> String {
        let usual = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}});
        let (kind, spec) = ("PersistentVolumeClaim", with_fields(usual, fields));
        self.apply(&json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}));
        let object = format!("pvc/{name}");
        self.wait_for(&object, ".status.phase", "Bound");
        let volume = self.field(&object, ".spec.volumeName");
        self.field(&format!("pv/{volume}"), ".spec.csi.volumeHandle")
    }

    /// Starts a pod that mounts a claim at `/data`, and waits until it runs.
    #[track_caller]
    pub(super) fn pod(&self, name: &str, claim: &str) {
        self.start(&Pod::new(name, claim));
    }

    /// Starts such a pod with a user namespace of its own.
    #[track_caller]
    pub(super) fn pod_apart(&self, name: &str, claim: &str) {
        self.start(&Pod { host_users: false, ..Pod::new(name, claim) });
    }

    /// Starts a pod and waits until it runs.
    #[track_caller]
    pub(super) fn start(&self, pod: &Pod<'_>) {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": pod.claim}});
        let mut spec = json!({"hostUsers": pod.host_users, "volumes": [volume]});
        if let Some(node) = pod.node {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        }
        let mounts = json!([{"name": "v", "mountPath": "/data"}]);
        self.apply_pod(pod.name, &spec, &json!({"command": ["sh", "-c", pod.script], "volumeMounts": mounts}));
        self.wait_ready(pod.name);
    }

    /// Makes a pod with these fields of its spec and of its only container; without a command it does nothing.
    #[track_caller]
    pub(super) fn apply_pod(&self, name: &str, spec: &Value, container: &Value) {
        let idle = json!({
            "name": "c", "image": self.image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", IDLE],
        });
        let mut spec = with_fields(json!({"terminationGracePeriodSeconds": 1}), spec);
        spec["containers"] = json!([with_fields(idle, container)]);
        self.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
    }

    /// Waits until a pod is ready.
    #[track_caller]
    pub(super) fn wait_ready(&self, pod: &str) {
        let limit = format!("--timeout={CONDITION_SECONDS}s");
        self.kubectl(&["wait", "--for=condition=Ready", &limit, &format!("pod/{pod}")]);
    }

    /// Waits until an event has these words in its message.
    #[track_caller]
    pub(super) fn wait_for_event(&self, words: &str) {
        let messages = || self.kubectl(&["get", "events", "--output", "jsonpath={.items[*].message}"]);
        let came = wait_until(Duration::from_secs(60), || messages().contains(words).then_some(()));
        assert!(came.is_some(), "no event says {words:?}: {}", messages());
    }

    /// Runs a shell line in a pod; what it printed.
    #[track_caller]
    pub(super) fn exec(&self, pod: &str, script: &str) -> String {
        self.kubectl(&["exec", pod, "--", "sh", "-ec", script])
    }

    /// Kills the driver's process and waits until it serves again.
    ///
    /// # Errors
    /// The environment does not name the driver's pod.
    pub(super) fn kill_driver(&self) -> Result<(), String> {
        let labels = match &self.lab {
            Some(lab) if lab.chart().is_some() => super::release::SERVER.to_owned(),
            Some(lab) => return lab.kill_driver(),
            None => std::env::var(DRIVER_POD).map_err(|_| format!("{DRIVER_POD} does not name the driver's pod"))?,
        };
        // A deletion in all namespaces is refused where the test has one of its own.
        let namespace = ["get", "pod", "--all-namespaces", "--selector", &labels, "--output"];
        let namespace = self.kubectl(&[&namespace[..], &["jsonpath={.items[0].metadata.namespace}"]].concat());
        let pod = ["pod", "--namespace", &namespace, "--selector", &labels];
        self.kubectl(&[&["delete", "--grace-period=0", "--force"], &pod[..]].concat());
        // The next pod may not exist yet.
        let wait = [&["wait", "--for=condition=Ready", "--timeout=60s"], &pod[..]].concat();
        let ready = || self.kubectl_succeeds(&wait).then_some(());
        wait_until(Duration::from_secs(CONDITION_SECONDS), ready).ok_or_else(|| format!("no pod {labels} is ready"))
    }

    /// Runs curl, which signs with the key in a Secret of COSI, on a key of its bucket.
    pub(super) fn curl(&self, info: &Value, key: &str, args: &[&str]) -> Outcome {
        let s3 = &info["spec"]["secretS3"];
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let bucket = match info["bucketId"].as_str() {
            Some(bucket) => bucket.to_owned(),
            None => text(&info["spec"]["bucketName"]),
        };
        let user = format!("{}:{}", text(&s3["accessKeyID"]), text(&s3["accessSecretKey"]));
        let mut command = self.command(tool("curl").expect("curl is installed"));
        command.args(["--silent", "--show-error", "--fail", "--max-time", "30"]);
        // Some versions of curl do not send this header by themselves.
        command.args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
        command.args(["--aws-sigv4", &format!("aws:amz:{}:s3", text(&s3["region"])), "--user", &user]);
        command.args(args).arg(format!("{}/{bucket}/{key}", text(&s3["endpoint"])));
        run(&mut command, CALL_LIMIT).expect("curl ends")
    }
}

/// An object with the fields of another one in place of its own.
fn with_fields(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        object[name] = value.clone();
    }
    object
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.try_kubectl(&["delete", "namespace", &self.namespace, "--ignore-not-found", "--timeout=60s"]);
        }
    }
}
