//! Bad input: refused in the protocol's own terms, with advice, and without any change.

mod command;
mod folders;
mod requests;
mod rpc;
mod serve;
