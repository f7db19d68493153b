//! Both drivers in a real Kubernetes: claims, pods, snapshots, clones, keys in Secrets, and a driver that dies.
//!
//! These tests take minutes, so they run at full size alone: `cargo verify --full kubernetes`. `docs/internals/testing.md` says which
//! cluster they use and what it has to have.

mod cluster;
mod cosi;
mod csi;
mod lab;

use tests::amount::is_full;

/// That these tests are asked for.
fn asked_for() -> Result<(), String> {
    match is_full() {
        true => Ok(()),
        false => Err("it needs a cluster and minutes: cargo verify --full kubernetes".to_owned()),
    }
}
