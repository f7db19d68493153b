//! `mount -t amphora BUCKET DIR`: the helper `mount.amphora`, which mount(8), fstab(5) and systemd.mount(5) call.
//!
//! - The program acts as helper under the names `mount.amphora` and `mount.fuse.amphora` (links to it in `/sbin`). It
//!   accepts the arguments that mount(8) passes to helpers, and ends with the exit statuses of mount(8).
//! - `options` lists which options of mount(8) itself are accepted, and which are refused.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::Options;
use crate::cli::PACKAGED_SOCKET;
use crate::config::{Env, SocketPath};
use crate::credentials::Credentials;
use crate::failure::Failure;
use crate::mounts::SOURCE_PREFIX;

/// The names under which the program acts as a helper of mount(8).
const NAMES: [&str; 2] = ["mount.amphora", "mount.fuse.amphora"];

/// Mount a bucket: the helper of mount(8)
#[derive(Debug, Parser)]
#[command(name = "mount.amphora", version, disable_help_subcommand = true)]
struct Helper {
    /// The bucket or snapshot, with or without `amphora:` in front
    source: String,
    /// An existing directory
    dir: PathBuf,
    /// Options of `amphora mount`, admin-endpoint=unix://PATH, and options of mount(8)
    #[arg(short, value_name = "OPTION,…")]
    options: Vec<String>,
    /// Only check the arguments
    #[arg(short)]
    fake: bool,
    /// Ignore unknown options
    #[arg(short)]
    sloppy: bool,
    /// Ignored: there is no /etc/mtab to write
    #[arg(short)]
    no_mtab: bool,
    /// Print what is done
    #[arg(short)]
    verbose: bool,
    /// Ignored: the file system type
    #[arg(short, value_name = "TYPE")]
    type_: Option<String>,
}

/// The combined options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    options: Options,
    admin_endpoint: Option<SocketPath>,
}

impl Wanted {
    fn parse(lists: &[String], sloppy: bool) -> Result<Self, Failure> {
        let mut wanted = Self::default();
        for option in lists.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
            if let Some(endpoint) = option.strip_prefix("admin-endpoint=") {
                let parsed = endpoint.parse().map_err(|error| Failure::usage(format!("-o {option}: {error}")))?;
                wanted.admin_endpoint = Some(parsed);
            } else if !wanted.options.take(option)? && !sloppy {
                return Err(Failure::usage(format!("-o {option} is not an option of amphora or of mount(8)")));
            }
        }
        wanted.options.check()?;
        Ok(wanted)
    }
}

/// The socket of the machine's server: mount(8) is called without a prepared environment.
fn default_socket(env: Env<'_>) -> Result<SocketPath, Failure> {
    let Some(named) = env("AMPHORA_ADMIN_ENDPOINT").filter(|named| !named.is_empty()) else {
        return SocketPath::new(Path::new(PACKAGED_SOCKET)).map_err(Failure::usage);
    };
    let text = named.to_string_lossy().into_owned();
    text.parse().map_err(|error| Failure::usage(format!("AMPHORA_ADMIN_ENDPOINT \"{text}\": {error}")))
}

/// Whether the program was called as a helper of mount(8): under a helper's name, or by mount.fuse(8). That is the
/// helper for all types that begin with `fuse`; it runs the program named by the rest of the type, with the source as
/// its first argument. A machine with the package fuse does this at remounts.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    let name = args.first().and_then(|program| Path::new(program).file_name());
    let source = args.get(1).and_then(|source| source.to_str());
    name.is_some_and(|name| NAMES.iter().any(|known| name == *known))
        || source.is_some_and(|source| source.starts_with(SOURCE_PREFIX))
}

/// Mounts as mount(8) asks.
pub(crate) async fn run(args: Vec<OsString>, env: Env<'_>) -> Result<(), Failure> {
    let helper = Helper::try_parse_from(args).map_err(Failure::Clap)?;
    let wanted = Wanted::parse(&helper.options, helper.sloppy)?;
    let bucket = helper.source.strip_prefix(SOURCE_PREFIX).unwrap_or(&helper.source).to_owned();
    wanted.options.credentials.as_deref().map(Credentials::read).transpose().map_err(Failure::failed)?;
    if helper.fake {
        return Ok(());
    }
    let socket = wanted.admin_endpoint.map_or_else(|| default_socket(env), Ok)?;
    super::mount(&socket, bucket.clone(), &helper.dir, wanted.options, false).await?;
    if helper.verbose {
        let line = format!("mount.amphora: {bucket} mounted on {}.\n", helper.dir.display());
        let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(list: &str) -> Result<Wanted, Failure> {
        Wanted::parse(&[list.to_owned()], false)
    }

    #[test]
    fn the_arguments_are_those_that_mount_hands_over() {
        let args = ["mount.amphora", "amphora:photos", "/mnt", "-v", "-n", "-t", "amphora", "-o", "rw,uid=5"];
        let helper = Helper::try_parse_from(args).expect("as mount(8) calls it");
        assert_eq!((helper.source.as_str(), helper.dir.as_path()), ("amphora:photos", Path::new("/mnt")));
        assert!(helper.verbose && helper.no_mtab && !helper.fake);
    }

    #[test]
    fn options_of_mount_are_not_ours() {
        let text = "defaults,noauto,nofail,_netdev,noatime,x-systemd.requires=amphora.service,comment=c,uid=5,ro";
        let wanted = wanted(text).expect("known");
        assert!(wanted.options.read_only && wanted.options.uid == Some(5) && wanted.options.no_exec.is_none());
        let users = "rw,noexec,nosuid,nodev,user=alice,allow_other,default_permissions";
        assert_eq!(Wanted::parse(&[users.to_owned()], false).expect("as users mount").options.no_exec, Some(true));
        for bad in ["suid", "dev", "sync", "dirsync", "strictatime", "uid=x", "admin-endpoint=tcp://h", "max_read=1"] {
            assert!(Wanted::parse(&[bad.to_owned()], false).is_err(), "{bad}");
        }
        assert!(Wanted::parse(&["nosymfollow".to_owned()], true).is_ok());
    }

    #[test]
    fn a_remount_takes_the_options_that_mount_reads_back() {
        let text =
            "rw,nosuid,nodev,noatime,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576,remount,ro";
        let wanted = wanted(text).expect("as mount(8) hands them over");
        assert!(wanted.options.remount && wanted.options.read_only && wanted.options.uid.is_none());
    }

    #[test]
    fn the_program_knows_its_names() {
        let is_called = |args: &[&str]| is_called(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(is_called(&["/sbin/mount.amphora", "b"]) && is_called(&["mount.fuse.amphora"]));
        assert!(is_called(&["amphora", "amphora:photos", "/mnt", "-o", "remount,ro"]), "by mount.fuse(8)");
        assert!(!is_called(&["/usr/bin/amphora", "mount", "amphora:photos"]) && !is_called(&[]));
    }
}
