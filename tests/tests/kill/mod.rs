//! kill -9 of the server under load: what was acknowledged is there, what was not is old or new, never half.
//!
//! - 50 times within `cargo verify`, 1,000 times with `cargo verify --full kill`.

mod holder;
mod mount;
mod objects;
