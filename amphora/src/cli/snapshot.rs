//! `amphora snapshot`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, size_text, time_text};
use crate::failure::Failure;

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a snapshot of a bucket
    Create {
        /// The bucket
        bucket: String,
        /// Name of the snapshot; it can be mounted, and read through S3, under this name
        name: String,
    },
    /// List snapshots
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this bucket
        bucket: Option<String>,
    },
    /// Delete a snapshot
    #[command(visible_alias = "rm")]
    Delete {
        /// Name
        name: String,
    },
}

/// The printed form of a snapshot.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotRow {
    name: String,
    bucket: String,
    created_at: String,
    size_bytes: u64,
}

impl From<admin::Snapshot> for SnapshotRow {
    fn from(snapshot: admin::Snapshot) -> Self {
        Self {
            name: snapshot.name,
            bucket: snapshot.bucket,
            created_at: time_text(snapshot.created_unix_ms),
            size_bytes: snapshot.size_bytes,
        }
    }
}

impl Row for SnapshotRow {
    const HEADERS: &'static [&'static str] = &["NAME", "BUCKET", "CREATED", "SIZE"];

    fn cells(&self) -> Vec<String> {
        vec![self.name.clone(), self.bucket.clone(), self.created_at.clone(), size_text(self.size_bytes)]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create { bucket, name } => {
                let snapshot = answer(client.create_snapshot(admin::CreateSnapshotRequest { bucket, name }).await)?;
                printer.one(&SnapshotRow::from(snapshot))
            }
            Self::List { bucket } => {
                let all = answer(client.list_snapshots(admin::ListSnapshotsRequest { bucket }).await)?;
                printer.list(&all.snapshots.into_iter().map(SnapshotRow::from).collect::<Vec<_>>())
            }
            Self::Delete { name } => {
                answer(client.delete_snapshot(admin::DeleteSnapshotRequest { name: name.clone() }).await)?;
                printer.done(&format!("deleted snapshot {name}"))
            }
        }
    }
}
