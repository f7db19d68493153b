//! kill -9 of the server under load: what was acknowledged is there, what was not is old or new, never half.

mod holder;
mod mount;
mod objects;
