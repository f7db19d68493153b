//! Both drivers in a real Kubernetes: claims, pods, snapshots, clones, keys in Secrets, and a crashing driver.
//!
//! These tests take minutes, so they run at full size only: `cargo verify --full kubernetes`.
//! `docs/internals/testing.md` describes the cluster that they need.

mod attributes;
mod backups;
mod block;
mod cluster;
mod cosi;
mod csi;
mod fs_group;
mod groups;
mod health;
mod identity;
mod inline;
mod lab;
mod nodes;
mod placed;
mod release;
mod replaced;
mod sources;
mod writers;

use tests::amount::is_full;

/// Whether these tests were requested.
fn asked_for() -> Result<(), String> {
    match is_full() {
        true => Ok(()),
        false => Err("it needs a cluster and minutes: cargo verify --full kubernetes".to_owned()),
    }
}
