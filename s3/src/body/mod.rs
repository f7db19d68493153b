//! Request and response bodies: on the wire, into the store, and out of it.

mod elements;
mod inbound;
mod intake;
mod kind;
mod ledger;
mod memory;
mod outbound;
mod output;
mod proof;
mod taking;
mod whole;

pub(crate) use inbound::Inbound;
pub(crate) use intake::{Body, Received, is_large, receive, receive_within};
pub(crate) use kind::Kind;
pub(crate) use ledger::ReplyLedger;
pub(crate) use memory::{CHUNK_BYTES_MAX, DOCUMENT_BYTES_MAX, LOOK, Memory, Share};
pub(crate) use outbound::{Listeners, Outbound};
pub(crate) use output::{Output, open};
pub(crate) use proof::{prove, prove_claims};
pub(crate) use taking::Taking;
pub(crate) use whole::Fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use whole::ended;

use proof::of_document;
use whole::Whole;
