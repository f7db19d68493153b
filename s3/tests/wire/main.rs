//! The endpoint over a real store and a real socket, spoken to byte by byte: what no client library would send.
//!
//! Real clients (boto3, aws-cli and others) are driven by the `tests` crate.

mod access;
mod bodies;
mod bounds;
mod changes;
mod cors;
mod cut;
mod documented;
mod documents;
mod endpoint;
mod hosts;
mod http2;
mod multipart;
mod objects;
mod patience;
mod policy;
mod post;
mod rights;
mod routes;
mod sign;
mod signatures;
mod tagging;
mod tls;
mod unset;
mod urls;
mod urls_v2;
mod versions;
mod waiting;
