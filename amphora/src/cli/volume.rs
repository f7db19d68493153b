//! `amphora volume`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::link::Link;
use super::output::{Printer, Row, limit_text, size_text};
use crate::failure::Failure;

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List volumes, with the nodes that they are published to
    #[command(visible_alias = "ls")]
    List,
    /// Show one volume
    Show {
        /// The CSI volume id
        id: String,
    },
}

/// The printed form of a volume.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VolumeRow {
    id: String,
    bucket: String,
    capacity_bytes: Option<u64>,
    used_bytes: u64,
    publications: Vec<Publication>,
    mounts: Vec<MountPoint>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Publication {
    node: String,
    target: Option<String>,
    read_only: bool,
}

/// The printed form of a mount, also for `status`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MountPoint {
    bucket: String,
    dir: String,
    read_only: bool,
    keep: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
}

impl MountPoint {
    pub(super) fn text(&self) -> String {
        let marks: Vec<_> =
            [(self.read_only, "read-only"), (self.keep, "kept")].into_iter().filter(|mark| mark.0).collect();
        let marks = marks.into_iter().map(|(_, mark)| mark).collect::<Vec<_>>().join(", ");
        let marks = if marks.is_empty() { marks } else { format!(" ({marks})") };
        let server = if self.server.is_empty() { String::new() } else { format!(" from {}", self.server) };
        let link = self.link.as_ref().map(|link| format!(": {}", link.text())).unwrap_or_default();
        format!("{} at {}{server}{marks}{link}", self.bucket, self.dir)
    }
}

impl From<admin::MountPoint> for MountPoint {
    fn from(mount: admin::MountPoint) -> Self {
        Self {
            bucket: mount.bucket,
            dir: mount.dir,
            read_only: mount.read_only,
            keep: mount.keep,
            server: mount.server,
            link: mount.link.map(Link::from),
        }
    }
}

impl From<admin::Publication> for Publication {
    fn from(publication: admin::Publication) -> Self {
        Self { node: publication.node, target: publication.target, read_only: publication.readonly }
    }
}

impl From<admin::Volume> for VolumeRow {
    fn from(volume: admin::Volume) -> Self {
        Self {
            id: volume.id,
            bucket: volume.bucket,
            capacity_bytes: volume.capacity_bytes,
            used_bytes: volume.used_bytes,
            publications: volume.publications.into_iter().map(Publication::from).collect(),
            mounts: volume.mounts.into_iter().map(MountPoint::from).collect(),
        }
    }
}

impl Row for VolumeRow {
    const HEADERS: &'static [&'static str] = &["ID", "BUCKET", "CAPACITY", "USED", "NODES", "MOUNTS"];

    fn cells(&self) -> Vec<String> {
        let nodes: Vec<_> = self.publications.iter().map(|publication| publication.node.clone()).collect();
        let mounts: Vec<_> = self.mounts.iter().map(MountPoint::text).collect();
        vec![
            self.id.clone(),
            self.bucket.clone(),
            limit_text(self.capacity_bytes),
            size_text(self.used_bytes),
            nodes.join(", "),
            mounts.join(", "),
        ]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::List => {
                let all = answer(client.list_volumes(admin::ListVolumesRequest {}).await)?;
                printer.list(&all.volumes.into_iter().map(VolumeRow::from).collect::<Vec<_>>())
            }
            Self::Show { id } => {
                let volume = answer(client.get_volume(admin::GetVolumeRequest { id }).await)?;
                printer.one(&VolumeRow::from(volume))
            }
        }
    }
}
