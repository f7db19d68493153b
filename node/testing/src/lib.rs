//! For the tests of everything that is served from another machine: a store's listener and its nodes on loopback, with
//! connections that a test cuts.
//!
//! Only used as a dev-dependency, so none of it is compiled into the server.

mod link;
mod loopback;
mod store;

pub use link::Weather;
pub use loopback::Loopback;
pub use node_codec::session::{Leased, Queued};
pub use node_codec::{decode_reply, encode_reply};
pub use node_server::{Done, Opening, Settled, StoredSession};
pub use node_session::Terms;
