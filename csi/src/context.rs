//! The publish context: what ControllerPublishVolume hands to the node through the orchestrator. CSI v1.12,
//! ControllerPublishVolumeResponse.
//!
//! - The orchestrator stores it, in Kubernetes in the status of the VolumeAttachment. A ticket in it is a secret, which
//!   opens one volume for one node until the volume is unpublished.

use std::collections::HashMap;

use tonic::Status;

use crate::credentials::Ticket;
use crate::size_limit::MAP_BYTES_MAX;

/// Marks the volume as read-only.
const READ_ONLY: &str = "amphora/readonly";
/// The ticket with which a node on another machine opens the volume.
const TICKET: &str = "amphora/ticket";

/// The authority (PEM) of the certificate that the store shows to the node.
const AUTHORITY: &str = "amphora/authority";
/// How a certificate in PEM begins (RFC 7468, section 5.1).
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// The largest authority in bytes.
const AUTHORITY_BYTES_MAX: usize = 16 << 10;

/// The most bytes of the other entries: names, and a ticket.
const REST_BYTES_MAX: usize = 1 << 10;

/// A publish context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishContext {
    /// Whether the volume is published for reading only.
    pub(crate) read_only: bool,
    /// The ticket, where the store serves nodes on other machines.
    pub(crate) ticket: Option<Ticket>,
    /// The authority by which the node knows the store, if the node needs no file of it.
    pub(crate) authority: Option<String>,
}

impl PublishContext {
    /// The entries for the orchestrator.
    pub(crate) fn entries(&self) -> HashMap<String, String> {
        let read_only = self.read_only.then(|| (READ_ONLY.to_owned(), "true".to_owned()));
        let ticket = self.ticket.as_ref().map(|ticket| (TICKET.to_owned(), ticket.reveal().to_owned()));
        let authority = self.authority.as_ref().map(|pem| (AUTHORITY.to_owned(), pem.clone()));
        read_only.into_iter().chain(ticket).chain(authority).collect()
    }

    /// The context in a request; entries of others are ignored.
    pub(crate) fn parse(entries: &HashMap<String, String>) -> Result<Self, Status> {
        let read_only = entries.get(READ_ONLY).is_some_and(|value| value == "true");
        let parse = |text: &String| {
            let why = || Status::invalid_argument(format!("publish_context[\"{TICKET}\"] is not a ticket"));
            Ticket::parse(text).ok_or_else(why)
        };
        let authority = entries.get(AUTHORITY).cloned();
        if authority.as_ref().is_some_and(|pem| pem.len() > AUTHORITY_BYTES_MAX || !pem.starts_with(CERTIFICATE)) {
            let why = "is not a certificate in PEM of at most 16 KiB";
            return Err(Status::invalid_argument(format!("publish_context[\"{AUTHORITY}\"] {why}")));
        }
        Ok(Self { read_only, ticket: entries.get(TICKET).map(parse).transpose()?, authority })
    }
}

/// Refuses an authority beside which a ticket has no room in a publish context (CSI v1.12, Size Limits).
pub(crate) fn check_authority(pem: Option<&str>) -> Result<(), Status> {
    let bytes = pem.map_or(0, str::len);
    match bytes <= MAP_BYTES_MAX - REST_BYTES_MAX {
        true => Ok(()),
        false => Err(Status::failed_precondition(format!(
            "the certificates of the store's authority have {bytes} bytes, and a publish context has room for {}: give each \
             node a file of them (--ca)",
            MAP_BYTES_MAX - REST_BYTES_MAX
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_limit::bytes;

    #[test]
    fn the_node_reads_what_the_controller_wrote() {
        for ticket in [None, Ticket::parse("amt1-00")] {
            for read_only in [false, true] {
                let authority = read_only.then(|| format!("{CERTIFICATE}\n"));
                let context = PublishContext { read_only, ticket: ticket.clone(), authority };
                assert_eq!(PublishContext::parse(&context.entries()).unwrap(), context);
            }
        }
    }

    #[test]
    fn a_publish_context_is_within_the_limit_of_its_field() {
        let ticket = Ticket::parse(&format!("amt1-{}", "0".repeat(512)));
        assert!(ticket.is_some());
        let largest = "x".repeat(MAP_BYTES_MAX - REST_BYTES_MAX);
        check_authority(None).unwrap();
        check_authority(Some(&largest)).unwrap();
        let context = PublishContext { read_only: true, ticket, authority: Some(largest.clone()) };
        assert!(bytes(&context.entries()) <= MAP_BYTES_MAX);
        assert_eq!(check_authority(Some(&format!("{largest}x"))).unwrap_err().code(), tonic::Code::FailedPrecondition);
    }

    #[test]
    fn what_is_no_ticket_or_certificate_is_refused_and_not_quoted() {
        for entry in [TICKET, AUTHORITY] {
            let entries = HashMap::from([(entry.to_owned(), "hunter2 hunter2".to_owned())]);
            let refused = PublishContext::parse(&entries).unwrap_err();
            assert!(
                refused.code() == tonic::Code::InvalidArgument && !refused.message().contains("hunter2"),
                "{refused}"
            );
        }
    }
}
