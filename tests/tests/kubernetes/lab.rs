//! A cluster of one node on this machine, created by the scripts of a lab: etcd, the control plane, kubelet and the
//! released sidecars, each in its own namespaces.
//!
//! The lab is a folder of scripts outside this repository, in `AMPHORA_LAB` or `../shared/k8s`; the output of its
//! `build.sh` is in the work folder that `AMPHORA_LAB_WORK` names. A running lab is used and left running.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::CSI_DRIVER;
use crate::support::*;

const SCRIPTS: &str = "AMPHORA_LAB";
const WORK: &str = "AMPHORA_LAB_WORK";
/// The image with a shell that every node of the lab has.
pub(super) const IMAGE: &str = "lab.local/busybox:1";
/// A script that starts or stops something.
const SCRIPT_LIMIT: Duration = Duration::from_secs(180);
/// Where the node reaches its own services.
const NODE_ADDRESS: &str = "10.123.0.1";
/// The name of the COSI sidecar's process.
const SIDECAR: &str = "amphora-cosi-sidecar";

/// A lab with the server under test as both drivers. Dropping it stops what it started.
pub(super) struct Lab {
    scripts: PathBuf,
    work: PathBuf,
    /// Whether it was started here.
    began: bool,
    driver: String,
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
        let driver = serve(&amphora()?, &work);
        let lab = Self { scripts, work, began, driver };
        lab.begin().unwrap_or_else(|error| panic!("the lab does not start: {error}"));
        Ok(lab)
    }

    fn begin(&self) -> Result<(), String> {
        self.script("up.sh", &[])?;
        // The lab hides files in the node's /proc by mounts. The kernel lets a user namespace mount its own /proc only
        // where an unobstructed one exists.
        let proc = self.work.join("state/proc").display().to_string();
        self.script(
            "in.sh",
            &["sh", "-c", &format!("mkdir -p {proc}; mountpoint -q {proc} || mount -t proc lab {proc}")],
        )?;
        for path in ["amphora", "cosi"] {
            // What a test before left; there may be nothing.
            let _ = std::fs::remove_dir_all(self.work.join("state").join(path));
        }
        std::fs::create_dir_all(self.work.join("state/cosi")).map_err(|error| error.to_string())?;
        self.script("driver.sh", &["start"])?;
        let path = |path: &str| self.work.join(path).display().to_string();
        let (program, config) = (path("bin/cositool"), path("pki/admin.conf"));
        let socket = format!("unix://{}", cosi_socket(&self.work));
        let sidecar = [&program, "-mode", "sidecar", "-kubeconfig", &config, "-driver-addr", &socket];
        self.script("svc.sh", &[&["start", SIDECAR], &sidecar[..]].concat())
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
        command.env("DRIVER_SOCK", csi_socket(&self.work));
        command
    }

    fn script(&self, script: &str, args: &[&str]) -> Result<(), String> {
        let outcome = run(self.command(script).args(args), SCRIPT_LIMIT)?;
        if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Each of them says in its own log what went wrong, and a test that failed before is to tell its own story.
        let _ = self.script("svc.sh", &["stop", SIDECAR]);
        let _ = self.script("driver.sh", &["stop"]);
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
        "{} serve --data-dir {state}/amphora --node-id node1 --s3-listen 0.0.0.0:9000 --s3-endpoint-url \
         http://{NODE_ADDRESS}:9000 --csi-endpoint unix://{} --cosi-endpoint unix://{} --admin-endpoint \
         unix://{state}/admin.sock",
        program.display(),
        csi_socket(work),
        cosi_socket(work),
    )
}
