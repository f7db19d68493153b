//! The store's end of the wire: sessions of nodes, their calls, and the changes that they have to drop from their caches.
//!
//! - A call that changes or counts something is executed once, however many connections are lost meanwhile: its slot keeps
//!   the outcome ([`node_session::slot`]). It is finished also if its connection ends.
//! - Changes of others are delivered one batch after the other, again after each reconnection, and acknowledged to the
//!   store only when the node has acknowledged them.
//! - A session whose lease is over is ended at the store first, then here: [`Store::end`] is the fence.
//! - Everything is bounded: sessions, calls of a session that run or wait, and threads that wait for the store.
//!
//! A crash loses what is in memory here: slots and references. What outlives it is what the store records
//! ([`StoredSession`]).

mod besides;
mod calls;
mod changes;
mod connections;
mod control;
mod counts;
mod ended;
mod listener;
mod queued;
mod refusals;
mod server;
mod session;
mod shared;
mod shown;
mod slots;
mod store;
mod table;
mod unanswered;
mod workers;

use std::sync::Arc;

use node_session::Moment;

pub use connections::ConnectionShown;
pub use ended::{EndedSession, Named, Why};
pub use listener::Listener;
pub use server::{Server, Settings, Stats};
pub use shown::{SessionShown, State};
pub use store::{Done, Opened, Opening, Settled, Store, StoredSession};

/// A clock of this machine that counts suspension too, given as an argument.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;
