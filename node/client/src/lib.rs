//! The node's end of the wire: the files of a session, served by a store on another machine.
//!
//! - Shared mode: each call is one trip to the store. Only the kernel caches, and the changes of others keep its caches
//!   exact: the store answers a change when this session has dropped what it names.
//! - A call is repeated until it has an answer, over as many connections as it takes, in its slot: the store executes it
//!   once.
//! - A call fails by itself only when the session is lost: its lease is over, or the store has ended it. Then every call
//!   fails, and the changes end as lost, so that the mount drops its caches as a whole.
//!
//! A crash of this process loses nothing that was answered: the next process opens the session again, with a higher
//! incarnation.

mod call;
mod changes;
mod connect;
mod keeper;
mod link;
mod options;
mod remote;
mod shape;
mod slots;
mod stream;
mod writers;

use std::sync::Arc;

use node_session::Moment;

pub use connect::{Unopened, open};
pub use options::Options;
pub use remote::Remote;

/// A clock of this machine that counts suspension too, given as an argument.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;
