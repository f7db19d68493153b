//! `amphora check --metadata-url … --content-url …`: a store without a data folder.
//!
//! - What is fetched lies in a scratch folder that only the own user can enter, since it has the master key for a while.
//!   It is removed at the end.
//!
//! A crash leaves the scratch folder, whose name says what it is.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use objstore::ContentBucket;
use objstore::check::{Depth, Options, Report, run_elsewhere};

use crate::config::{Env, MetadataUrl, content};
use crate::failure::{Failure, with_causes};

/// How much content stays in the scratch folder at a time.
const CACHE_BYTES: u64 = 256 << 20;

/// The parts of the store.
#[derive(Debug, Args)]
pub(super) struct Elsewhere {
    /// PostgreSQL or S3 store that keeps the metadata, as for `serve`; it is only read. The password may stand in PGPASSWORD or a password
    /// file instead
    #[arg(long, value_name = "URL", requires = "content_url", conflicts_with_all = ["data_dir", "repair"])]
    pub(super) metadata_url: Option<MetadataUrl>,
    /// Address of the S3 store of --metadata-url [default: that of the content]
    #[arg(long, value_name = "URL", requires = "metadata_url")]
    metadata_endpoint: Option<String>,
    /// Bucket and prefix of the content, as for `serve`; it is only read
    #[arg(long, value_name = "s3://BUCKET/PREFIX", requires = "metadata_url", value_parser = content::location)]
    content_url: Option<objstore::bucket::Location>,
    /// Address of that S3 store
    #[arg(long, value_name = "URL", requires = "content_url")]
    content_endpoint: Option<String>,
    /// Region of that bucket
    #[arg(long, value_name = "REGION", requires = "content_url")]
    content_region: Option<String>,
    /// Whether requests name that bucket in the path
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set, requires = "content_url")]
    content_path_style: Option<bool>,
    /// Also read all content from the bucket and verify its checksums, not only that each object is there with its length
    #[arg(long, requires = "metadata_url", conflicts_with = "metadata_only")]
    checksums: bool,
    /// Folder for the fetched metadata, removed afterwards [default: a new folder in TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", requires = "metadata_url")]
    scratch: Option<PathBuf>,
}

impl Elsewhere {
    /// Checks the store.
    pub(super) fn run(&self, url: &MetadataUrl, env: Env<'_>, options: &Options<'_>) -> Result<Report, Failure> {
        let Some(location) = &self.content_url else {
            return Err(Failure::usage("--metadata-url needs --content-url: name the bucket of the content"));
        };
        crate::process::raise_open_files();
        let endpoint = self.content_endpoint.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let bucket = content::bucket(location, endpoint, self.content_region.clone(), self.content_path_style);
        let log = url.to_read(self.metadata_endpoint.as_deref(), &bucket, env)?.open_existing();
        let log = log.map_err(|error| Failure::failed(format!("--metadata-url: {error}")))?;
        let content = ContentBucket { bucket, cache_bytes: CACHE_BYTES };
        let place = objstore::check::Elsewhere { log, content };
        let depth = match (options.content, self.checksums) {
            (false, _) => Depth::Records,
            (true, false) => Depth::Objects,
            (true, true) => Depth::Checksums,
        };
        let scratch = Scratch::make("check", self.scratch.as_deref(), env)?;
        let report = run_elsewhere(&place, scratch.path(), depth, options);
        report.map_err(|error| Failure::failed(with_causes(&error)))
    }
}

/// A folder that is removed with its content.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one for the command `command` in `parent`, or where temporary files are.
    pub(super) fn make(command: &str, parent: Option<&Path>, env: Env<'_>) -> Result<Self, Failure> {
        let temporary = || {
            let named = env("TMPDIR").filter(|dir| !dir.is_empty());
            named.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
        };
        let parent = parent.map_or_else(temporary, Path::to_owned);
        let path = parent.join(format!("amphora-{command}-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::failed(format!("making the scratch folder {}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "the scratch folder could not be removed: remove it");
        }
    }
}
