//! Cross-origin requests: what a bucket lets the scripts of other sites do (S3 User Guide, "Using cross-origin resource
//! sharing"; Fetch, "CORS protocol").
//!
//! - A rule gives a browser leave to hand an answer on to a script; it gives nobody a right to the bucket. Who may read
//!   or write is decided as for any request.
//! - The first rule that matches decides. A request without Origin costs one look at its headers, nothing more.

mod answer;
mod config;
mod rule;

pub(crate) use answer::{Asked, preflight};
pub(crate) use config::{delete, get, put};
