//! Bad input: refused in the protocol's own words, with what to do, and nothing changed.

mod command;
mod requests;
mod rpc;
mod serve;
