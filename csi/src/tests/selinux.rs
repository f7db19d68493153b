//! Volumes with an SELinux context: the mount option `context=`, as kubelet passes it with `seLinuxMount`.

use proto::csi::v1::volume_capability::{AccessType, MountVolume};

use super::node::{publish, stage};
use super::recovery::start_again;
use super::*;

const ONE: &str = "system_u:object_r:container_file_t:s0:c1,c2";
const OTHER: &str = "system_u:object_r:container_file_t:s0:c3,c4";

/// A capability for pods with this context, in kubelet's form, and of this group.
fn labelled(context: &str, group: &str) -> Option<VolumeCapability> {
    let mount_flags = match context {
        "" => Vec::new(),
        context => vec![format!("context={context:?}")],
    };
    let mount = MountVolume { volume_mount_group: group.into(), mount_flags, ..Default::default() };
    let shared = capability(access_mode::Mode::MultiNodeMultiWriter);
    Some(VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..shared })
}

impl Fixture {
    async fn stage_with(&self, context: &str) -> Result<(), Status> {
        self.stage(NodeStageVolumeRequest { volume_capability: labelled(context, ""), ..stage(self, "pvc-1") }).await
    }

    async fn publish_with(&self, target: &str, context: &str, group: &str) -> Result<(), Status> {
        let request = publish(self, "pvc-1", target);
        self.publish(NodePublishVolumeRequest { volume_capability: labelled(context, group), ..request }).await
    }

    /// The context with which a path was mounted itself.
    fn context_of(&self, at: &str) -> Option<String> {
        self.machine.options.lock().get(&self.path(at)).and_then(|options| options.context.clone())
    }
}

async fn a_volume_has_one_context_on_a_node(f: Fixture) {
    f.create("pvc-1").await;
    for _ in 0..2 {
        f.stage_with(ONE).await.unwrap();
        f.publish_with("same", ONE, "").await.unwrap();
        // A mount of its own for another group has the context, too.
        f.publish_with("group", ONE, "200").await.unwrap();
    }
    assert_eq!(f.context_of("staging").as_deref(), Some(ONE));
    for context in [OTHER, ""] {
        let staged = f.stage_with(context).await.unwrap_err();
        let published = f.publish_with("other", context, "").await.unwrap_err();
        assert_eq!((staged.code(), published.code()), (Code::AlreadyExists, Code::FailedPrecondition));
        for refused in [staged, published] {
            assert!(refused.message().contains("another SELinux context"), "{refused}");
        }
    }
    assert!(!f.path("other").exists());
    for target in ["same", "group"] {
        f.unpublish("pvc-1", target).await.unwrap();
    }
    f.unstage("pvc-1").await.unwrap();
    f.stage_with(OTHER).await.unwrap();
    assert_eq!(f.context_of("staging").as_deref(), Some(OTHER), "the next pod has its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_one_context_share_a_volume_on_a_node() {
    a_volume_has_one_context_on_a_node(fixture().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_one_context_share_a_volume_on_a_node_of_another_machine() {
    a_volume_has_one_context_on_a_node(remote::fixture().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_is_made_again_has_its_context() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage_with(ONE).await.unwrap();
    f.publish_with("a", ONE, "").await.unwrap();
    f.machine.die();
    f.machine.options.lock().clear();
    let recovered = start_again(&mut f).await;
    assert_eq!((recovered.stages, recovered.targets, recovered.failed), (1, 1, 0));
    assert_eq!(f.context_of("staging").as_deref(), Some(ONE));
}
