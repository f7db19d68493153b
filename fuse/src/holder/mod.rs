//! The deposit of a mount with the fd holder: `record` writes the record of a mount, `held` is a mount as a later
//! server reads it from the record. The holder itself, its protocol and its clients are the crate `fuse-holder`,
//! re-exported here.

mod held;
mod record;

pub use fuse_holder::{Deposit, Dial, Error, FdHolder, Holder, Lifetime, Service, Starter, Status};
pub use held::Held;
pub(crate) use record::Record;
