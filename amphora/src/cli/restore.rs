//! `amphora restore`

use std::path::PathBuf;

use clap::Args;
use objstore::backup::{self, Folder};
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::backup::{BackupRow, follow, refuse_damaged};
use super::client::{Client, absolute, answer};
use super::output::{Printer, Row};
use crate::failure::{Failure, with_causes};

/// Restore buckets from a folder of backups. A bucket appears when it is complete; existing buckets are never replaced.
#[derive(Debug, Args)]
pub struct Restore {
    /// The folder, on the server's machine
    src_dir: PathBuf,
    /// The bucket that was backed up
    #[arg(required_unless_present = "all")]
    bucket: Option<String>,
    /// Restore every bucket that the folder has backups of
    #[arg(long, conflicts_with_all = ["bucket", "at", "name"])]
    all: bool,
    /// Id of the backup (`amphora backup list`) [default: the newest]
    #[arg(long, value_name = "ID")]
    at: Option<String>,
    /// Name of the new bucket [default: the name of the backed up bucket]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// The printed form of a restored bucket.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Restored {
    restored_as: String,
    #[serde(flatten)]
    backup: BackupRow,
}

impl Row for Restored {
    const HEADERS: &'static [&'static str] =
        &["RESTORED AS", "BUCKET", "ID", "CREATED", "OBJECTS", "SIZE", "SENT", "DAMAGED"];

    fn cells(&self) -> Vec<String> {
        std::iter::once(self.restored_as.clone()).chain(self.backup.cells()).collect()
    }
}

impl Restore {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        let dir = absolute(&self.src_dir)?;
        let buckets = match self.bucket {
            Some(bucket) => vec![bucket],
            None => all_in(&self.src_dir)?,
        };
        let mut restored = Vec::new();
        for bucket in buckets {
            let name = self.name.clone().unwrap_or_else(|| bucket.clone());
            let request = admin::RestoreRequest { dir: dir.clone(), bucket, id: self.at.clone(), name: name.clone() };
            let backup = BackupRow::from(follow(answer(client.restore(request).await)?, "restore").await?);
            restored.push(Restored { restored_as: name, backup });
        }
        printer.list(&restored)?;
        refuse_damaged(restored.iter().map(|restored| &restored.backup))
    }
}

fn all_in(dir: &std::path::Path) -> Result<Vec<String>, Failure> {
    let listed = Folder::for_reading(dir).and_then(|folder| backup::list(&folder));
    let listed = listed.map_err(|error| Failure::failed(with_causes(&error)))?;
    let mut buckets = Vec::new();
    for found in listed {
        buckets.push(found.map_err(|error| Failure::failed(with_causes(&error)))?.bucket);
    }
    buckets.dedup();
    Ok(buckets)
}
