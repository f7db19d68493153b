//! Volumes of MULTI_NODE_SINGLE_WRITER, on two nodes: one that serves real sessions of the store, and another that is
//! only published to.

use super::node::stage;
use super::remote::fixture;
use super::*;
use crate::node::Sessions as _;

/// The other node.
const OTHER: &str = "node-2";

impl Fixture {
    async fn create_single(&self, name: &str, second_writer: Option<&str>) -> Result<Volume, Status> {
        let parameters = second_writer.map(|policy| ("secondWriter".to_owned(), policy.to_owned()));
        let request = CreateVolumeRequest {
            name: name.into(),
            volume_capabilities: vec![capability(access_mode::Mode::MultiNodeSingleWriter)],
            parameters: parameters.into_iter().collect(),
            ..Default::default()
        };
        Ok(self.controller.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    async fn attach_single(&self, volume: &str, node: &str, readonly: bool) -> Result<HashMap<String, String>, Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.into(),
            node_id: node.into(),
            readonly,
            volume_capability: Some(capability(access_mode::Mode::MultiNodeSingleWriter)),
            ..Default::default()
        };
        Ok(self.controller.controller_publish_volume(Request::new(request)).await?.into_inner().publish_context)
    }

    async fn detach_from(&self, volume: &str, node: &str) {
        let request =
            ControllerUnpublishVolumeRequest { volume_id: volume.into(), node_id: node.into(), ..Default::default() };
        self.controller.controller_unpublish_volume(Request::new(request)).await.unwrap();
    }

    async fn stage_attached(&self, volume: &str, publish_context: HashMap<String, String>) -> Result<(), Status> {
        let volume_capability = Some(capability(access_mode::Mode::MultiNodeSingleWriter));
        self.stage(NodeStageVolumeRequest { publish_context, volume_capability, ..stage(self, volume) }).await
    }

    async fn nodes_of(&self, volume: &str) -> Vec<String> {
        let request = ControllerGetVolumeRequest { volume_id: volume.into() };
        let found = self.controller.controller_get_volume(Request::new(request)).await.unwrap().into_inner();
        found.status.unwrap().published_node_ids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_writer_is_refused_unless_the_class_lets_it_fence_the_first() {
    let f = fixture().await;
    for (volume, policy) in [("default", None), ("refusing", Some("refuse"))] {
        f.create_single(volume, policy).await.unwrap();
        f.attach_single(volume, NODE, false).await.unwrap();
        let refused = f.attach_single(volume, OTHER, false).await.unwrap_err();
        assert!(refused.code() == Code::FailedPrecondition && refused.message().contains(NODE), "{refused}");
        f.attach_single(volume, OTHER, true).await.expect("a reader beside it");
    }
    assert_eq!(code(f.create_single("default", Some("fence")).await), Code::AlreadyExists, "another parameter");
    assert_eq!(code(f.create_single("bad", Some("both")).await), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_is_fenced_has_no_session_when_the_next_one_may_write() {
    let f = fixture().await;
    f.create_single("pvc-1", Some("fence")).await.unwrap();
    let first = f.attach_single("pvc-1", NODE, false).await.unwrap();
    f.stage_attached("pvc-1", first.clone()).await.unwrap();
    assert_eq!(f.store.remote_sessions().len(), 1);

    f.attach_single("pvc-1", OTHER, false).await.unwrap();
    assert_eq!(f.store.remote_sessions().len(), 0, "fenced before the answer");
    assert_eq!(f.nodes_of("pvc-1").await, [NODE, OTHER], "both are published");
    // The orchestrator repeats the call for the first node: it must not take the writing back.
    let refused = f.attach_single("pvc-1", NODE, false).await.unwrap_err();
    assert!(refused.code() == Code::FailedPrecondition && refused.message().contains(OTHER), "{refused}");
    f.attach_single("pvc-1", OTHER, false).await.expect("the writer asks again");

    // Its ticket opens the volume for reading.
    f.unstage("pvc-1").await.unwrap();
    f.stage_attached("pvc-1", first).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("ro"));
    assert_eq!(f.store.remote_sessions().len(), 1, "a reader stays beside the writer");
    f.attach_single("pvc-1", OTHER, false).await.unwrap();
    assert_eq!(f.store.remote_sessions().len(), 1);

    // Detached and attached again it is the next writer.
    f.unstage("pvc-1").await.unwrap();
    f.detach_from("pvc-1", NODE).await;
    let again = f.attach_single("pvc-1", NODE, false).await.unwrap();
    f.stage_attached("pvc-1", again).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("rw"));
    assert_eq!(code(f.attach_single("pvc-1", OTHER, false).await), Code::FailedPrecondition);
    assert!(f.wire.as_ref().unwrap().standing(&f.path("staging")) == crate::node::Standing::Served);
}
