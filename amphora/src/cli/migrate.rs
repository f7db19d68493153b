//! `amphora migrate`: a store moves from its data folder to PostgreSQL and S3, or S3 alone, or back.
//!
//! - No server may run, and no mount of the store may be left with the fd holder: its programs would wait for a store that is
//!   not there any more.
//!
//! A crash leaves the store where it was, or a move that the same command continues; and a scratch folder, whose name says
//! what it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use objstore::clock::SystemRandom;
use objstore::migrate::{Options, Phase, Progress, Report, move_in, move_out};
use objstore::{ContentBucket, Error};
use parking_lot::Mutex;
use serde::Serialize;

use super::check_elsewhere::Scratch;
use super::holders;
use super::output::{Printer, Row, listed, size_text};
use super::progress::Line;
use crate::config::{Env, MetadataUrl, SocketPath, content, default_socket};
use crate::failure::{Failure, with_causes};

/// How much content that was read stays on the local disk at a time.
const CACHE_BYTES: u64 = 256 << 20;

/// The store to move.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Data folder of the store to move to PostgreSQL and S3; it stays, and is no longer served
    #[arg(long, value_name = "DIR", required_unless_present = "to_data_dir", conflicts_with = "to_data_dir")]
    data_dir: Option<PathBuf>,
    /// New data folder for the store in PostgreSQL and S3, which is no longer served there
    #[arg(long, value_name = "DIR")]
    to_data_dir: Option<PathBuf>,
    /// PostgreSQL or S3 store that keeps the metadata, as for `serve`: an empty database or prefix to move a store there. The password may stand in
    /// PGPASSWORD or a password file instead
    #[arg(long, value_name = "URL")]
    metadata_url: MetadataUrl,
    /// Address of the S3 store of --metadata-url [default: that of the content]
    #[arg(long, value_name = "URL")]
    metadata_endpoint: Option<String>,
    /// Accept a PostgreSQL without a synchronous standby
    #[arg(long)]
    single_postgres: bool,
    /// Bucket and prefix of the content, as for `serve`: an empty one to move a store there
    #[arg(long, value_name = "s3://BUCKET/PREFIX", value_parser = content::location)]
    content_url: objstore::bucket::Location,
    /// Address of that S3 store
    #[arg(long, value_name = "URL")]
    content_endpoint: Option<String>,
    /// Region of that bucket
    #[arg(long, value_name = "REGION")]
    content_region: Option<String>,
    /// Whether requests name that bucket in the path
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    content_path_style: Option<bool>,
    /// Master key file of the server (also: AMPHORA_MASTER_KEY_FILE) [default: it moves with the store]
    #[arg(long, value_name = "FILE")]
    master_key_file: Option<PathBuf>,
    /// Socket of the fd holder that may keep mounts (also: AMPHORA_HOLDER_ENDPOINT) [default: run/holder.sock in the data
    /// folder, and /run/amphora-holder/holder.sock]
    #[arg(long, value_name = "unix://PATH")]
    holder_endpoint: Option<SocketPath>,
    /// Folder for the metadata on its way to the log, removed afterwards [default: a new folder in TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    scratch: Option<PathBuf>,
}

/// The printed result of a move.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MoveReport {
    moved: bool,
    blobs: u64,
    copied_bytes: u64,
    found: u64,
    records: u64,
    problems: Vec<String>,
    unlisted_problems: u64,
}

impl From<Report> for MoveReport {
    fn from(report: Report) -> Self {
        let Report { moved, blobs, copied_bytes, found, records, problems, unlisted_problems } = report;
        Self { moved, blobs, copied_bytes, found, records, problems, unlisted_problems }
    }
}

impl Row for MoveReport {
    const HEADERS: &'static [&'static str] = &["MOVED", "BLOBS", "COPIED", "FOUND THERE", "RECORDS", "PROBLEMS"];

    fn cells(&self) -> Vec<String> {
        vec![
            if self.moved { "yes" } else { "no" }.to_owned(),
            self.blobs.to_string(),
            size_text(self.copied_bytes),
            self.found.to_string(),
            self.records.to_string(),
            listed(&self.problems, self.problems.len() as u64 + self.unlisted_problems),
        ]
    }
}

