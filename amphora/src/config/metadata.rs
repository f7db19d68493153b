//! Metadata whose log is in PostgreSQL, from the flags `--metadata-url` and `--single-postgres`.
//!
//! - With it nothing in the data folder may be the only copy of anything: the master key and the authority of the volume
//!   listener have to be files elsewhere, and so has content.
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
    let Some(MetadataUrl(url)) = &flags.metadata_url else {
        let alone =
            [("--single-postgres", flags.single_postgres), ("--content-folder", flags.content_folder.is_some())];
        return match alone.into_iter().find(|(_, set)| *set) {
            None => Ok(None),
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} is set and --metadata-url is not: name the PostgreSQL of the metadata"
            ))),
        };
    };
    refuse_local(flags, data_dir)?;
    let mut log = Postgres::parse(url, env).map_err(|error| Failure::usage(format!("--metadata-url: {error}")))?;
    log.copies = if flags.single_postgres { Copies::Single } else { Copies::Replicated };
    Ok(Some(Metadata { log }))
}

/// Refuses settings with which the loss of the data folder would lose something.
fn refuse_local(flags: &Flags, data_dir: &Path) -> Result<(), Failure> {
    let inside = |file: &PathBuf| std::path::absolute(file).is_ok_and(|file| file.starts_with(data_dir));
    let why = if flags.content_folder.is_none() {
        "--metadata-url needs the content elsewhere too, and this version keeps content in the data folder alone: leave \
         --metadata-url out"
    } else if flags.master_key_file.as_ref().is_none_or(inside) {
        "--metadata-url needs --master-key-file with a file outside the data folder: the data folder is a cache, and \
         without the master key no secret in the store can be read"
    } else if flags.volume_listen.is_some() && flags.volume_cert.is_none() {
        "--volume-listen with --metadata-url needs --volume-cert and --volume-key: an authority in the data folder, \
         which is a cache, would be another one on each server"
    } else {
        return Ok(());
    };
    Err(Failure::usage(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = "--content-folder=/content";
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
            (&[CONTENT], "--metadata-url"),
            (&[url, KEY], "content elsewhere"),
            (&[url, CONTENT], "--master-key-file"),
            (&[url, CONTENT, "--master-key-file=/data/master.key"], "--master-key-file"),
            (&[url, CONTENT, KEY, "--volume-listen=127.0.0.1:0"], "--volume-cert"),
            (&["--metadata-url=postgres://u:hush-hush@h/d", CONTENT, KEY], "sslmode"),
            (&["--metadata-url=mysql://u:hush-hush@h/d", CONTENT, KEY], "postgres://"),
        ] {
            let refused = of(args, none).expect_err(word);
            assert!(refused.contains(word) && !refused.contains("hush"), "{refused}");
        }
        let certified = ["--volume-listen=127.0.0.1:0", "--volume-cert=/c", "--volume-key=/k"];
        for more in [&[][..], &certified] {
            let metadata = of(&[&[url, CONTENT, KEY], more].concat(), none).expect("good").expect("one");
            assert_eq!(metadata.log.copies, Copies::Replicated);
            assert!(!format!("{metadata:?}").contains("hush"));
        }
        let single = of(&[url, CONTENT, KEY, "--single-postgres"], none).expect("good").expect("one");
        assert_eq!(single.log.copies, Copies::Single);
    }
}
