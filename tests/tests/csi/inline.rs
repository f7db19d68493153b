//! Inline volumes of pods on the real kernel.

use std::fs;

use rustix::io::Errno;

use super::*;

/// An id as kubelet makes them.
const ID: &str = "csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl Driver {
    async fn publish_inline(&mut self, size: &str) -> Result<PathBuf, Status> {
        let target = self.path("targets").join("inline");
        fs::create_dir_all(target.parent().expect("a parent")).expect("made");
        let context =
            [("csi.storage.k8s.io/ephemeral", "true"), ("csi.storage.k8s.io/pod.name", "app"), ("size", size)];
        let request = NodePublishVolumeRequest {
            volume_id: ID.into(),
            target_path: text(&target),
            volume_capability: Some(capability(Mode::SingleNodeWriter)),
            volume_context: context.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Default::default()
        };
        self.node.node_publish_volume(request).await.map(|_| target)
    }

    /// The number of volumes that exist.
    async fn volumes(&mut self) -> usize {
        let listed = self.controller.list_volumes(ListVolumesRequest::default()).await.expect("listed");
        listed.into_inner().entries.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_volume_lives_as_long_as_its_pod_over_a_crash_of_the_driver() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let path = driver.publish_inline("4Mi").await.expect("published");
    fs::write(path.join("f"), "kept").expect("written");
    assert_eq!(errno(fs::write(path.join("large"), vec![0; 8 << 20])), Some(Errno::DQUOT), "its size is a quota");
    driver.server.kill9();
    driver.server.restart();
    driver.reconnect().await;
    assert_eq!(fs::read(path.join("f")).expect("there again"), b"kept");
    driver.publish_inline("4Mi").await.expect("published already");
    assert_eq!(driver.volumes().await, 1);
    for _ in 0..2 {
        driver.unpublish(ID, "inline").await;
    }
    assert_eq!(driver.volumes().await, 0);
    assert!(!path.exists() && mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_volume_whose_records_are_gone_is_removed_by_its_unpublish() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let path = driver.publish_inline("4Mi").await.expect("published");
    fs::write(path.join("f"), "lost with the pod").expect("written");
    assert_eq!(driver.server.terminate().code(), Some(0));
    // As after a reboot, which ends mounts, and after which the records of an earlier boot are not read.
    let _ = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH);
    fs::remove_dir_all(find_records(driver.server.home().path())).expect("the records of the node");
    driver.server.restart();
    driver.reconnect().await;
    assert_eq!(driver.volumes().await, 1);
    driver.unpublish(ID, "inline").await;
    assert_eq!(driver.volumes().await, 0);
}

/// The folder with the records of the node, somewhere below the server's folder.
pub(crate) fn find_records(below: &Path) -> PathBuf {
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                _ if entry.file_name().to_string_lossy().starts_with("stage-") => return folder,
                _ => {}
            }
        }
    }
    panic!("no record of a stage below {}", below.display())
}
