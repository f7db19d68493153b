//! Secrets at rest: sealed, so that neither the database nor a copy of it gives them away.

mod seal;

pub(crate) use seal::{Bound, Sealer};
