//! Block volumes: a file system on a device through expansion, snapshots and kills of the driver; shared devices;
//! discards; and one disk on two nodes.

use std::time::Duration;

use serde_json::json;

use super::cluster::Cluster;
use super::csi::{CLASS, class, end, from_snapshot, snapshot};
use super::lab::{FAR, NEAR};
use super::{nodes, release};
use crate::support::*;

/// The variable that names an image with e2fsprogs and util-linux in the cluster of `KUBECONFIG`.
const TOOLS: &str = "AMPHORA_KUBERNETES_TOOLS";
/// The tools of such an image that the tests use.
const NAMES: [&str; 5] = ["mkfs.ext4", "fsck.ext4", "resize2fs", "blkdiscard", "blockdev"];
/// Mounts the file system on the device.
const MOUNT: &str = "mkdir -p /mnt; mount -t ext4 /dev/disk /mnt";
/// What is restored was in use: its journal is replayed, and nothing else is wrong with it.
const REPLAY: &str = "fsck.ext4 -p /dev/disk || test $? = 1; fsck.ext4 -f -n /dev/disk";

/// The image with the tools, which is made in a lab.
fn tools(cluster: &Cluster) -> Result<String, String> {
    let Some(lab) = cluster.lab() else {
        return Ok(std::env::var(TOOLS).unwrap_or_else(|_| "debian:stable".to_owned()));
    };
    let mut files = vec![format!("bin/busybox={}", required("busybox")?.display())];
    for name in NAMES {
        for file in release::with_libraries(&format!("bin/{name}"), &required(name)?)? {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    release::image(lab, "tools", &["/bin/busybox", "sh"], &files)?;
    Ok("lab.local/tools:1".to_owned())
}

fn claim(cluster: &Cluster, name: &str, access: &str) {
    cluster.claim_with(name, &json!({"storageClassName": CLASS, "volumeMode": "Block", "accessModes": [access]}));
}

/// A pod with a claim as `/dev/disk`.
struct Pod<'a> {
    image: &'a str,
    /// Whether it may mount the file system on the device.
    mounts: bool,
    readonly: bool,
    node: Option<&'a str>,
}

impl<'a> Pod<'a> {
    fn of(image: &'a str) -> Self {
        Self { image, mounts: false, readonly: false, node: None }
    }

    fn start(&self, cluster: &Cluster, name: &str, claim: &str) {
        let source = json!({"claimName": claim, "readOnly": self.readonly});
        let mut spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": source}]});
        if let Some(node) = self.node {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        }
        let container = json!({
            "image": self.image, "securityContext": {"privileged": self.mounts},
            "volumeDevices": [{"name": "v", "devicePath": "/dev/disk"}],
        });
        cluster.apply_pod(name, &spec, &container);
        cluster.wait_ready(name);
    }
}

#[test]
fn a_file_system_on_a_device_is_kept_through_expansion_snapshots_and_kills() {
    let cluster = need!(Cluster::find("block"));
    let image = need!(tools(&cluster));
    class(&cluster);
    claim(&cluster, "disk", "ReadWriteOnce");
    let pod = Pod { mounts: true, ..Pod::of(&image) };
    pod.start(&cluster, "one", "disk");
    cluster.exec("one", &format!("mkfs.ext4 -q -F /dev/disk; {MOUNT}"));
    let write = "dd if=/dev/urandom of=/mnt/blob bs=1M count=16 2>/dev/null; md5sum /mnt/blob >/mnt/sum; sync";
    cluster.exec("one", write);

    cluster.kubectl(&["patch", "pvc", "disk", "--patch", r#"{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}"#]);
    cluster.wait_for("pvc/disk", ".status.capacity.storage", "128Mi");
    assert_eq!(cluster.exec("one", "blockdev --getsize64 /dev/disk"), "134217728", "while the device is in use");
    let grow = "umount /mnt; fsck.ext4 -f -p /dev/disk; resize2fs /dev/disk 2>&1";
    cluster.exec("one", &format!("{grow}; {MOUNT}; md5sum -c /mnt/sum"));
    let total = cluster.exec("one", "df -P -k /mnt | tail -n 1 | awk '{print $2}'");
    assert!(total.parse::<u64>().is_ok_and(|kib| kib > 100 << 10), "{total} KiB");

    snapshot(&cluster, "s", "disk");
    cluster.exec("one", "echo later >/mnt/later; sync");
    let size = json!({"requests": {"storage": "128Mi"}});
    for (name, source, expected) in [
        ("restored", from_snapshot("s"), "blob lost+found sum"),
        ("clone", json!({"kind": "PersistentVolumeClaim", "name": "disk"}), "blob later lost+found sum"),
    ] {
        let spec = json!({
            "storageClassName": CLASS, "volumeMode": "Block", "accessModes": ["ReadWriteMany"], "dataSource": source,
            "resources": size,
        });
        cluster.claim_with(name, &spec);
        pod.start(&cluster, name, name);
        cluster.exec(name, REPLAY);
        let found = cluster.exec(name, &format!("{MOUNT}; md5sum -c /mnt/sum >/dev/null; cd /mnt; echo *"));
        assert_eq!(found, expected, "what {name} has");
    }
    kill_under_writes(&cluster);
    end(&cluster);
}

/// Kills the driver while the pod `one` writes to its file system.
fn kill_under_writes(cluster: &Cluster) {
    for round in 0..amount(2, 10) {
        let write = "dd if=/dev/urandom of=/tmp/new bs=1M count=16 2>/dev/null; dd if=/tmp/new of=/mnt/new bs=64k \
                     conv=fsync 2>/dev/null";
        let killed = std::thread::scope(|scope| {
            let writing = scope.spawn(|| cluster.exec("one", write));
            std::thread::sleep(Duration::from_millis(200 + 150 * round % 700));
            let killed = cluster.kill_driver();
            writing.join().expect("the program does not notice");
            killed
        });
        if let Err(reason) = killed {
            return tests::skip::notice(module_path!(), &reason);
        }
        // What the kernel has cached of the file would not show what the disk has.
        cluster.exec("one", &format!("umount /mnt; fsck.ext4 -f -n /dev/disk; {MOUNT}"));
        cluster.exec("one", "cmp /tmp/new /mnt/new; md5sum -c /mnt/sum");
    }
}

#[test]
fn pods_share_a_device_and_a_reader_does_not_write_it() {
    let cluster = need!(Cluster::find("block-shared"));
    let image = need!(tools(&cluster));
    class(&cluster);
    claim(&cluster, "disk", "ReadWriteMany");
    Pod::of(&image).start(&cluster, "writer", "disk");
    Pod { readonly: true, ..Pod::of(&image) }.start(&cluster, "reader", "disk");
    cluster.exec("writer", "dd if=/dev/urandom of=/tmp/f bs=1M count=32 2>/dev/null");
    let before = cluster.lab().map(|lab| lab.store_kib().expect("measured"));
    cluster.exec("writer", "dd if=/tmp/f of=/dev/disk bs=1M conv=fsync 2>/dev/null");
    let sum = cluster.exec("writer", "md5sum </tmp/f");
    let read = "dd if=/dev/disk bs=1M count=32 iflag=direct 2>/dev/null | md5sum";
    assert_eq!(cluster.exec("reader", read), sum);
    assert_eq!(cluster.exec("reader", "blockdev --getro /dev/disk"), "1");
    let refused = "! dd if=/dev/zero of=/dev/disk bs=4096 count=1 2>/dev/null";
    cluster.exec("reader", refused);
    assert_eq!(cluster.exec("reader", read), sum);

    let store = || cluster.lab().map(|lab| lab.store_kib().expect("measured"));
    assert!(store().zip(before).is_none_or(|(now, before)| now > before + (24 << 10)), "{:?} {before:?}", store());
    cluster.exec("writer", "blkdiscard /dev/disk; sync");
    assert_eq!(cluster.exec("writer", "tr -d '\\0' </dev/disk | wc -c"), "0", "what is discarded is zeros");
    let returned = || store().zip(before).is_none_or(|(now, before)| now < before + (8 << 10)).then_some(());
    assert!(wait_until(Duration::from_secs(30), returned).is_some(), "{:?} {before:?}", store());
    end(&cluster);
}

#[test]
fn a_disk_on_two_nodes_shows_each_what_the_other_wrote() {
    let cluster = need!(Cluster::find("block-nodes"));
    need!(nodes::lab(&cluster));
    let image = need!(tools(&cluster));
    class(&cluster);
    claim(&cluster, "disk", "ReadWriteMany");
    for node in [NEAR, FAR] {
        Pod { node: Some(node), ..Pod::of(&image) }.start(&cluster, node, "disk");
    }
    for round in 0..6 {
        let (from, to) = if round % 2 == 0 { (NEAR, FAR) } else { (FAR, NEAR) };
        let write = "dd if=/dev/urandom of=/tmp/f bs=64k count=8 2>/dev/null; dd if=/tmp/f of=/dev/disk bs=64k \
                     oflag=direct 2>/dev/null; md5sum </tmp/f";
        let sum = cluster.exec(from, write);
        assert_eq!(cluster.exec(to, "dd if=/dev/disk bs=64k count=8 iflag=direct 2>/dev/null | md5sum"), sum);
    }
    end(&cluster);
}
