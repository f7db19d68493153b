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
use objstore::disk::read_named;
use proto::amphora::admin::v1 as admin;

use super::client::{Client, absolute, answer};
use super::output::Printer;
use crate::config::{SocketPath, TlsFiles, tls};
use crate::credentials::Credentials;
use crate::failure::{Failure, with_causes};
use crate::mounts::resolve;
use crate::node::own::OwnNode;
use options::Options;

/// The largest file of certificates in bytes.
const CA_MAX: u64 = 1 << 20;

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
    /// The volume listener of a store on another machine; the mount needs --credentials, and no server on this machine
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// Certificates (PEM) of the authority that issued the certificate of --server, such as volume-ca.pem in the data
    /// folder of the store [default: any certificate, of a server that proves to know the secret]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate chain (PEM) of this machine, for a store with --volume-client-ca; read again at each connection. Needs --key
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key (PEM, not encrypted) of --cert
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
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
    /// Whether it mounts nothing.
    pub(super) fn is_look(&self) -> bool {
        self.look.is_some()
    }

    pub(super) async fn run(self, socket: &SocketPath, printer: &mut Printer) -> Result<(), Failure> {
        match self.look {
            Some(Look::Stats { dir: None }) => stats::run(&mut Client::connect(socket).await?, printer, None).await,
            Some(Look::Stats { dir: Some(dir) }) => {
                stats::run(&mut Client::of_mount(&dir, socket).await?, printer, Some(&dir)).await
            }
            Some(Look::Trace { dir }) => trace::run(&mut Client::of_mount(&dir, socket).await?, printer, &dir).await,
            None => {
                let (Some(bucket), Some(dir)) = (self.bucket, self.dir) else {
                    return Err(Failure::usage("name a bucket and a directory: amphora mount BUCKET DIR"));
                };
                let mut options = Options::parse(&self.options)?;
                options.credentials = self.credentials.or(options.credentials);
                options.server = self.server.or(options.server);
                options.ca = self.ca.or(options.ca);
                options.cert = self.cert.or(options.cert);
                options.key = self.key.or(options.key);
                mount(socket, bucket, &dir, options, self.keep).await
            }
        }
    }
}

/// Asks the server for a mount, or to change one. A mount of a store on another machine gets a node of its own.
async fn mount(socket: &SocketPath, bucket: String, dir: &Path, options: Options, keep: bool) -> Result<(), Failure> {
    if options.remount {
        return remount(&mut Client::of_mount(dir, socket).await?, dir, options).await;
    }
    let key = options.credentials.as_deref().map(Credentials::read).transpose().map_err(Failure::failed)?;
    let (cert_file, key_file) = identity(&options)?;
    let ca_pem = options.ca.as_deref().map(authority).transpose()?.unwrap_or_default();
    let mut own = None;
    let mut client = match &options.server {
        Some(_) if key.is_none() => {
            return Err(Failure::usage(
                "a mount of a store on another machine needs an access key: --credentials FILE",
            ));
        }
        Some(_) => {
            let resolved = resolve(dir).map_err(|error| Failure::failed(with_causes(&error)))?;
            let node = OwnNode::of(&resolved)?;
            node.start()?;
            let client = Client::connect(&node.socket).await?;
            own = Some((node, resolved));
            client
        }
        None => Client::connect(socket).await?,
    };
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
        node_locks: options.node_locks.unwrap_or_default(),
        keep,
        server: options.server.unwrap_or_default(),
        ca_pem,
        cert_file,
        key_file,
    };
    answer(client.mounts.mount(request).await)?;
    if let Some((node, dir)) = own {
        node.record(&dir);
    }
    Ok(())
}

/// The files of the certificate that is shown to the store, by absolute paths; empty if there are none.
fn identity(options: &Options) -> Result<(String, String), Failure> {
    let named = tls(("--cert", options.cert.clone()), ("--key", options.key.clone()))?;
    match named {
        None => Ok(Default::default()),
        Some(_) if options.server.is_none() => Err(Failure::usage(
            "--cert is set and --server is not: only a store on another machine asks for a certificate",
        )),
        Some(TlsFiles { certificate, key }) => Ok((absolute(&certificate)?, absolute(&key)?)),
    }
}

/// The certificates in a file.
fn authority(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = read_named(file, CA_MAX);
    let (bytes, _) = read.map_err(|error| Failure::failed(format!("--ca {}: {error}", file.display())))?;
    Ok(bytes)
}

/// Asks the server to make a mount read-only or writable.
async fn remount(client: &mut Client, dir: &Path, options: Options) -> Result<(), Failure> {
    let request = admin::RemountRequest {
        dir: absolute(dir)?,
        read_only: options.read_only,
        uid: options.uid,
        gid: options.gid,
        prefix: options.prefix,
        umask: options.umask,
        readahead_bytes: options.readahead_bytes,
        uncached: options.uncached,
        no_exec: options.no_exec,
        node_locks: options.node_locks,
    };
    answer(client.mounts.remount(request).await).map(drop)
}
