//! A cluster of one or two nodes on this machine, created by the scripts of a lab: etcd, the control plane, kubelet and
//! the released sidecars, each node in namespaces of its own.
//!
//! - With the chart's nodes there are two: [`NEAR`] with the control plane and the store, and [`FAR`]. Both have kubelet's
//!   folder and `/run/amphora` at their default paths, so that one DaemonSet fits both.
//!
//! The lab is a folder of scripts outside this repository, in `AMPHORA_LAB` or `../shared/k8s`; the output of its
//! `build.sh` is in the work folder that `AMPHORA_LAB_WORK` names. A running lab is used and left running.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::CSI_DRIVER;
use super::release::{self, Placement};
use crate::support::*;

const SCRIPTS: &str = "AMPHORA_LAB";
const WORK: &str = "AMPHORA_LAB_WORK";
/// The image with a shell that every node of the lab has.
pub(super) const IMAGE: &str = "lab.local/busybox:1";
/// A script that starts or stops something.
const SCRIPT_LIMIT: Duration = Duration::from_secs(180);
/// Where the node reaches its own services.
const NODE_ADDRESS: &str = "10.123.0.1";
/// The first node, which has the control plane, and the second one.
pub(super) const NEAR: &str = "node1";
pub(super) const FAR: &str = "node2";
/// Kubelet's default folder. In the lab each node has a file system of its own there.
const KUBELET: &str = "/var/lib/kubelet";
/// How soon Kubernetes takes a silent node for dead; its default is 50 s.
const GRACE: &str = "--node-monitor-grace-period=20s";
/// Switches group snapshots on, in the snapshot controller and in the sidecar.
const GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=true";
/// Has kubelet ask for the condition of volumes.
const HEALTH: &str = "--feature-gates=CSIVolumeHealth=true";
/// Has the provisioner publish the free space of the store.
const CAPACITY: &str = "--enable-capacity --capacity-ownerref-level=-1 --capacity-poll-interval=10s";
/// The label of the nodes that reach a server beside the cluster, and its value.
pub(super) const ZONE_KEY: &str = "topology.amphora.dev/zone";
pub(super) const ZONE: &str = "lab";
/// The issuer of the lab's tokens of ServiceAccounts.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";
/// The CSIDriver object of a driver that also makes inline volumes, as the chart has it with `csi.inlineVolumes` and
/// `csi.provisioner.capacity`.
const INLINE_DRIVER: &str = "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: csi.amphora.dev}, spec: \
                             {attachRequired: true, podInfoOnMount: true, fsGroupPolicy: File, storageCapacity: true, \
                             volumeLifecycleModes: [Persistent, Ephemeral]}}";
/// The file with a token for the API server, in the work folder.
const TOKEN: &str = "state/token";
/// The name of the COSI sidecar's process.
const SIDECAR: &str = "amphora-cosi-sidecar";

/// A lab with the server under test as both drivers. Dropping it stops what it started.
pub(super) struct Lab {
    scripts: PathBuf,
    work: PathBuf,
    /// Whether it was started here.
    began: bool,
    driver: String,
    /// If the server and the sidecars are pods of the chart: what mounts volumes.
    chart: Option<Placement>,
}

impl Lab {
    /// Starts the lab, the server, and all sidecars.
    ///
    /// # Errors
    /// There is no lab: the reason to skip a test.
    ///
    /// # Panics
    /// The lab does not start.
    pub(super) fn start() -> Result<Self, String> {
        let scripts = match std::env::var_os(SCRIPTS) {
            Some(scripts) => PathBuf::from(scripts),
            None => repo().join("../shared/k8s"),
        };
        if !scripts.join("up.sh").is_file() {
            return Err(format!("there is no cluster: set KUBECONFIG, or {SCRIPTS} to the scripts of a lab"));
        }
        let work = std::env::var_os(WORK).map(PathBuf::from).filter(|work| work.join("bin/kubelet").is_file());
        let work = work.ok_or_else(|| format!("{WORK} does not name a folder that the lab's build.sh filled"))?;
        root_and_fuse()?;
        let began = !work.join("run/holder.pid").is_file();
        let program = amphora()?;
        let driver = serve(&program, &work);
        let chart = Placement::asked_for();
        let lab = Self { scripts, work, began, driver, chart };
        lab.begin(&program).unwrap_or_else(|error| panic!("the lab does not start: {error}"));
        Ok(lab)
    }

