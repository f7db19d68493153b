//! `amphora backup`, `amphora backup list`, `verify` and `prune`
//!
//! - The server writes backups into a folder on its machine; listing, verifying and pruning them needs no server.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use objstore::backup::{self, Folder};
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, absolute, answer, next};
use super::output::{Printer, Row, listed, size_text, time_text};
use super::progress::Line;
use crate::failure::{Failure, with_causes};

const USAGE: &str = "amphora backup [OPTIONS] <BUCKET> <DEST_DIR>
       amphora backup [OPTIONS] --all <DEST_DIR>
       amphora backup <COMMAND>";

/// What to back up where, or which folder to look after.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, override_usage = USAGE)]
#[command(disable_help_subcommand = true)]
pub struct Backup {
    #[command(subcommand)]
    look_after: Option<LookAfter>,
    /// The bucket, and the folder for backups on the server's machine; the folder is created if it does not exist
    #[arg(value_names = ["BUCKET", "DEST_DIR"], num_args = 1..=2, required = true)]
    what: Vec<String>,
    /// Back up all buckets; then give the folder alone
    #[arg(long)]
    all: bool,
}

/// What to do with a folder. (A bucket that is named like one of these is backed up with `--` in front.)
#[derive(Debug, Subcommand)]
enum LookAfter {
    /// List the backups in a folder
    #[command(visible_alias = "ls")]
    List {
        /// The folder
        dir: PathBuf,
    },
    /// Verify the checksums of all backups in a folder
    Verify {
        /// The folder
        dir: PathBuf,
    },
    /// Remove old backups, and the content that no backup needs
    Prune {
        /// The folder
        dir: PathBuf,
        /// Number of backups to keep of each bucket, newest first
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
}

/// The printed form of a backup.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BackupRow {
    bucket: String,
    id: String,
    created_at: String,
    objects: u64,
    size_bytes: u64,
    sent_bytes: u64,
    damaged: Vec<String>,
}

impl From<admin::BackupInfo> for BackupRow {
    fn from(info: admin::BackupInfo) -> Self {
        let admin::BackupInfo { id, bucket, created_unix_ms, objects, size_bytes, sent_bytes, damaged } = info;
        Self { bucket, id, created_at: time_text(created_unix_ms), objects, size_bytes, sent_bytes, damaged }
    }
}

impl From<backup::Backup> for BackupRow {
    fn from(made: backup::Backup) -> Self {
        let backup::Backup { id, bucket, created, objects, bytes, sent_bytes, damaged } = made;
        Self { bucket, id, created_at: time_text(created.millis()), objects, size_bytes: bytes, sent_bytes, damaged }
    }
}

impl Row for BackupRow {
    const HEADERS: &'static [&'static str] = &["BUCKET", "ID", "CREATED", "OBJECTS", "SIZE", "SENT", "DAMAGED"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.bucket.clone(),
            self.id.clone(),
            self.created_at.clone(),
            self.objects.to_string(),
            size_text(self.size_bytes),
            size_text(self.sent_bytes),
            if self.damaged.is_empty() { "none".to_owned() } else { self.damaged.len().to_string() },
        ]
    }
}

/// The printed result of verifying or pruning.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    clean: bool,
    problems: Vec<String>,
    verified_bytes: u64,
}

impl Row for Verified {
    const HEADERS: &'static [&'static str] = &["VERIFIED", "PROBLEMS"];

    fn cells(&self) -> Vec<String> {
        vec![size_text(self.verified_bytes), listed(&self.problems, self.problems.len() as u64)]
    }
}

impl Backup {
    /// Whether the command needs no server.
    pub(super) fn is_local(&self) -> bool {
        self.look_after.is_some()
    }

    /// Runs a command on a backup folder.
    pub(super) fn look_after(&self, printer: &mut Printer) -> Result<(), Failure> {
        match &self.look_after {
            Some(LookAfter::List { dir }) => list(dir, printer),
            Some(LookAfter::Verify { dir }) => verify(dir, printer),
            Some(LookAfter::Prune { dir, keep }) => prune(dir, *keep, printer),
            None => Ok(()),
        }
    }

