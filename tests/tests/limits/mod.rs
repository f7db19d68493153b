//! Crowds at the doors of the real server: who is idle, slow, silent or too many costs the others no more than a share.
//!
//! - What is measured is compared within one run, with and without the crowd, and with generous ratios: the machine that
//!   runs this may be small and busy.
//! - `docs/limits.md` has every bound; those that need no whole server are tested beside the code.

mod busy;
mod crowd;
mod doors;
mod idle;
mod log;
mod mounts;
mod overload;
mod process;
mod rest;
mod slow;
