//! `amphora status`

use proto::amphora::admin::v1 as admin;
use serde::Serialize;
use tonic::Code;

use super::client::{Client, answer};
use super::output::{Printer, Row, listed, some, time_text};
use super::progress::share;
use super::scrub::Damaged;
use super::session::seconds_text;
use super::volume::MountPoint;
use crate::failure::Failure;

/// The printed status of a server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusReport {
    version: String,
    data_dir: String,
    s3_address: Option<String>,
    uptime_ms: u64,
    buckets: u64,
    mounts: Vec<MountPoint>,
    unserved_mounts: Vec<Unserved>,
    lost_mounts: Vec<LostMount>,
    sessions: Sessions,
    poisoned: Option<String>,
    disk_full: bool,
    lifecycle: Lifecycle,
    scrub: Scrub,
    damaged_count: u64,
    damaged: Vec<Damaged>,
}

/// A mount whose programs get errors.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unserved {
    bucket: Option<String>,
    dir: Option<String>,
    why: String,
}

/// A lost mount.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LostMount {
    bucket: String,
    dir: String,
    why: String,
    command: String,
}

impl Unserved {
    pub(super) fn text(&self) -> String {
        let (bucket, dir) =
            (self.bucket.as_deref().unwrap_or("?"), self.dir.as_deref().unwrap_or("an unknown directory"));
        format!("{bucket} at {dir}: programs in it get EIO ({}); to end the mount: amphora umount {dir}", self.why)
    }
}

impl LostMount {
    fn text(&self) -> String {
        let Self { bucket, dir, why, command } = self;
        format!(
            "{bucket} at {dir}: {why}; to mount it again: {command}; to remove it from this list: amphora umount {dir}"
        )
    }
}

/// The sessions of mounts on other machines, in numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sessions {
    volume_address: Option<String>,
    sessions: u64,
    nodes: u64,
    unreached: u64,
    behind: u64,
    awaited: u64,
    behind_ms: u64,
    fenced: u64,
    refused_openings: u64,
    refused_connections: u64,
}

/// The lifecycle worker.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    completed_at: Option<String>,
    bucket: Option<String>,
    looked_at: u64,
    expired: u64,
    errors: u64,
}

/// The scrub.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Scrub {
    started_at: Option<String>,
    completed_at: Option<String>,
    running: bool,
    done_bytes: u64,
    total_bytes: u64,
    found: u64,
    errors: u64,
}

impl From<admin::UnservedMount> for Unserved {
    fn from(mount: admin::UnservedMount) -> Self {
        let admin::UnservedMount { bucket, dir, why } = mount;
        Self { bucket, dir, why }
    }
}

impl From<admin::LostMount> for LostMount {
    fn from(mount: admin::LostMount) -> Self {
        let admin::LostMount { bucket, dir, why, command } = mount;
        Self { bucket, dir, why, command }
    }
}

impl From<admin::SessionsStatus> for Sessions {
    fn from(status: admin::SessionsStatus) -> Self {
        Self {
            volume_address: some(status.volume_address),
            sessions: status.sessions,
            nodes: status.nodes,
            unreached: status.unreached,
            behind: status.behind,
            awaited: status.awaited,
            behind_ms: status.behind_ms,
            fenced: status.fenced,
            refused_openings: status.refused_openings,
            refused_connections: status.refused_connections,
        }
    }
}

impl From<admin::LifecycleStatus> for Lifecycle {
    fn from(status: admin::LifecycleStatus) -> Self {
        let admin::LifecycleStatus { completed_unix_ms, bucket, looked_at, expired, errors } = status;
        Self { completed_at: completed_unix_ms.map(time_text), bucket, looked_at, expired, errors }
    }
}

impl From<admin::ScrubStatus> for Scrub {
    fn from(status: admin::ScrubStatus) -> Self {
        let admin::ScrubStatus { running, done_bytes, total_bytes, found, errors, .. } = status;
        let started_at = status.started_unix_ms.map(time_text);
        let completed_at = status.completed_unix_ms.map(time_text);
        Self { started_at, completed_at, running, done_bytes, total_bytes, found, errors }
    }
}

