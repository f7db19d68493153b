//! Bodies: as they pass the wire, into the store, and out of it.

mod inbound;
mod intake;
mod outbound;
mod output;

pub(crate) use inbound::Inbound;
pub(crate) use intake::{Body, is_large, receive};
pub(crate) use outbound::Outbound;
pub(crate) use output::{Output, open};
