//! Slots: exactly-once changes (after RFC 8881, section 2.10.6).
//!
//! - A node sends a change in a free slot, under the next number of that slot. Until the answer is known, the slot is
//!   used for nothing but resending the same change.
//! - The store keeps the last outcome of each slot, written by the transaction that made the change. A resent change is
//!   answered from it; the same number with other content is refused.
//! - A call that changed nothing needs no record: when it is sent again, it is done for the first time.
//! - An answer names the log position of its change. The node keeps the change until the store has synced that position,
//!   and resends it if the store lost power before.

mod node;
mod store;

pub use node::{Effect, Replayed, Slots};
pub use store::{Begin, Finished, Outcome, Outcomes, Table};
