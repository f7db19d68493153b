//! The decision which caller may do what with a bucket and its objects. Default deny.
//!
//! - `authority` decides: from grants, the policy of the bucket (`s3_policy`), and its access control lists (`list`)
//!   where Object Ownership enables them. `bucket_access` has all facts on caller and bucket, read in one go.
//! - The values that conditions of a policy ask for come from the head of the request and its [`Sender`]
//!   (`policy_context`); this module knows neither the request's context nor the operations.
//! - A `session` of a role has the rights of its account, narrowed by its policy: what that does not allow is refused,
//!   also where a grant or a bucket policy allows it.
//! - `mounts` applies bucket policies to mounts.

mod ask;
mod authority;
mod bucket_access;
mod credential_cache;
mod list;
mod mounts;
mod policy_cache;
mod policy_context;
mod principal;
mod right;
mod session;
mod traits;

pub(crate) use ask::{Ask, BodyFacts};
pub(crate) use authority::Authority;
pub(crate) use bucket_access::Reader;
pub(crate) use credential_cache::{CachedCaller, Caller, Callers};
pub(crate) use list::Lists;
pub use mounts::MountRules;
pub(crate) use policy_context::{Sender, parameters};
pub(crate) use principal::arn;
pub(crate) use right::Right;
pub(crate) use session::Session;
pub(crate) use traits::{CheckedSource, Tags};