    fn begin(&self, program: &Path) -> Result<(), String> {
        self.script("up.sh", &[])?;
        // The lab hides files in the node's /proc by mounts. The kernel lets a user namespace mount its own /proc only
        // where an unobstructed one exists.
        let proc = self.work.join("state/proc").display().to_string();
        self.shell(NEAR, &format!("mkdir -p {proc}; mountpoint -q {proc} || mount -t proc lab {proc}"))?;
        for path in ["amphora", "cosi", "store"] {
            // Removes leftovers of an earlier test, if there are any.
            let _ = std::fs::remove_dir_all(self.work.join("state").join(path));
        }
        if let Some(placement) = self.chart {
            if placement == Placement::Nodes {
                self.prepare(NEAR)?;
                self.join()?;
            }
            return release::install(self, program, placement);
        }
        std::fs::create_dir_all(self.work.join("state/cosi")).map_err(|error| error.to_string())?;
        std::fs::write(self.inline_driver(), INLINE_DRIVER).map_err(|error| error.to_string())?;
        // An object of an earlier run may lack inline volumes, which cannot be added to it.
        self.script("in.sh", &["kubectl", "delete", "csidriver", CSI_DRIVER, "--ignore-not-found"])?;
        // A new control plane makes the account after a moment.
        let token = || self.shell(NEAR, "kubectl create token default --namespace kube-system --duration 24h").ok();
        let token = wait_until(SCRIPT_LIMIT, token).ok_or("no token for the API server")?;
        std::fs::write(self.work.join(TOKEN), token.trim()).map_err(|error| error.to_string())?;
        self.script("driver.sh", &["start"])?;
        let path = |path: &str| self.work.join(path).display().to_string();
        let (program, config) = (path("bin/cositool"), path("pki/admin.conf"));
        let socket = format!("unix://{}", cosi_socket(&self.work));
        let sidecar = [&program, "-mode", "sidecar", "-kubeconfig", &config, "-driver-addr", &socket];
        self.script("svc.sh", &[&["start", SIDECAR], &sidecar[..]].concat())
    }

    /// Starts the second node.
    pub(super) fn join(&self) -> Result<(), String> {
        self.script("join.sh", &[FAR])?;
        self.prepare(FAR)
    }

    /// Ends the second node as a loss of power does. The cluster is not told.
    pub(super) fn pull_the_plug(&self) -> Result<(), String> {
        let outcome = run(self.command("down.sh").arg(FAR).env("DRAIN", "0"), SCRIPT_LIMIT)?;
        if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
    }

    /// Cuts the second node off the network, or heals it.
    pub(super) fn cut(&self, on: bool) -> Result<(), String> {
        self.script("cut.sh", &[FAR, if on { "on" } else { "off" }])
    }

    /// Kills the processes of a node whose command line begins with these words.
    pub(super) fn kill(&self, node: &str, words: &str) -> Result<(), String> {
        let line = format!(
            "n=0; for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' <$p/cmdline 2>/dev/null)\" in \"{words} \"*) \
             kill -9 ${{p#/proc/}} && n=1;; esac; done; test $n = 1"
        );
        self.shell(node, &line).map(drop)
    }

    /// The nodes share the machine's file system, on which each needs its own folder for sockets and records.
    fn prepare(&self, node: &str) -> Result<(), String> {
        let runs = format!("test -d {KUBELET}/pods");
        self.shell(node, &runs)
            .map_err(|_| format!("kubelet of {node} has another folder than {KUBELET}: end the lab"))?;
        let mount = "mkdir -p /run/amphora; mountpoint -q /run/amphora || mount -t tmpfs amphora-test /run/amphora";
        self.shell(node, mount).map(drop)
    }

    /// Runs a shell line on a node; what it printed.
    ///
    /// # Errors
    /// It fails; the text has its output.
    pub(super) fn shell(&self, node: &str, line: &str) -> Result<String, String> {
        let mut command = self.inside(Path::new("sh"));
        let outcome = run(command.args(["-c", line]).env("ON", node), SCRIPT_LIMIT)?;
        if outcome.status.success() { Ok(outcome.stdout) } else { Err(outcome.to_string()) }
    }

    fn inline_driver(&self) -> PathBuf {
        self.work.join("state/csidriver.yaml")
    }

