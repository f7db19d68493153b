//! Overload of the real server: idle, slow, silent or too many clients cost the others no more than a share.
//!
//! - Measurements are compared within one run, with and without the load, and with generous ratios, because the
//!   machine may be small and busy.
//! - `docs/limits.md` lists every limit; those that do not need a whole server are tested beside the code.

mod busy;
mod grpc;
mod idle;
mod idle_mounts;
mod log;
mod many_clients;
mod mounts;
mod overload;
mod process;
mod slow;
