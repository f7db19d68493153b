//! Publishing volumes to nodes. CSI v1.12, ControllerPublishVolume and ControllerUnpublishVolume.
//!
//! - Publications are stored in the store, and checked against each other under the volume's lock.

use objstore::store::Publication;
use objstore::{Error, Noun};
use proto::csi::v1::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use tonic::Status;

use super::Controller;
use crate::capability::{AccessMode, Capability};
use crate::node::READ_ONLY_CONTEXT;
use crate::status;

impl Controller {
    pub(super) async fn publish(
        self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let node = status::required("node_id", &request.node_id)?;
        let mode = Capability::parse(request.volume_capability.as_ref())?.mode;
        let _guard = self.locks.hold(id)?;
        let bucket = self.existing(id).await?;
        self.check_node(node)?;
        let read_only = request.readonly || mode.is_read_only();
        if bucket.snapshot {
            return Err(Status::invalid_argument(format!("\"{id}\" is a snapshot; publish a volume made from it")));
        }
        let publication =
            Publication { bucket: bucket.name, node: node.to_owned(), read_only, capability: mode.name().to_owned() };
        self.check_publication(&publication).await?;
        self.store.publish(publication).await.map_err(status::of)?;
        let read_only = read_only.then(|| (READ_ONLY_CONTEXT.to_owned(), "true".to_owned()));
        Ok(ControllerPublishVolumeResponse { publish_context: read_only.into_iter().collect() })
    }

    pub(super) async fn unpublish(
        self,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let done = Ok(ControllerUnpublishVolumeResponse {});
        let Ok(name) = id.parse() else { return done };
        let _guard = self.locks.hold(id)?;
        let node = Some(request.node_id.as_str()).filter(|node| !node.is_empty());
        match self.store.unpublish(&name, node).await {
            Ok(()) | Err(Error::NotFound { .. }) => done,
            Err(error) => Err(status::of(error)),
        }
    }

    /// Checks the node's name. One process serves one node, because the store is on its disk.
    fn check_node(&self, node: &str) -> Result<(), Status> {
        match node == self.config.node_id {
            true => Ok(()),
            false => Err(Status::not_found(format!(
                "node \"{node}\" does not exist; the only one here is \"{}\"",
                self.config.node_id
            ))),
        }
    }

    async fn check_publication(&self, new: &Publication) -> Result<(), Status> {
        let existing = self.publications(&new.bucket).await?;
        if let Some(refusal) = conflict(&existing, new) {
            return Err(refusal);
        }
        let limit = self.config.max_volumes as usize;
        if limit == 0 || existing.iter().any(|publication| publication.node == new.node) {
            return Ok(());
        }
        let all = self.read(|store| store.publications(None)).await?;
        match all.iter().filter(|publication| publication.node == new.node).count() {
            count if count < limit => Ok(()),
            count => Err(Status::resource_exhausted(format!("node \"{}\" has {count} volumes, its limit", new.node))),
        }
    }
}

/// Why `new` conflicts with an existing publication, if it does.
fn conflict(existing: &[Publication], new: &Publication) -> Option<Status> {
    if let Some(same) = existing.iter().find(|publication| publication.node == new.node) {
        let why = "it was published to this node with another access mode or readonly";
        let exists = Error::Exists { noun: Noun::Publication, name: new.bucket.to_string(), why: why.into() };
        return (same != new).then(|| status::of(exists));
    }
    let other = existing.iter().find(|publication| excludes(publication, new))?;
    Some(Status::failed_precondition(format!(
        "volume \"{}\" is published to node \"{}\" as {}; unpublish it there first",
        new.bucket, other.node, other.capability
    )))
}

/// Whether publications to two different nodes exclude each other.
fn excludes(one: &Publication, other: &Publication) -> bool {
    let modes = [one, other].map(|publication| AccessMode::from_name(&publication.capability));
    let single_node = modes.iter().any(|mode| mode.is_none_or(AccessMode::is_single_node));
    let single_writer = modes.contains(&Some(AccessMode::MultiNodeSingleWriter));
    single_node || (single_writer && !one.read_only && !other.read_only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn publication(node: &str, mode: AccessMode, read_only: bool) -> Publication {
        let bucket = "vol".parse().unwrap();
        Publication { bucket, node: node.into(), read_only, capability: mode.name().into() }
    }

    fn code(existing: Publication, new: &Publication) -> Option<Code> {
        conflict(&[existing], new).map(|status| status.code())
    }

    #[test]
    fn the_same_node_may_ask_again_but_not_differently() {
        let first = || publication("a", AccessMode::SingleNodeWriter, false);
        assert_eq!(code(first(), &first()), None);
        assert_eq!(code(first(), &publication("a", AccessMode::SingleNodeWriter, true)), Some(Code::AlreadyExists));
        assert_eq!(
            code(first(), &publication("a", AccessMode::MultiNodeMultiWriter, false)),
            Some(Code::AlreadyExists)
        );
    }

    #[test]
    fn another_node_is_refused_where_one_is_meant() {
        for mode in [
            AccessMode::SingleNodeWriter,
            AccessMode::SingleNodeReaderOnly,
            AccessMode::SingleNodeSingleWriter,
            AccessMode::SingleNodeMultiWriter,
        ] {
            let one = publication("a", mode, mode.is_read_only());
            let many = publication("b", AccessMode::MultiNodeMultiWriter, false);
            assert_eq!(code(one.clone(), &many), Some(Code::FailedPrecondition), "{mode:?}");
            assert_eq!(code(many, &one), Some(Code::FailedPrecondition), "{mode:?}");
        }
    }

    #[test]
    fn a_single_writer_admits_readers_on_other_nodes() {
        let at = |node, read_only| publication(node, AccessMode::MultiNodeSingleWriter, read_only);
        assert_eq!(code(at("a", false), &at("b", true)), None);
        assert_eq!(code(at("a", true), &at("b", false)), None);
        assert_eq!(code(at("a", false), &at("b", false)), Some(Code::FailedPrecondition));
        let writers = |node| publication(node, AccessMode::MultiNodeMultiWriter, false);
        assert_eq!(code(writers("a"), &writers("b")), None);
    }
}
