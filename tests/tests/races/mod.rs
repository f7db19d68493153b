//! Many clients on one key: conditional writes, deletions and completions, with a linearizable history.
//!
//! - Every request is recorded with its start, its end and its response; `checker` searches an order of all of them
//!   that a single register could have answered, and that respects their times.
//! - No response is left out: one that S3 would not give fails the test at once.

mod checker;
mod client;
mod history;
mod rounds;

use history::{Effect, History, Operation};
