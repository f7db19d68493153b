//! `amphora mount`, `amphora mount stats`, `amphora mount trace` and `amphora umount`
//!
//! - `options` reads `-o`, for this command and for `mount -t amphora`, which `helper` answers.

pub(super) mod helper;
mod options;
mod stats;
mod trace;
pub(super) mod umount;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use proto::amphora::admin::v1 as admin;

use super::client::{Client, absolute, answer};
use super::output::Printer;
use crate::credentials::Credentials;
use crate::failure::Failure;
use options::Options;

/// What to mount where, or which mount to look at.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Mount {
    #[command(subcommand)]
    look: Option<Look>,
    /// The bucket, or a snapshot (read-only)
    #[arg(required = true)]
    bucket: Option<String>,
    /// An existing directory
    #[arg(required = true)]
    dir: Option<PathBuf>,
    #[arg(short, value_name = "OPTION,…", help = options::HELP)]
    options: Vec<String>,
    /// Mount with no more than the grant of this key, less what the bucket's policy denies its account (AWS shared-credentials file, profile [default])
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Mount again at every start of the server if the mount is missing, until `amphora umount`
    #[arg(long)]
    keep: bool,
}

/// What to look at. (A bucket that is named like one of these is mounted with an option in front: `-o rw stats DIR`.)
#[derive(Debug, Subcommand)]
enum Look {
    /// Show the requests of mounts by operation, with latencies
    Stats {
        /// One mount's directory; all without it
        dir: Option<PathBuf>,
    },
    /// Each call of the kernel through a mount as it is answered, until interrupted
    Trace {
        /// The mount's directory
        dir: PathBuf,
    },
}

impl Mount {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self.look {
            Some(Look::Stats { dir }) => stats::run(client, printer, dir.as_deref()).await,
            Some(Look::Trace { dir }) => trace::run(client, printer, &dir).await,
            None => {
                let (Some(bucket), Some(dir)) = (self.bucket, self.dir) else {
                    return Err(Failure::usage("name a bucket and a directory: amphora mount BUCKET DIR"));
                };
                let options = Options::parse(&self.options)?;
                let key = self.credentials.as_deref().or(options.credentials.as_deref());
                let key = key.map(Credentials::read).transpose().map_err(Failure::failed)?;
                mount(client, bucket, &dir, options, key, self.keep).await
            }
        }
    }
}

/// Asks the server for a mount, or to change one.
async fn mount(
    client: &mut Client,
    bucket: String,
    dir: &Path,
    options: Options,
    key: Option<Credentials>,
    keep: bool,
) -> Result<(), Failure> {
    if options.remount {
        return remount(client, dir, options).await;
    }
    let (access_key_id, secret_access_key) =
        key.map(|key| (key.access_key_id, key.secret.reveal().to_owned())).unwrap_or_default();
    let request = admin::MountRequest {
        bucket,
        dir: absolute(dir)?,
        read_only: options.read_only,
        uid: options.uid,
        gid: options.gid,
        prefix: options.prefix.unwrap_or_default(),
        access_key_id,
        secret_access_key,
        snapshot: None,
        umask: options.umask.unwrap_or_default(),
        readahead_bytes: options.readahead_bytes,
        uncached: options.uncached.unwrap_or_default(),
        no_exec: options.no_exec.unwrap_or_default(),
        keep,
    };
    answer(client.mount(request).await).map(drop)
}

/// Asks the server to make a mount read-only or writable.
async fn remount(client: &mut Client, dir: &Path, options: Options) -> Result<(), Failure> {
    let Options { read_only, uid, gid, prefix, umask, readahead_bytes, uncached, no_exec, .. } = options;
    let dir = absolute(dir)?;
    let request = admin::RemountRequest { dir, read_only, uid, gid, prefix, umask, readahead_bytes, uncached, no_exec };
    answer(client.remount(request).await).map(drop)
}
