//! Metadata whose log is in PostgreSQL or in an S3 store, from the flags `--metadata-url`, `--metadata-endpoint` and
//! `--single-postgres`.
//!
//! - With it nothing in the data folder may be the only copy of anything: content is in a bucket, and so is the master key
//!   unless a file elsewhere has it; the metadata keeps the authority of the volume listener.
//! - The URL may hold a password: no error, log line or debug output shows it.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use objstore::bucket;
use objstore::meta::log::postgres::{Copies, Postgres, Settings as PostgresSettings};
use objstore::meta::log::s3::{S3, Settings as S3Settings};
use objstore::meta::log::{self, Log};

use super::{Flags, content};
use crate::failure::Failure;
use crate::process::Env;

/// A URL that may hold a password.
#[derive(Clone)]
pub struct MetadataUrl(String);

impl FromStr for MetadataUrl {
    type Err = Infallible;

    /// Takes any text: an error of the parser would show it.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for MetadataUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetadataUrl(..)")
    }
}

/// Metadata whose log is on other machines.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// How to reach it.
    pub log: LogPlace,
}

/// Where a log is.
#[derive(Clone, Debug)]
pub enum LogPlace {
    /// In PostgreSQL.
    Postgres(Box<PostgresSettings>),
    /// In an S3 store.
    S3(Box<S3Settings>),
}

impl LogPlace {
    /// Makes the client, and the log if there is none.
    ///
    /// # Errors
    /// Those of the engines.
    pub fn open(&self) -> log::Result<Arc<dyn Log>> {
        Ok(match self {
            Self::Postgres(settings) => Arc::new(Postgres::open((**settings).clone())?),
            Self::S3(settings) => Arc::new(S3::open(settings)?),
        })
    }

    /// Makes the client of a log that exists, for reading alone.
    ///
    /// # Errors
    /// Those of the engines.
    pub fn open_existing(&self) -> log::Result<Arc<dyn Log>> {
        Ok(match self {
            Self::Postgres(settings) => Arc::new(Postgres::open_existing((**settings).clone())?),
            Self::S3(settings) => Arc::new(S3::open_existing(settings)?),
        })
    }

    /// What the log is in, as messages call it.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "PostgreSQL",
            Self::S3(_) => "the S3 store of the metadata",
        }
    }
}

/// The settings of the log, if there is one.
pub(super) fn metadata(flags: &Flags, data_dir: &Path, env: Env<'_>) -> Result<Option<Metadata>, Failure> {
    let Some(url) = &flags.metadata_url else {
        let why = if flags.single_postgres {
            "--single-postgres is set and --metadata-url is not: name the PostgreSQL of the metadata"
        } else if flags.metadata_endpoint.is_some() {
            "--metadata-endpoint is set and --metadata-url is not: name the bucket of the metadata, as s3://BUCKET/PREFIX"
        } else {
            return Ok(None);
        };
        return Err(Failure::usage(why));
    };
    refuse_local(flags, data_dir)?;
    let Some(content) = content::content(flags)? else { return Ok(None) };
    let log = url.to_own(flags.single_postgres, flags.metadata_endpoint.as_deref(), &content.bucket, env)?;
    Ok(Some(Metadata { log }))
}

impl MetadataUrl {
    /// The log to own. One in an S3 store is reached like `content`, unless it has an endpoint of its own.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL cannot be used.
    pub fn to_own(
        &self,
        single: bool,
        endpoint: Option<&str>,
        content: &bucket::Options,
        env: Env<'_>,
    ) -> Result<LogPlace, Failure> {
        let mut log = self.to_read(endpoint, content, env)?;
        match &mut log {
            LogPlace::Postgres(settings) => {
                settings.copies = if single { Copies::Single } else { Copies::Replicated };
            }
            LogPlace::S3(_) if single => {
                let why =
                    "--single-postgres is about PostgreSQL, and --metadata-url names an S3 store: leave the flag out";
                return Err(Failure::usage(why));
            }
            LogPlace::S3(_) => {}
        }
        Ok(log)
    }

    /// A log that exists, to read it: the one PostgreSQL that answers is enough for that.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL cannot be used.
    pub fn to_read(
        &self,
        endpoint: Option<&str>,
        content: &bucket::Options,
        env: Env<'_>,
    ) -> Result<LogPlace, Failure> {
        if self.0.starts_with("s3:") {
            return self.in_s3(endpoint, content).map(|settings| LogPlace::S3(Box::new(settings)));
        }
        if endpoint.is_some() {
            let why = "--metadata-endpoint is the address of an S3 store, and --metadata-url does not begin with s3://";
            return Err(Failure::usage(why));
        }
        if !["postgres://", "postgresql://"].iter().any(|scheme| self.0.starts_with(scheme)) {
            return Err(Failure::usage("--metadata-url: it begins with neither postgres:// nor s3://"));
        }
        let parsed = PostgresSettings::parse(&self.0, env);
        let mut settings = parsed.map_err(|error| Failure::usage(format!("--metadata-url: {error}")))?;
        settings.copies = Copies::Single;
        Ok(LogPlace::Postgres(Box::new(settings)))
    }

