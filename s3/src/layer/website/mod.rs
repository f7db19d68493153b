//! Static websites: a bucket whose objects are served to browsers, with index and error documents, redirects and
//! routing rules (S3 User Guide, "Hosting a static website using Amazon S3").
//!
//! - The setting is in `bucket::website`. `serve` answers the requests of the website listener, `rules` has the
//!   routing rules, `location` writes where a redirect leads, and `page` an error as HTML.
//! - Every request is anonymous, also one that is signed: an object is read as by GetObject without a key, so policy
//!   and public access block decide as they do on the S3 endpoint.
//! - Only GET and HEAD are served, and nothing but the path, the host, conditions and ranges is looked at.

mod location;
mod page;
mod rules;
mod serve;

pub(super) use page::tell_failure;
pub(super) use serve::serve;