impl Migrate {
    /// Moves the store; damage is printed and makes the command fail.
    pub(super) fn run(&self, env: Env<'_>, printer: &mut Printer) -> Result<(), Failure> {
        let (dir, outward) = match (&self.data_dir, &self.to_data_dir) {
            (Some(dir), _) => (dir, true),
            (None, Some(dir)) => (dir, false),
            (None, None) => return Err(Failure::usage("name a data folder: --data-dir, or --to-data-dir")),
        };
        let dir = std::path::absolute(dir).map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
        let key = self.master_key(&dir, env)?;
        self.refuse_mounts(&dir, env)?;
        crate::process::raise_open_files();
        let (content, endpoint) = (self.content(), self.metadata_endpoint.as_deref());
        let log = self.metadata_url.to_own(self.single_postgres, endpoint, &content.bucket, env)?.open();
        let log = log.map_err(|error| Failure::failed(format!("--metadata-url: {error}")))?;
        let scratch = if outward { Some(Scratch::make("migrate", self.scratch.as_deref(), env)?) } else { None };
        let line = Mutex::new(Line::new());
        let options = Options {
            dir: dir.clone(),
            log,
            content,
            scratch: scratch.as_ref().map_or_else(PathBuf::new, |scratch| scratch.path().to_owned()),
            master_key: key,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            random: Arc::new(SystemRandom),
            progress: &|at| show(&mut line.lock(), at),
        };
        let moved = if outward { move_out(&options) } else { move_in(&options) };
        drop(options);
        drop(line);
        let report = moved.map_err(|error| failed(&error))?;
        self.shown(&report.into(), outward, &dir, printer)
    }

    fn shown(&self, report: &MoveReport, outward: bool, dir: &Path, printer: &mut Printer) -> Result<(), Failure> {
        printer.one(report)?;
        let dir = dir.display();
        if report.moved {
            let next = if outward {
                format!("the store is in {} now: serve it with --metadata-url and --content-url", self.content_url)
            } else {
                format!("the store is in {dir} now: serve it with --data-dir {dir}")
            };
            return printer.done(&next);
        }
        Err(Failure::failed(if outward {
            format!(
                "the content of {dir} is damaged, and the store stays there: run `amphora check {dir} --repair`, which \
                 quarantines it, or restore it from a backup; then run the same command again, which continues the move"
            )
        } else {
            format!(
                "the content in {} is damaged, and the store stays there: restore the objects, or serve it and delete what \
                 is listed; then run the same command again, which continues the move",
                self.content_url
            )
        }))
    }

    fn content(&self) -> ContentBucket {
        let endpoint = self.content_endpoint.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let bucket = content::bucket(&self.content_url, endpoint, self.content_region.clone(), self.content_path_style);
        ContentBucket { bucket, cache_bytes: CACHE_BYTES }
    }

    /// The file of the master key, if it does not move with the store.
    fn master_key(&self, dir: &Path, env: Env<'_>) -> Result<Option<PathBuf>, Failure> {
        let named = || env("AMPHORA_MASTER_KEY_FILE").filter(|file| !file.is_empty()).map(PathBuf::from);
        let file = self.master_key_file.clone().or_else(named);
        if file.as_ref().is_some_and(|file| std::path::absolute(file).is_ok_and(|file| file.starts_with(dir))) {
            let why = "--master-key-file names a file in the data folder: leave the flag out, and the key moves with the store";
            return Err(Failure::usage(why));
        }
        Ok(file)
    }

    /// Refuses a store of which a holder keeps mounts.
    fn refuse_mounts(&self, dir: &Path, env: Env<'_>) -> Result<(), Failure> {
        for socket in self.holders(dir, env)? {
            let kept = crate::mounts::kept(&socket, dir).map_err(Failure::failed)?;
            if !kept.is_empty() {
                let dirs: Vec<_> = kept.iter().map(|dir| dir.display().to_string()).collect();
                return Err(Failure::failed(format!(
                    "the fd holder at {socket} keeps mounts of this store, whose programs would wait for ever: unmount them \
                     first (amphora umount): {}",
                    dirs.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn holders(&self, dir: &Path, env: Env<'_>) -> Result<Vec<SocketPath>, Failure> {
        // A path that is too long for a socket has no holder.
        let own = default_socket(dir, "admin").ok().map(|admin| admin.holder_beside());
        holders::sockets(self.holder_endpoint.as_ref(), own, env)
    }
}

/// The failure of a move, which the same command continues unless something has to be changed first.
fn failed(error: &Error) -> Failure {
    let text = with_causes(error);
    match error {
        Error::Unusable { .. } | Error::Corrupt { .. } => Failure::failed(text),
        _ => Failure::failed(format!("{text}; the same command continues the move")),
    }
}

fn show(line: &mut Line, at: Progress) {
    match at.phase {
        Phase::Replay => line.show(&|| format!("migrate: replaying the log, batch {} of {}", at.done, at.total)),
        Phase::Records => line.show(&|| format!("migrate: records, {} read", at.done)),
        Phase::Content => {
            let more = format!(", blob {} of {}", at.done, at.total);
            line.show_bytes("migrate: content", (at.bytes, 0), &more);
        }
    }
}
