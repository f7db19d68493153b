//! Signature Version 4: a table of requests, each accepted as signed and refused after any change.
//!
//! - The signer is the `aws-sigv4` crate, which shares no code with the server; it is compared with AWS's own examples.
//! - Requests are written to the socket byte by byte, since no client library sends an altered one.
//! - A refused request must leave the bucket unchanged: its keys, their ETags and times, and its uploads.

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
use world::{World, assert_no_faults};

/// The possible refusals of a request: status and S3 error code.
type Refusals = &'static [(u16, &'static str)];

/// The signature is not that of the request.
const MISMATCH: Refusals = &[(403, "SignatureDoesNotMatch")];
/// The request is unsigned, or its signature does not permit it.
const DENIED: Refusals = &[(403, "AccessDenied")];
/// A signed part is missing, doubled or malformed: the code depends on which check fails first.
const MALFORMED: Refusals = &[
    (403, "SignatureDoesNotMatch"),
    (403, "AccessDenied"),
    (400, "AuthorizationHeaderMalformed"),
    (400, "AuthorizationQueryParametersError"),
    (400, "InvalidArgument"),
    (400, "InvalidRequest"),
];
