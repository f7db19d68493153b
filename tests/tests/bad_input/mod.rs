//! Bad input: refused in the protocol's own words, with what to do, and nothing changed.

mod command;
mod folders;
mod requests;
mod rpc;
mod serve;
