//! Encryption of secrets at rest, so that neither the database nor a copy of it reveals them.

mod copies;
mod master;
mod seal;
mod secret;
#[cfg(test)]
mod tests;

pub(crate) use copies::KeyCopies;
pub(crate) use master::{KeyPlace, Master};
pub(crate) use seal::{Bound, Sealer};
pub use secret::Secret;
