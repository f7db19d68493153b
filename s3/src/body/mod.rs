//! Bodies of requests and responses: their kinds, memory limits, detection of incomplete bodies, and streaming into the
//! store and out of it. This module knows no requests.

mod elements;
mod intake;
mod kind;
mod memory;
mod output;
mod whole;

pub(crate) use elements::Elements;
pub(crate) use intake::{Body, Received, is_large, receive, receive_within};
pub(crate) use kind::{Kind, content_type, is_form};
pub(crate) use memory::{CHUNK_BYTES_MAX, DOCUMENT_BYTES_MAX, LOOK, Memory, Share, most};
pub(crate) use output::{Output, open};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use whole::ended;
pub(crate) use whole::{Fault, Whole};
