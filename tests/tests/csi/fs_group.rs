//! Pods with `fsGroup` on the real kernel: programs with other users and groups, and the files that they share.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::support::access::{read, root_client, write};

/// Makes a folder and those above it passable for programs of every user.
fn open_up(folder: &Path) {
    for folder in
        folder.ancestors().filter(|folder| folder.starts_with("/tmp") || folder.starts_with(std::env::temp_dir()))
    {
        let mode = fs::metadata(folder).expect("there").permissions().mode();
        if mode & 0o001 == 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o011)).expect("it is a test's folder");
        }
    }
}

/// Whether a program of this user, with one further group, succeeds.
fn succeeds(user: u32, group: u32, script: &str) -> Result<bool, String> {
    let mut command = Command::new(required("setpriv")?);
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg(format!("--groups={group}"));
    let outcome = run(command.args(["sh", "-ec", script]), std::time::Duration::from_secs(30))?;
    Ok(outcome.status.success())
}

fn for_group(group: u32) -> VolumeCapability {
    let mount = MountVolume { volume_mount_group: group.to_string(), ..Default::default() };
    VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..capability(Mode::MultiNodeMultiWriter) }
}

impl Driver {
    /// Publishes a staged volume for a pod with this `fsGroup`.
    async fn publish_for(&mut self, volume: &str, group: u32) -> PathBuf {
        let target = self.path("targets").join(group.to_string());
        fs::create_dir_all(target.parent().expect("a parent")).expect("made");
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.staging(volume),
            target_path: text(&target),
            volume_capability: Some(for_group(group)),
            ..Default::default()
        };
        self.node.node_publish_volume(request).await.expect("published");
        target
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_two_groups_share_a_volume_and_each_sees_its_own_group() {
    need!(root_and_fuse());
    need!(required("setpriv"));
    let mut driver = Driver::of(Options::default().holder().start()).await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let client = root_client(&driver.server);
    write(&client, &volume, "data/object", b"by a client\n").await;
    let request = NodeStageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: driver.staging(&volume),
        volume_capability: Some(for_group(2000)),
        ..Default::default()
    };
    driver.node.node_stage_volume(request).await.expect("staged");
    let (first, second) = (driver.publish_for(&volume, 2000).await, driver.publish_for(&volume, 3000).await);
    open_up(first.parent().expect("a parent"));

    let at = |folder: &Path, script: &str| format!("cd {} && umask 022 && {script}", folder.display());
    let made =
        at(&first, "echo one >new && echo two >>data/object && mkdir dir && echo key >private && chmod 600 private");
    assert!(need!(succeeds(1000, 2000, &made)), "its group writes what S3 clients and root made");
    for (folder, group) in [(&first, 2000), (&second, 3000)] {
        let of = |name: &str| {
            let found = fs::metadata(folder.join(name)).expect("there");
            (found.gid(), found.mode() & 0o7777)
        };
        assert_eq!((of("new"), of("private"), of("dir")), ((group, 0o664), (group, 0o600), (group, 0o775)));
        assert_eq!(of("."), (group, 0o775));
    }
    assert!(need!(succeeds(1001, 3000, &at(&second, "echo three >>new && touch dir/other && ! cat private"))));
    assert!(!need!(succeeds(1001, 2000, &at(&second, "echo four >>new"))), "another group is not let in");
    assert!(need!(succeeds(1000, 2000, &at(&first, "test \"$(cat new)\" = \"one\nthree\" && ls dir/other"))));
    assert_eq!(read(&client, &volume, "data/object").await, b"by a client\ntwo\n");
    // What a program gives to itself, as the start of many images does.
    assert!(need!(succeeds(0, 0, &at(&second, "chown -R 1001:1001 dir"))));

    driver.server.kill9();
    driver.server.restart();
    driver.reconnect().await;
    assert_eq!(fs::metadata(second.join("new")).expect("there").gid(), 3000, "the mount goes on");
    assert!(need!(succeeds(1001, 3000, &at(&second, "echo five >>new"))));
    driver.publish_for(&volume, 3000).await;
    for group in ["2000", "3000"] {
        driver.unpublish(&volume, group).await;
    }
    driver.unstage(&volume).await;
    // What is stored is what the programs made.
    let plain = driver.mounted(&volume, &no_secrets()).await;
    let stored = |name: &str| fs::metadata(plain.join(name)).expect("there").mode() & 0o7777;
    assert_eq!((stored("new"), stored("private"), stored("dir"), stored(".")), (0o644, 0o600, 0o755, 0o755));
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    driver.delete(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}
