//! gRPC servers on Unix sockets, for the admin service, CSI and COSI.
//!
//! - [`serve`] listens with limits: who may connect (`peer`), how many connections and calls there are at a time and
//!   how long a connection may be silent ([`connection_limit`], [`Calls`]), and which `:authority` is accepted
//!   (`authority`).
//! - [`answer`] and [`answer_blocking`] run one call to its end even if the client disconnects, and log request and
//!   answer.
//! - [`status`] maps errors of the store to gRPC codes.
//! - [`driver_name`] has the form of names that both interfaces allow.
//! - This crate depends on the store's errors and on no interface: the messages are in `proto`, and each interface has
//!   its own crate.

mod authority;
mod call;
pub mod connection_limit;
pub mod driver_name;
mod grpc;
mod observed;
mod peer;
pub mod status;

pub use call::{Log, answer, answer_blocking};
pub use grpc::{Calls, serve};
pub use observed::{Observed, Observer};