    fn in_s3(&self, endpoint: Option<&str>, content: &bucket::Options) -> Result<S3Settings, Failure> {
        // Without the URL, which may hold a secret.
        let location = content::location(&self.0).map_err(|why| Failure::usage(format!("--metadata-url: {why}")))?;
        let endpoint = endpoint.map(|url| url.trim_end_matches('/').to_owned());
        let same_store = endpoint.is_none() || endpoint == content.endpoint;
        if same_store && location.overlaps(&content.location) {
            let why = format!(
                "--metadata-url and --content-url overlap: {location} and {}; give the log a prefix beside that of the content",
                content.location
            );
            return Err(Failure::usage(why));
        }
        let endpoint = endpoint.or_else(|| content.endpoint.clone());
        Ok(S3Settings { bucket: bucket::Options { location, endpoint, ..content.clone() } })
    }
}

/// Refuses settings with which the loss of the data folder would lose something.
fn refuse_local(flags: &Flags, data_dir: &Path) -> Result<(), Failure> {
    let inside = |file: &PathBuf| std::path::absolute(file).is_ok_and(|file| file.starts_with(data_dir));
    let why = if flags.content_url.is_none() {
        "--metadata-url is set and --content-url is not: the data folder becomes a cache, so name the bucket that keeps the \
         content, as s3://BUCKET/PREFIX"
    } else if flags.master_key_file.as_ref().is_some_and(inside) {
        "--master-key-file names a file in the data folder, which is a cache with --metadata-url: keep the key elsewhere, \
         or leave the flag out, and the key is kept in the bucket of the content"
    } else {
        return Ok(());
    };
    Err(Failure::usage(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = "--content-url=s3://content/one";
    const KEY: &str = "--master-key-file=/key";

    fn of(args: &[&str], env: Env<'_>) -> Result<Option<Metadata>, String> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Flags::augment_args(clap::Command::new("serve").no_binary_name(true));
        let flags = Flags::from_arg_matches(&command.get_matches_from(args)).expect("flags");
        assert!(!format!("{flags:?}").contains("hush"));
        metadata(&flags, Path::new("/data"), env).map_err(|failure| failure.to_string())
    }

    #[test]
    fn what_the_data_folder_would_lose_is_refused() {
        let url = "--metadata-url=postgres://u:hush-hush@h/d?sslmode=disable";
        let none: Env<'_> = &|_| None;
        assert!(of(&[], none).expect("good").is_none());
        for (args, word) in [
            (&["--single-postgres"][..], "--metadata-url"),
            (&[url, KEY], "--content-url"),
            (&[url, CONTENT, "--master-key-file=/data/master.key"], "--master-key-file"),
            (&["--metadata-url=postgres://u:hush-hush@h/d", CONTENT, KEY], "sslmode"),
            (&["--metadata-url=mysql://u:hush-hush@h/d", CONTENT, KEY], "postgres://"),
            (&["--metadata-url=s3://u:hush-hush@content/log", CONTENT], "name of a bucket"),
            (&["--metadata-url=s3://content/log?hush-hush", CONTENT], "prefix"),
            (&["--metadata-url=s3://content/one", CONTENT], "overlap"),
            (&["--metadata-url=s3://content/one/log", CONTENT], "overlap"),
            (&["--metadata-url=s3://content", CONTENT], "overlap"),
            (&["--metadata-url=s3://content/log", CONTENT, "--single-postgres"], "--single-postgres"),
            (&["--metadata-url=s3://content/log"], "--content-url"),
            (&["--metadata-endpoint=http://h:9"], "--metadata-url"),
            (&[url, CONTENT, "--metadata-endpoint=http://h:9"], "--metadata-endpoint"),
        ] {
            let refused = of(args, none).expect_err(word);
            assert!(refused.contains(word) && !refused.contains("hush"), "{refused}");
        }
        let certified = ["--volume-listen=127.0.0.1:0", "--volume-cert=/c", "--volume-key=/k"];
        for more in [&[][..], &certified, &certified[..1]] {
            let metadata = of(&[&[url, CONTENT, KEY], more].concat(), none).expect("good").expect("one");
            assert_eq!(copies(&metadata), Copies::Replicated);
            assert!(!format!("{metadata:?}").contains("hush"));
        }
        let single = of(&[url, CONTENT, "--single-postgres"], none).expect("good").expect("one");
        assert_eq!(copies(&single), Copies::Single);
    }

    fn copies(metadata: &Metadata) -> Copies {
        match &metadata.log {
            LogPlace::Postgres(settings) => settings.copies,
            LogPlace::S3(_) => panic!("it is in PostgreSQL"),
        }
    }

    #[test]
    fn a_log_in_s3_is_reached_like_the_content_unless_it_has_an_endpoint() {
        let url = "--metadata-url=s3://content/log";
        let bucket = |more: &[&str]| match of(&[&[url, CONTENT], more].concat(), &|_| None).expect("good") {
            Some(Metadata { log: LogPlace::S3(settings) }) => settings.bucket,
            other => panic!("{other:?}"),
        };
        let same = bucket(&["--content-endpoint=http://h:9/", "--content-region=r", "--content-path-style=false"]);
        assert_eq!(
            (same.location.to_string(), same.endpoint.as_deref()),
            ("s3://content/log".into(), Some("http://h:9"))
        );
        assert_eq!((same.region.as_deref(), same.addressing), (Some("r"), bucket::Addressing::Host));
        let other = bucket(&["--content-endpoint=http://h:9", "--metadata-endpoint=http://log:9/"]);
        assert_eq!(other.endpoint.as_deref(), Some("http://log:9"));
        assert_eq!(bucket(&[]).endpoint, None);
    }
}
