//! The deposit of a mount with the fd holder: `record` writes the record of a mount, `held` is a mount as a later
//! server reads it from the record, `closes` is what the holder answers while no server runs. The holder itself, its protocol and its clients are the crate `fuse-holder`,
//! re-exported here.

mod closes;
mod held;
mod record;

pub use closes::Closes;
pub use fuse_holder::{Deposit, Dial, Error, FdHolder, Holder, Lifetime, Service, Starter, Status};
pub use held::Held;
pub(crate) use record::Record;
