//! Cross-origin requests: which scripts of other sites may read a bucket's responses (S3 User Guide, "Using
//! cross-origin resource sharing"; Fetch, "CORS protocol").
//!
//! - A rule lets a browser pass a response on to a script; it grants no access to the bucket. Authorization is decided
//!   as for any request.
//! - The first matching rule decides. A request without Origin costs one header look-up.

mod answer;
mod config;
mod rule;

pub(crate) use answer::{Asked, preflight};
pub(crate) use config::{delete, get, put};
