//! `amphora mount` and `amphora umount`

use std::path::{Path, PathBuf};

use clap::Args;
use proto::amphora::admin::v1 as admin;

use super::client::{Client, answer};
use crate::credentials::Credentials;
use crate::failure::Failure;

/// What to mount where.
#[derive(Debug, Args)]
pub struct Mount {
    /// The bucket, or a snapshot (read-only)
    bucket: String,
    /// An existing directory
    dir: PathBuf,
    /// ro, uid=N and gid=N (show all files as theirs), prefix=P (show only what is below)
    #[arg(short, value_name = "OPTION,…")]
    options: Vec<String>,
    /// Mount with no more than the grant of this key (AWS shared-credentials file, profile [default])
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
}

/// What to unmount.
#[derive(Debug, Args)]
pub struct Umount {
    /// The directory
    dir: PathBuf,
}

/// The values of `-o`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    read_only: bool,
    uid: Option<u32>,
    gid: Option<u32>,
    prefix: String,
}

impl Options {
    fn parse<'a>(lists: impl IntoIterator<Item = &'a String>) -> Result<Self, Failure> {
        let mut options = Self::default();
        for option in lists.into_iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("ro", None) => options.read_only = true,
                ("rw", None) => options.read_only = false,
                ("uid", Some(value)) => options.uid = Some(number(option, value)?),
                ("gid", Some(value)) => options.gid = Some(number(option, value)?),
                ("prefix", Some(value)) => value.clone_into(&mut options.prefix),
                _ => {
                    let known = "known are ro, rw, uid=N, gid=N and prefix=P";
                    return Err(Failure::usage(format!("-o {option} is not a mount option: {known}")));
                }
            }
        }
        Ok(options)
    }
}

fn number(option: &str, value: &str) -> Result<u32, Failure> {
    // u32::MAX means "leave as it is" to chown(2), so it is nobody's id.
    let id = value.parse().ok().filter(|id| *id != u32::MAX);
    id.ok_or_else(|| Failure::usage(format!("-o {option}: use a number from 0 to {}", u32::MAX - 1)))
}

impl Mount {
    pub(super) async fn run(self, client: &mut Client) -> Result<(), Failure> {
        let options = Options::parse(&self.options)?;
        let key = self.credentials.as_deref().map(Credentials::read).transpose().map_err(Failure::failed)?;
        let (access_key_id, secret_access_key) =
            key.map(|key| (key.access_key_id, key.secret.reveal().to_owned())).unwrap_or_default();
        let request = admin::MountRequest {
            bucket: self.bucket,
            dir: absolute(&self.dir)?,
            read_only: options.read_only,
            uid: options.uid,
            gid: options.gid,
            prefix: options.prefix,
            access_key_id,
            secret_access_key,
            snapshot: None,
        };
        answer(client.mount(request).await).map(drop)
    }
}

impl Umount {
    pub(super) async fn run(self, client: &mut Client) -> Result<(), Failure> {
        let dir = absolute(&self.dir)?;
        answer(client.unmount(admin::UnmountRequest { dir }).await).map(drop)
    }
}

/// The path as the server sees it, whose working directory is another.
fn absolute(dir: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(dir);
    let path = path.map_err(|error| Failure::failed(format!("the directory {}: {error}", dir.display())))?;
    path.into_os_string().into_string().map_err(|_| Failure::usage("the directory's path is not UTF-8: rename it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Options, Failure> {
        Options::parse([&list.to_owned()])
    }

    #[test]
    fn options_are_those_of_mount() {
        let expected = Options { read_only: true, uid: Some(1000), gid: Some(0), prefix: "a/b".into() };
        assert_eq!(parse("ro,uid=1000,gid=0,prefix=a/b").expect("good"), expected);
        assert_eq!(parse("").expect("none"), Options::default());
    }

    #[test]
    fn unknown_options_are_refused_with_the_known() {
        for bad in ["allow_other", "uid", "ro=1", "uid=x", "gid=4294967295"] {
            let text = parse(bad).expect_err(bad).to_string();
            assert!(text.contains(bad) && (text.contains("prefix=P") || text.contains("number")), "{bad}: {text}");
        }
    }
}