    /// Asks the server to back up.
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        let (buckets, dir) = match (self.all, self.what.as_slice()) {
            (false, [bucket, dir]) => (vec![bucket.clone()], dir),
            (true, [dir]) => {
                let all = answer(client.list_buckets(admin::ListBucketsRequest {}).await)?;
                (all.buckets.into_iter().map(|bucket| bucket.name).collect(), dir)
            }
            _ => {
                return Err(Failure::usage(
                    "name a bucket and a folder, or --all and a folder: amphora backup BUCKET DEST_DIR",
                ));
            }
        };
        let dir = absolute(Path::new(dir))?;
        let mut made = Vec::new();
        for bucket in buckets {
            let told = client.backup(admin::BackupRequest { bucket, dir: dir.clone() }).await;
            made.push(BackupRow::from(follow(answer(told)?, "backup").await?));
        }
        printer.list(&made)?;
        refuse_damaged(&made)
    }
}

/// Fails if damaged content is missing from a backup, so that no one takes the backup for complete.
pub(super) fn refuse_damaged<'a>(made: impl IntoIterator<Item = &'a BackupRow>) -> Result<(), Failure> {
    let damaged: Vec<_> = made.into_iter().flat_map(|made| &made.damaged).map(|line| format!("\n  {line}")).collect();
    match damaged.len() {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("the backup lacks damaged content:{}", damaged.concat()))),
    }
}

/// Follows a backup or restore to its end.
pub(super) async fn follow(
    mut told: tonic::Streaming<admin::BackupProgress>,
    what: &str,
) -> Result<admin::BackupInfo, Failure> {
    let mut line = Line::new();
    loop {
        let Some(next) = next(&mut told).await? else {
            return Err(Failure::failed("the server stopped: run the command again"));
        };
        if let Some(result) = next.result {
            return Ok(result);
        }
        let work = format!("{what} {}", next.bucket);
        let sent = format!(", {} written", size_text(next.sent_bytes));
        line.show_bytes(&work, (next.done_bytes, next.total_bytes), &sent);
    }
}

fn failed(error: &objstore::Error) -> Failure {
    Failure::failed(with_causes(error))
}

fn list(dir: &Path, printer: &mut Printer) -> Result<(), Failure> {
    let folder = Folder::for_reading(dir).map_err(|error| failed(&error))?;
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for found in backup::list(&folder).map_err(|error| failed(&error))? {
        match found {
            Ok(found) => all.push(BackupRow::from(found)),
            Err(error) => unread.push(with_causes(&error)),
        }
    }
    printer.list(&all)?;
    match unread.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!("{} backups cannot be read: {first}", unread.len()))),
    }
}

fn verify(dir: &Path, printer: &mut Printer) -> Result<(), Failure> {
    let folder = Folder::for_reading(dir).map_err(|error| failed(&error))?;
    let line = std::cell::RefCell::new(Line::new());
    let told = |at: backup::Progress| {
        line.borrow_mut().show_bytes(&format!("verify {}", at.bucket), (at.done_bytes, at.total_bytes), "");
    };
    let (problems, verified_bytes) = backup::verify(&folder, &told).map_err(|error| failed(&error))?;
    drop(line);
    let shown = Verified { clean: problems.is_empty(), problems, verified_bytes };
    printer.one(&shown)?;
    if shown.clean { Ok(()) } else { Err(Failure::failed("backups are damaged: back up into another folder")) }
}

fn prune(dir: &Path, keep: u32, printer: &mut Printer) -> Result<(), Failure> {
    // A folder without backups is not turned into a backup folder.
    Folder::for_reading(dir).and_then(|_| Folder::for_writing(dir)).map_err(|error| failed(&error)).and_then(|folder| {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let pruned = backup::prune(&folder, keep).map_err(|error| failed(&error))?;
        let size = size_text(pruned.bytes);
        printer.done(&format!("removed {} backups and {} files of {size}", pruned.backups, pruned.files))
    })
}
