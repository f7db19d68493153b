//! gRPC over Unix sockets, as the admin service, CSI and COSI share it.
//!
//! - [`serve`] is a listener and its bounds: who may connect (`peer`), how many connections and calls there are at once
//!   and how long they may be silent ([`seats`], [`Calls`]), and which `:authority` passes (`authority`).
//! - [`answer`] and [`answer_blocking`] run one call to its end though its caller leaves, and log both sides.
//! - [`status`] is the gRPC code of each refusal of the store.
//!
//! It knows the store's errors and no interface: messages are in `proto`, what they mean in the crate of each interface.

mod authority;
mod call;
mod grpc;
mod observed;
mod peer;
pub mod seats;
pub mod status;

pub use call::{Log, answer, answer_blocking};
pub use grpc::{Calls, serve};
pub use observed::{Observed, Observer};
