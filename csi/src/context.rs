//! The publish context: what ControllerPublishVolume hands to the node through the orchestrator. CSI v1.12,
//! ControllerPublishVolumeResponse.
//!
//! - The orchestrator stores it, in Kubernetes in the status of the VolumeAttachment. A ticket in it is a secret, which
//!   opens one volume for one node until the volume is unpublished.

use std::collections::HashMap;

use tonic::Status;

use crate::credentials::Ticket;

/// Marks the volume as read-only.
const READ_ONLY: &str = "amphora/readonly";
/// The ticket with which a node on another machine opens the volume.
const TICKET: &str = "amphora/ticket";

/// A publish context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishContext {
    /// Whether the volume is published for reading only.
    pub(crate) read_only: bool,
    /// The ticket, where the store serves nodes on other machines.
    pub(crate) ticket: Option<Ticket>,
}

impl PublishContext {
    /// The entries for the orchestrator.
    pub(crate) fn entries(&self) -> HashMap<String, String> {
        let read_only = self.read_only.then(|| (READ_ONLY.to_owned(), "true".to_owned()));
        let ticket = self.ticket.as_ref().map(|ticket| (TICKET.to_owned(), ticket.reveal().to_owned()));
        read_only.into_iter().chain(ticket).collect()
    }

    /// The context in a request; entries of others are ignored.
    pub(crate) fn parse(entries: &HashMap<String, String>) -> Result<Self, Status> {
        let read_only = entries.get(READ_ONLY).is_some_and(|value| value == "true");
        let parse = |text: &String| {
            let why = || Status::invalid_argument(format!("publish_context[\"{TICKET}\"] is not a ticket"));
            Ticket::parse(text).ok_or_else(why)
        };
        Ok(Self { read_only, ticket: entries.get(TICKET).map(parse).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_reads_what_the_controller_wrote() {
        for ticket in [None, Ticket::parse("amt1-00")] {
            for read_only in [false, true] {
                let context = PublishContext { read_only, ticket: ticket.clone() };
                assert_eq!(PublishContext::parse(&context.entries()).unwrap(), context);
            }
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused_and_not_quoted() {
        let entries = HashMap::from([(TICKET.to_owned(), "hunter2 hunter2".to_owned())]);
        let refused = PublishContext::parse(&entries).unwrap_err();
        assert!(refused.code() == tonic::Code::InvalidArgument && !refused.message().contains("hunter2"), "{refused}");
    }
}
