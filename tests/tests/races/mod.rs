//! Many clients on one key: conditional writes, deletes and completions, each history linearizable.
//!
//! - Every request is recorded with its start, its end and its answer; `checker` looks for one order of all of them
//!   that a single register could have answered, and that keeps what ended before another began before it.
//! - No answer is left out: one that S3 would not give fails the test on the spot.

mod checker;
mod client;
mod history;
mod rounds;

use history::{Effect, History, Operation};
