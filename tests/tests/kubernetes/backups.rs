//! Ranges of snapshots, as a backup program reads them: through the sidecar of upstream, with a token of a ServiceAccount, by
//! the names of VolumeSnapshots.
//!
//! `AMPHORA_SNAPSHOT_METADATA` names a folder with the programs `csi-snapshot-metadata` (the sidecar) and
//! `snapshot-metadata-lister`, and the definition of SnapshotMetadataService in `crd.yaml`; `docs/internals/testing.md`
//! says how to build them. Only a lab can run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use serde_json::json;
use tests::tls::Certificate;

use super::cluster::{CSI_DRIVER, Cluster};
use super::csi::{CLASS, class, end, snapshot};
use super::lab::{Lab, NEAR};
use crate::support::*;

const PROGRAMS: &str = "AMPHORA_SNAPSHOT_METADATA";
const SERVICE: &str = "amphora-snapshot-metadata";
const AUDIENCE: &str = "amphora-test-backup";
const ACCOUNT: &str = "backup";
const MIB: u64 = 1 << 20;

/// The sidecar beside the driver. Dropping it stops it.
struct Sidecar<'a> {
    cluster: &'a Cluster,
    lab: &'a Lab,
    programs: PathBuf,
}

impl<'a> Sidecar<'a> {
    fn start(cluster: &'a Cluster) -> Result<Self, String> {
        let lab =
            cluster.lab().filter(|lab| lab.chart().is_none()).ok_or("the sidecar runs in a lab without the chart")?;
        let programs = std::env::var_os(PROGRAMS).map(PathBuf::from);
        let programs = programs.filter(|folder| folder.join("csi-snapshot-metadata").is_file());
        let programs = programs.ok_or_else(|| format!("{PROGRAMS} does not name the sidecar of snapshot metadata"))?;
        let sidecar = Self { cluster, lab, programs };
        let folder = lab.work().join("state/snapshot-metadata");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let certificate = Certificate::new(&folder)?;
        sidecar.announce(&certificate.authority);
        let text = |path: &Path| path.display().to_string();
        let socket = lab.work().join("state/kubelet/plugins").join(CSI_DRIVER).join("csi.sock");
        let words = [
            "start",
            SERVICE,
            &text(&sidecar.programs.join("csi-snapshot-metadata")),
            "-kubeconfig",
            &text(&lab.work().join("pki/admin.conf")),
            "-csi-address",
            &text(&socket),
            "-tls-cert",
            &text(&certificate.certificate),
            "-tls-key",
            &text(&certificate.key),
            "-audience",
            AUDIENCE,
            "-http-endpoint",
            "127.0.0.1:8093",
        ];
        lab.script("svc.sh", &words)?;
        let listens = || lab.shell(NEAR, "grep -q ':C383 .* 0A ' /proc/net/tcp /proc/net/tcp6").ok();
        wait_until(std::time::Duration::from_secs(60), listens).ok_or("the sidecar does not listen on port 50051")?;
        Ok(sidecar)
    }

    /// The object by which clients find the sidecar.
    fn announce(&self, authority: &Path) {
        let definition = self.programs.join("crd.yaml");
        self.cluster.kubectl(&["apply", "--server-side", "--filename", definition.to_str().expect("UTF-8")]);
        let name = "crd/snapshotmetadataservices.cbt.storage.k8s.io";
        self.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", name]);
        let authority = base64::engine::general_purpose::STANDARD.encode(std::fs::read(authority).expect("a file"));
        self.cluster.apply(&json!({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": CSI_DRIVER},
            "spec": {"address": "127.0.0.1:50051", "audience": AUDIENCE, "caCert": authority},
        }));
    }

