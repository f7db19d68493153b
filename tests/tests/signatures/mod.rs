//! Signature Version 4 as the server checks it: a table of requests, each let in as it is signed and refused once
//! anything about it is changed.
//!
//! - The signer is the `aws-sigv4` crate, which shares nothing with the server; it is held against AWS's own examples.
//! - Requests are written to the socket byte by byte, since no client library sends a spoilt one.
//! - What is refused must leave the bucket as it was: its keys, their ETags and times, and its uploads.

mod cases;
mod changes;
mod examples;
mod forgeries;
mod presigned;
mod request;
mod signer;
mod streams;
mod wire;
mod world;

pub use request::{Payload, Request};
pub use signer::Signer;
pub use wire::{Answer, Wire, encode};
use world::{World, verdict};

/// A status and a code of S3; an answer may have one of several.
type Refusals = &'static [(u16, &'static str)];

/// The signature does not cover what was sent.
const MISMATCH: Refusals = &[(403, "SignatureDoesNotMatch")];
/// Not signed, or not for this.
const DENIED: Refusals = &[(403, "AccessDenied")];
/// What is covered is missing, doubled or malformed: the code depends on what is noticed first.
const MALFORMED: Refusals = &[
    (403, "SignatureDoesNotMatch"),
    (403, "AccessDenied"),
    (400, "AuthorizationHeaderMalformed"),
    (400, "AuthorizationQueryParametersError"),
    (400, "InvalidArgument"),
    (400, "InvalidRequest"),
];
