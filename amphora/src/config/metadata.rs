//! Metadata whose log is in PostgreSQL, from the flags `--metadata-url` and `--single-postgres`.
//!
//! - With it nothing in the data folder may be the only copy of anything: content is in a bucket, and so is the master key
//!   unless a file elsewhere has it; the metadata keeps the authority of the volume listener.
//! - The URL may hold a password: no error, log line or debug output shows it.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use objstore::meta::log::postgres::{Copies, Settings as Postgres};

use super::Flags;
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

/// Metadata whose log is in PostgreSQL.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// How to reach it.
    pub log: Postgres,
}

/// The settings of the log, if there is one.
pub(super) fn metadata(flags: &Flags, data_dir: &Path, env: Env<'_>) -> Result<Option<Metadata>, Failure> {
    let Some(url) = &flags.metadata_url else {
        if flags.single_postgres {
            let why = "--single-postgres is set and --metadata-url is not: name the PostgreSQL of the metadata";
            return Err(Failure::usage(why));
        }
        return Ok(None);
    };
    refuse_local(flags, data_dir)?;
    Ok(Some(Metadata { log: url.to_own(flags.single_postgres, env)? }))
}

impl MetadataUrl {
    /// The settings to own the log.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL cannot be used.
    pub fn to_own(&self, single: bool, env: Env<'_>) -> Result<Postgres, Failure> {
        let parsed = Postgres::parse(&self.0, env);
        let mut log = parsed.map_err(|error| Failure::usage(format!("--metadata-url: {error}")))?;
        log.copies = if single { Copies::Single } else { Copies::Replicated };
        Ok(log)
    }

    /// The settings to read a log that exists: the one PostgreSQL that answers is enough for that.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL cannot be used.
    pub fn to_read(&self, env: Env<'_>) -> Result<Postgres, Failure> {
        let parsed = Postgres::parse(&self.0, env);
        let mut log = parsed.map_err(|error| Failure::usage(format!("--metadata-url: {error}")))?;
        log.copies = Copies::Single;
        Ok(log)
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
        ] {
            let refused = of(args, none).expect_err(word);
            assert!(refused.contains(word) && !refused.contains("hush"), "{refused}");
        }
        let certified = ["--volume-listen=127.0.0.1:0", "--volume-cert=/c", "--volume-key=/k"];
        for more in [&[][..], &certified, &certified[..1]] {
            let metadata = of(&[&[url, CONTENT, KEY], more].concat(), none).expect("good").expect("one");
            assert_eq!(metadata.log.copies, Copies::Replicated);
            assert!(!format!("{metadata:?}").contains("hush"));
        }
        let single = of(&[url, CONTENT, "--single-postgres"], none).expect("good").expect("one");
        assert_eq!(single.log.copies, Copies::Single);
    }
}