    /// What the client of upstream prints about a snapshot, with these arguments.
    fn list(&self, snapshot: &str, more: &[&str]) -> Outcome {
        let config = self.lab.work().join("pki/admin.conf");
        let mut command: Command = self.lab.inside(&self.programs.join("snapshot-metadata-lister"));
        command.arg("-kubeconfig").arg(config).args(["-namespace", self.cluster.namespace(), "-snapshot", snapshot]);
        command.args(["-service-account", ACCOUNT, "-service-account-namespace", self.cluster.namespace()]).args(more);
        run(&mut command, std::time::Duration::from_secs(120)).expect("it ends")
    }

    /// The ranges in what it prints: offset and size of each, in MiB, after the size of the volume.
    #[track_caller]
    fn ranges(&self, snapshot: &str, more: &[&str]) -> Vec<(u64, u64)> {
        let outcome = self.list(snapshot, more);
        assert!(outcome.status.success(), "{outcome}");
        let rows = outcome.stdout.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let range = |row: Vec<&str>| {
            let [_, capacity, style, offset, size] = row[..] else { panic!("{row:?}") };
            assert_eq!((capacity, style), ("67108864", "VARIABLE_LENGTH"));
            let bytes = [offset, size].map(|text| text.parse::<u64>().expect("a number"));
            (bytes[0] / MIB, bytes[1] / MIB)
        };
        rows.map(range).collect()
    }
}

impl Drop for Sidecar<'_> {
    fn drop(&mut self) {
        let stopped = self.lab.script("svc.sh", &["stop", SERVICE]);
        assert!(stopped.is_ok() || std::thread::panicking(), "{stopped:?}");
    }
}

/// Writes this many MiB at this place of the device in the pod `one`.
fn write(cluster: &Cluster, at: u64, count: u64) {
    cluster
        .exec("one", &format!("dd if=/dev/urandom of=/dev/disk bs=1M seek={at} count={count} conv=fsync 2>/dev/null"));
}

#[test]
fn a_backup_program_gets_the_ranges_of_snapshots_with_its_token_alone() {
    let cluster = need!(Cluster::find("backups"));
    let sidecar = need!(Sidecar::start(&cluster));
    class(&cluster);
    cluster.claim_with("disk", &json!({"storageClassName": CLASS, "volumeMode": "Block"}));
    let source = json!({"persistentVolumeClaim": {"claimName": "disk"}, "name": "v"});
    let devices = json!([{"name": "v", "devicePath": "/dev/disk"}]);
    cluster.apply_pod("one", &json!({"volumes": [source]}), &json!({"volumeDevices": devices}));
    cluster.wait_ready("one");
    write(&cluster, 0, 2);
    write(&cluster, 10, 4);
    snapshot(&cluster, "first", "disk");
    write(&cluster, 12, 1);
    write(&cluster, 40, 3);
    snapshot(&cluster, "second", "disk");

    cluster.kubectl(&["create", "serviceaccount", ACCOUNT]);
    let refused = sidecar.list("first", &[]);
    assert!(!refused.status.success(), "an account that may not read snapshots: {refused}");
    let rule = ["create", "role", ACCOUNT, "--verb=get", "--resource=volumesnapshots.snapshot.storage.k8s.io"];
    cluster.kubectl(&rule);
    let account = format!("--serviceaccount={}:{ACCOUNT}", cluster.namespace());
    cluster.kubectl(&["create", "rolebinding", ACCOUNT, "--role", ACCOUNT, &account]);

    assert_eq!(sidecar.ranges("first", &[]), [(0, 2), (10, 4)]);
    assert_eq!(sidecar.ranges("second", &[]), [(0, 2), (10, 4), (40, 3)]);
    assert_eq!(sidecar.ranges("second", &["-max-results", "1"]), [(0, 2), (10, 4), (40, 3)]);
    let rest = sidecar.ranges("second", &["-starting-offset", &(11 * MIB).to_string()]);
    assert_eq!(rest.last(), Some(&(40, 3)));
    assert_eq!(sidecar.ranges("second", &["-previous-snapshot", "first"]), [(12, 1), (40, 3)]);
    let refused = sidecar.list("first", &["-previous-snapshot", "second"]);
    assert!(!refused.status.success(), "the base is the later one: {refused}");
    end(&cluster);
}
