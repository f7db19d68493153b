//! Secrets at rest: sealed, so that neither the database nor a copy of it gives them away.

mod master;
mod seal;
#[cfg(test)]
mod tests;

pub(crate) use master::{KeyPlace, Master};
pub(crate) use seal::{Bound, Sealer};
