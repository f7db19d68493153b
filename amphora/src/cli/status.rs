//! `amphora status`

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, some};
use super::volume::MountPoint;
use crate::failure::Failure;

/// How a server is, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    version: String,
    data_dir: String,
    s3_address: Option<String>,
    uptime_ms: u64,
    buckets: u64,
    mounts: Vec<MountPoint>,
    poisoned: Option<String>,
}

impl From<admin::StatusResponse> for Shown {
    fn from(status: admin::StatusResponse) -> Self {
        Self {
            version: status.version,
            data_dir: status.data_dir,
            s3_address: some(status.s3_address),
            uptime_ms: status.uptime_ms,
            buckets: status.buckets,
            mounts: status.mounts.into_iter().map(MountPoint::from).collect(),
            poisoned: status.poisoned,
        }
    }
}

impl Row for Shown {
    const HEADERS: &'static [&'static str] = &["VERSION", "DATA DIR", "S3", "UPTIME", "BUCKETS", "MOUNTS", "WRITES"];

    fn cells(&self) -> Vec<String> {
        let mounts: Vec<_> = self.mounts.iter().map(MountPoint::text).collect();
        vec![
            self.version.clone(),
            self.data_dir.clone(),
            self.s3_address.clone().unwrap_or_default(),
            format!("{} s", self.uptime_ms / 1000),
            self.buckets.to_string(),
            mounts.join(", "),
            self.poisoned.as_ref().map_or_else(|| "accepted".to_owned(), |why| format!("refused: {why}")),
        ]
    }
}

/// Asks and prints.
pub(super) async fn run(client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
    let status = answer(client.status(admin::StatusRequest {}).await)?;
    printer.one(&Shown::from(status))
}
