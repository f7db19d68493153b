//! The node's end of the wire: the files of a session, served by a store on another machine.
//!
//! - A session that has its volume alone answers writes and attributes itself, and hands them in behind (`queue`).
//! - Otherwise each change is one trip to the store. The kernel caches, and this module caches names and attributes
//!   (`cache`); the changes of others keep both exact: the store answers a change when this session has dropped what it
//!   names.
//! - A call is repeated until it has an answer, over as many connections as it takes, in its slot: the store executes it
//!   once.
//! - When the lease is half over, and again at its end, the mount drops all of its caches. Calls wait on: the store may only
//!   be restarting, and goes on with the session then.
//! - A call fails by itself only when the session is lost: the store has ended it, or was not reached for
//!   [`Options::patience`]. Then every call fails, and the changes end as lost.
//!
//! A crash of this process loses nothing that was answered: the next process opens the session again, with a higher
//! incarnation.

mod behind;
mod cache;
mod call;
mod changes;
mod connect;
mod forgets;
mod hand_in;
mod keeper;
mod link;
mod misses;
mod options;
mod prefetch;
mod queue;
mod remote;
mod shape;
mod slots;
mod stream;
mod trips;
mod versions;
mod writers;

use std::sync::Arc;

use node_session::Moment;

pub use connect::{Unopened, open};
pub use options::{Options, PATIENCE};
pub use remote::Remote;

/// A clock of this machine that counts suspension too, given as an argument.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;
