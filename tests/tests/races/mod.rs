//! Many clients on one key: conditional writes, deletions and completions, with a linearizable history.
//!
//! - Every request is recorded with its start, its end and its response. `checker` searches for an order of them in
//!   which a single register would give the same responses, and which respects their times.
//! - Every response counts: one that S3 would not give fails the test at once.

mod checker;
mod client;
mod history;
mod rounds;

use history::{Effect, History, Operation};
