//! What a mount leaves with the fd holder: `record` is the depositor's record of a mount, `held` what a later server
//! reads from it. The holder itself, its protocol and its clients are the crate `fuse-holder`, handed on here.

mod held;
mod record;

pub use fuse_holder::{Deposit, Dial, Error, FdHolder, Holder, Lifetime, Service, Status};
pub use held::Held;
pub(crate) use record::Record;
