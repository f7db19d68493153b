//! `amphora master-key`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row};
use crate::failure::Failure;

/// What to do with the master key.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a new master key and encrypt every secret with it, without interrupting requests
    Rotate,
}

/// The printed result of a rotation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotated {
    resealed_keys: u64,
}

impl Row for Rotated {
    const HEADERS: &'static [&'static str] = &["RESEALED KEYS"];

    fn cells(&self) -> Vec<String> {
        vec![self.resealed_keys.to_string()]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Rotate => {
                let done = answer(client.rotate_master_key(admin::RotateMasterKeyRequest {}).await)?;
                printer.one(&Rotated { resealed_keys: done.resealed_keys })
            }
        }
    }
}
