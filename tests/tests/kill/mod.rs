//! kill -9 of the server under load: acknowledged data is there, other data is old or new, never partial.
//!
//! - 50 times within `cargo verify`, 1,000 times with `cargo verify --full kill`.

mod holder;
mod mount;
mod objects;
