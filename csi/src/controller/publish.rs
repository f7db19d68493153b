//! Publishing volumes to nodes. CSI v1.12, ControllerPublishVolume and ControllerUnpublishVolume.
//!
//! - Publications are stored in the store, and checked against each other under the volume's lock.
//! - A volume whose class says so changes its single writer: the first node is fenced, and may read from then on.
//! - A node on another machine gets a ticket with its publication. A repeated call returns the same ticket, until the
//!   master key is rotated; earlier ones stay valid as long as the publication.
//! - The ticket opens a volume that this driver made. Any other bucket needs an access key beside it, which the store
//!   checks.
//! - An unpublish is answered when nothing of the node's sessions on the volume is done any more.

use objstore::store::Publication;
use objstore::{Error, Noun};
use proto::csi::v1::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use tonic::Status;

use super::Controller;
use super::parameters::SecondWriter;
use crate::capability::{AccessMode, Capability};
use crate::context::{self, PublishContext};
use crate::credentials::Ticket;
use crate::{Nodes, disk, is_node_id, is_provisioned, status};

impl Controller {
    pub(super) async fn publish(
        self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let node = status::required("node_id", &request.node_id)?;
        let Capability { mode, kind, .. } = Capability::parse(request.volume_capability.as_ref())?;
        let _guard = self.locks.hold(id)?;
        let bucket = self.whole(id).await?;
        self.check_node(node)?;
        let read_only = request.readonly || mode.is_read_only();
        if bucket.snapshot {
            return Err(Status::invalid_argument(format!("\"{id}\" is a snapshot; publish a volume made from it")));
        }
        if let Some(why) = disk::other_kind(&bucket, &self.config.driver_name, kind) {
            return Err(Status::failed_precondition(why));
        }
        let ticket_suffices = is_provisioned(&bucket, &self.config.driver_name);
        let (node, capability) = (node.to_owned(), mode.name().to_owned());
        let second = SecondWriter::of(&bucket);
        let authority = self.config.authority.clone().filter(|_| self.config.nodes == Nodes::Any);
        context::check_authority(authority.as_deref())?;
        let fenced_by = None;
        let publication = Publication { bucket: bucket.name, node, read_only, capability, ticket_suffices, fenced_by };
        if self.check_publication(&publication, second).await? == Others::AreFenced {
            self.store.fence_writers(&publication.bucket, &publication.node).await.map_err(status::of)?;
        }
        self.store.publish(publication.clone()).await.map_err(status::of)?;
        let ticket = self.ticket(&publication).await?;
        let publish_context = PublishContext { read_only, ticket, authority }.entries();
        Ok(ControllerPublishVolumeResponse { publish_context })
    }

