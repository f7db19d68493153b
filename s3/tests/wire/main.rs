//! Tests of the S3 endpoint with a real store and a real socket, and with requests that no client library would send.
//!
//! The `tests` crate runs real clients (boto3, aws-cli and others).

mod access;
mod access_log;
mod acl;
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
mod late;
mod multipart;
mod objects;
mod patience;
mod policy;
mod post;
mod rights;
mod routes;
mod sessions;
mod sign;
mod signatures;
mod tagging;
mod tls;
mod unset;
mod urls;
mod urls_v2;
mod versions;
mod waiting;
mod website;
