//! The endpoint over a real store and a real socket, spoken to byte by byte: what no client library would send.
//!
//! Real clients (boto3, aws-cli and others) are driven by the `tests` crate.

mod access;
mod bodies;
mod endpoint;
mod objects;
mod sign;