    /// The ticket of a publication; none if the only node has the store in its process.
    async fn ticket(&self, publication: &Publication) -> Result<Option<Ticket>, Status> {
        if self.config.nodes == Nodes::Own {
            return Ok(None);
        }
        let ticket = self.store.ticket(&publication.bucket, &publication.node).await.map_err(status::of)?;
        Ticket::parse(ticket.reveal()).map(Some).ok_or_else(|| Status::internal("the store issued no valid ticket"))
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

    /// Checks the node's name.
    fn check_node(&self, node: &str) -> Result<(), Status> {
        let own = &self.config.node_id;
        match self.config.nodes {
            Nodes::Own if node == own => Ok(()),
            Nodes::Own => {
                let why = format!("node \"{node}\" does not exist; the only one here is \"{own}\"");
                Err(Status::not_found(why))
            }
            Nodes::Any if is_node_id(node) => Ok(()),
            Nodes::Any => {
                let why = "the node does not exist: a node id has 1 to 128 visible ASCII characters without \"/\"";
                Err(Status::not_found(why))
            }
        }
    }

    async fn check_publication(&self, new: &Publication, second: Option<SecondWriter>) -> Result<Others, Status> {
        let existing = self.publications(&new.bucket).await?;
        let others = check(&existing, new, second)?;
        // Nodes on other machines have limits of their own, which they tell the orchestrator (CSI v1.12, NodeGetInfo).
        let limit = if self.config.nodes == Nodes::Own { self.config.max_volumes as usize } else { 0 };
        if limit == 0 || existing.iter().any(|publication| publication.node == new.node) {
            return Ok(others);
        }
        let all = self.read(|store| store.publications(None)).await?;
        match all.iter().filter(|publication| publication.node == new.node).count() {
            count if count < limit => Ok(others),
            count => Err(Status::resource_exhausted(format!("node \"{}\" has {count} volumes, its limit", new.node))),
        }
    }
}

/// What becomes of other nodes when a volume is published.
#[derive(Debug, PartialEq, Eq)]
enum Others {
    Stay,
    /// Those that write may only read.
    AreFenced,
}

/// Checks a new publication against the existing ones of the volume. With a policy for second writers the volume has a
/// single writer also where the mode admits several.
fn check(existing: &[Publication], new: &Publication, second: Option<SecondWriter>) -> Result<Others, Status> {
    if let Some(same) = existing.iter().find(|publication| publication.node == new.node) {
        return check_again(same, new).map(|()| Others::Stay);
    }
    let excluded: Vec<_> = existing.iter().filter(|publication| excludes(publication, new, second)).collect();
    let Some(other) = excluded.first() else { return Ok(Others::Stay) };
    let is_single_writer = |one: &Publication| match AccessMode::from_name(&one.capability) {
        Some(AccessMode::MultiNodeMultiWriter) => second.is_some(),
        mode => mode == Some(AccessMode::MultiNodeSingleWriter),
    };
    if second == Some(SecondWriter::FencesTheFirst)
        && is_single_writer(new)
        && excluded.iter().all(|one| is_single_writer(one))
    {
        return Ok(Others::AreFenced);
    }
    Err(Status::failed_precondition(format!(
        "volume \"{}\" is published to node \"{}\" as {}; unpublish it there first",
        new.bucket, other.node, other.capability
    )))
}

/// Checks a repeated publication to one node.
fn check_again(same: &Publication, new: &Publication) -> Result<(), Status> {
    if let Some(by) = same.fenced_by.as_ref().filter(|_| !new.read_only) {
        return Err(Status::failed_precondition(format!(
            "node \"{by}\" writes volume \"{}\" now, and took that over from node \"{}\"; unpublish it from the latter first",
            new.bucket, new.node
        )));
    }
    if (same.read_only, &same.capability) == (new.read_only, &new.capability) {
        return Ok(());
    }
    let why = "it was published to this node with another access mode or readonly";
    Err(status::of(Error::Exists { noun: Noun::Publication, name: new.bucket.to_string(), why: why.into() }))
}

/// Whether publications to two different nodes exclude each other.
fn excludes(one: &Publication, other: &Publication, second: Option<SecondWriter>) -> bool {
    let modes = [one, other].map(|publication| AccessMode::from_name(&publication.capability));
    let single_node = modes.iter().any(|mode| mode.is_none_or(AccessMode::is_single_node));
    let single_writer = second.is_some() || modes.contains(&Some(AccessMode::MultiNodeSingleWriter));
    single_node || (single_writer && !one.read_only && !other.read_only)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use tonic::Code;

    fn publication(node: &str, mode: AccessMode, read_only: bool) -> Publication {
        let bucket = "vol".parse().unwrap();
        Publication {
            bucket,
            node: node.into(),
            read_only,
            capability: mode.name().into(),
            ticket_suffices: true,
            fenced_by: None,
        }
    }

    fn code(existing: Publication, new: &Publication) -> Option<Code> {
        check(&[existing], new, None).err().map(|status| status.code())
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

    #[test]
    fn a_second_writer_fences_only_single_writers_and_only_where_the_class_says_so() {
        let single = AccessMode::MultiNodeSingleWriter;
        let judge = |existing: &[Publication], new: &Publication| {
            check(existing, new, Some(SecondWriter::FencesTheFirst)).map_err(|status| status.code())
        };
        let first = publication("a", single, false);
        assert_eq!(
            judge(&[first.clone(), publication("c", single, true)], &publication("b", single, false)),
            Ok(Others::AreFenced)
        );
        assert_eq!(judge(from_ref(&first), &publication("b", single, true)), Ok(Others::Stay));
        assert_eq!(judge(from_ref(&first), &first), Ok(Others::Stay));
        let alone = |node| publication(node, AccessMode::SingleNodeWriter, false);
        assert_eq!(judge(&[alone("a")], &publication("b", single, false)), Err(Code::FailedPrecondition));
        assert_eq!(judge(from_ref(&first), &alone("b")), Err(Code::FailedPrecondition));
        let fenced = Publication { fenced_by: Some("b".into()), ..publication("a", single, true) };
        let refused = check(from_ref(&fenced), &first, Some(SecondWriter::FencesTheFirst)).unwrap_err();
        assert!(refused.code() == Code::FailedPrecondition && refused.message().contains("\"b\""), "{refused}");
        assert_eq!(judge(from_ref(&fenced), &publication("a", single, true)), Ok(Others::Stay), "it may read");
        assert_eq!(judge(from_ref(&fenced), &publication("b", single, false)), Ok(Others::Stay));
    }

    #[test]
    fn a_class_with_a_policy_for_second_writers_has_one_writer_whatever_the_mode() {
        let at = |node, read_only| publication(node, AccessMode::MultiNodeMultiWriter, read_only);
        let judge = |new: &Publication, second| check(&[at("a", false)], new, second).map_err(|status| status.code());
        assert_eq!(judge(&at("b", false), None), Ok(Others::Stay), "without a policy all write");
        assert_eq!(judge(&at("b", false), Some(SecondWriter::Refused)), Err(Code::FailedPrecondition));
        assert_eq!(judge(&at("b", false), Some(SecondWriter::FencesTheFirst)), Ok(Others::AreFenced));
        for second in [SecondWriter::Refused, SecondWriter::FencesTheFirst] {
            assert_eq!(judge(&at("b", true), Some(second)), Ok(Others::Stay), "{second:?} is about writers");
        }
    }
}