impl From<admin::StatusResponse> for StatusReport {
    fn from(status: admin::StatusResponse) -> Self {
        Self {
            version: status.version,
            data_dir: status.data_dir,
            s3_address: some(status.s3_address),
            uptime_ms: status.uptime_ms,
            buckets: status.buckets,
            mounts: status.mounts.into_iter().map(MountPoint::from).collect(),
            unserved_mounts: status.unserved_mounts.into_iter().map(Unserved::from).collect(),
            lost_mounts: status.lost_mounts.into_iter().map(LostMount::from).collect(),
            sessions: status.sessions.unwrap_or_default().into(),
            poisoned: status.poisoned,
            disk_full: status.disk_full,
            lifecycle: status.lifecycle.unwrap_or_default().into(),
            scrub: status.scrub.unwrap_or_default().into(),
            damaged_count: status.damaged_count,
            damaged: status.damaged.into_iter().map(Damaged::from).collect(),
        }
    }
}

impl Sessions {
    fn text(&self) -> String {
        let Self { sessions, nodes, unreached, behind, awaited, fenced, .. } = self;
        let listener = match &self.volume_address {
            Some(address) => format!("at {address}"),
            None => "no volume listener".to_owned(),
        };
        let refused = self.refused_openings + self.refused_connections;
        let behind_for = seconds_text(self.behind_ms);
        format!(
            "{sessions} of {nodes} nodes, {listener}; {unreached} unreached, {behind} behind (up to {behind_for}), {awaited} \
             awaited; {fenced} fenced, {refused} refused since the start"
        )
    }
}

impl Lifecycle {
    fn text(&self) -> String {
        let Self { expired, errors, .. } = self;
        let now = self.bucket.as_ref().map_or_else(|| "waits".to_owned(), |bucket| format!("examining {bucket}"));
        format!("{now}, {}, {expired} expired, {errors} errors", last_pass(self.completed_at.as_deref()))
    }
}

impl Scrub {
    fn text(&self) -> String {
        let now = if self.running { share(self.done_bytes, self.total_bytes) } else { "waits".to_owned() };
        format!("{}, {}, {} errors", now.trim_start(), last_pass(self.completed_at.as_deref()), self.errors)
    }
}

fn last_pass(ended: Option<&str>) -> String {
    ended.map_or_else(|| "no pass has ended yet".to_owned(), |ended| format!("last pass ended {ended}"))
}

impl StatusReport {
    fn writes(&self) -> String {
        match &self.poisoned {
            Some(why) => format!("refused: {why}"),
            None if self.disk_full => "refused but for deletions: the disk is full".to_owned(),
            None => "accepted".to_owned(),
        }
    }
}

impl Row for StatusReport {
    const HEADERS: &'static [&'static str] = &[
        "VERSION",
        "DATA DIR",
        "S3",
        "UPTIME",
        "BUCKETS",
        "MOUNTS",
        "UNSERVED MOUNTS",
        "LOST MOUNTS",
        "SESSIONS",
        "WRITES",
        "LIFECYCLE",
        "SCRUB",
        "DAMAGED",
    ];

    fn cells(&self) -> Vec<String> {
        let mounts: Vec<_> = self.mounts.iter().map(MountPoint::text).collect();
        vec![
            self.version.clone(),
            self.data_dir.clone(),
            self.s3_address.clone().unwrap_or_default(),
            format!("{} s", self.uptime_ms / 1000),
            self.buckets.to_string(),
            mounts.join(", "),
            listed(self.unserved_mounts.iter().map(Unserved::text), self.unserved_mounts.len() as u64),
            listed(self.lost_mounts.iter().map(LostMount::text), self.lost_mounts.len() as u64),
            self.sessions.text(),
            self.writes(),
            self.lifecycle.text(),
            self.scrub.text(),
            listed(self.damaged.iter().map(Damaged::text), self.damaged_count),
        ]
    }
}

/// Requests the status and prints it.
pub(super) async fn run(client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
    let status = match client.status(admin::StatusRequest {}).await {
        Err(status) if status.code() == Code::Unimplemented => {
            return super::node_status::of_node(client, printer).await;
        }
        status => answer(status)?,
    };
    printer.one(&StatusReport::from(status))
}