    /// The command line of Amphora, connected to the server; and what it printed.
    ///
    /// # Errors
    /// It fails; the text has its output.
    pub(super) fn amphora(&self, args: &[&str]) -> Result<String, String> {
        let mut command = match self.chart {
            Some(_) => {
                let mut command = self.inside(&self.kubectl());
                command.args(["--namespace", release::NAMESPACE, "exec", "amphora-0", "--container", "amphora", "--"]);
                command.arg("/usr/bin/amphora");
                command
            }
            None => {
                let mut command = self.inside(&amphora()?);
                let socket = self.work.join("state/admin.sock");
                command.arg("--admin-endpoint").arg(format!("unix://{}", socket.display()));
                command
            }
        };
        let outcome = run(command.args(["--output", "json"]).args(args), SCRIPT_LIMIT)?;
        if outcome.status.success() { Ok(outcome.stdout) } else { Err(outcome.to_string()) }
    }

    /// The space that the store takes on its disk.
    ///
    /// # Errors
    /// It cannot be measured.
    pub(super) fn store_kib(&self) -> Result<u64, String> {
        let folder = self.work.join(if self.chart.is_some() { "state/store" } else { "state/amphora" });
        let printed = self.shell(NEAR, &format!("du -sk {} | cut -f 1", folder.display()))?;
        printed.trim().parse().map_err(|error| format!("du printed {printed:?}: {error}"))
    }

    /// The folder of its programs and of its state.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// What mounts volumes, if the server and the sidecars are pods of the chart.
    pub(super) fn chart(&self) -> Option<Placement> {
        self.chart
    }

    /// kubectl, which knows the cluster.
    pub(super) fn kubectl(&self) -> PathBuf {
        self.work.join("bin/kubectl")
    }

    /// A command that runs inside the node.
    pub(super) fn inside(&self, program: &Path) -> Command {
        let mut command = self.command("in.sh");
        command.arg(program);
        command
    }

    /// Kills the server and starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn kill_driver(&self) -> Result<(), String> {
        self.script("driver.sh", &["restart-driver", "KILL"])
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(self.scripts.join(script));
        command.env("WORK", &self.work).env("DRIVER_NAME", CSI_DRIVER).env("DRIVER_CMD", &self.driver);
        command.env("DRIVER_SOCK", csi_socket(&self.work)).env("CSIDRIVER", self.inline_driver());
        command.env("SNAPSHOT_CONTROLLER_FLAGS", GROUPS).env("SNAPSHOTTER_FLAGS", GROUPS);
        command.env("KUBELET_FLAGS", HEALTH).env("PROVISIONER_FLAGS", CAPACITY);
        if self.chart == Some(Placement::Nodes) {
            command.env("KUBELET_FLAGS", format!("{HEALTH} --root-dir={KUBELET}")).env("KCM_FLAGS", GRACE);
        }
        command
    }

    /// Runs a script of the lab.
    ///
    /// # Errors
    /// It fails; the text has its output.
    pub(super) fn script(&self, script: &str, args: &[&str]) -> Result<(), String> {
        let outcome = run(self.command(script).args(args), SCRIPT_LIMIT)?;
        if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Errors are ignored here: each process logs its own, and the failure of an earlier test must not be hidden.
        if self.chart.is_some() {
            let ended = release::uninstall(self);
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
            let _ = self.script("in.sh", &["kubectl", "delete", "namespace", release::NAMESPACE]);
        } else {
            let _ = self.script("svc.sh", &["stop", SIDECAR]);
            let _ = self.script("driver.sh", &["stop"]);
        }
        if self.began {
            let _ = self.script("down.sh", &[]);
        }
    }
}

fn csi_socket(work: &Path) -> String {
    work.join("state/kubelet/plugins").join(CSI_DRIVER).join("csi.sock").display().to_string()
}

fn cosi_socket(work: &Path) -> String {
    work.join("state/cosi/cosi.sock").display().to_string()
}

/// The command line of the server, as a shell reads it.
fn serve(program: &Path, work: &Path) -> String {
    let state = work.join("state");
    let state = state.display();
    format!(
        "{} serve --data-dir {state}/amphora --node-id node1 --csi-topology {ZONE_KEY}={ZONE} --s3-listen 0.0.0.0:9000 --s3-endpoint-url \
         http://{NODE_ADDRESS}:9000 --csi-endpoint unix://{} --cosi-endpoint unix://{} --admin-endpoint \
         unix://{state}/admin.sock --oidc-issuer {ISSUER} --oidc-audience amphora --oidc-jwks \
         https://{NODE_ADDRESS}:6443/openid/v1/jwks --oidc-ca {work}/pki/ca.crt --oidc-token-file {work}/{TOKEN}",
        program.display(),
        csi_socket(work),
        cosi_socket(work),
        work = work.display(),
    )
}
