//! The options of a mount, as `-o` lists them.
//!
//! - What mount(8) and fstab(5) know but do not leave to the kernel means nothing here and is taken from
//!   `mount -t amphora` alone: somebody who types `amphora mount` is told of a slip.

use std::path::PathBuf;

use crate::config::Size;
use crate::failure::Failure;

/// What `--help` says of `-o`.
pub(super) const HELP: &str = "ro; noexec; uid=N and gid=N (show all files as theirs); umask=OCTAL (hide permission bits); \
                               prefix=P (show only what is below); readahead=SIZE (up to 1Mi); cache=on|off (file content \
                               in the kernel's page cache); credentials=FILE";

const KNOWN: &str = "known are ro, rw, noexec, exec, uid=N, gid=N, umask=OCTAL, prefix=P, readahead=SIZE, \
                     cache=on|off and credentials=FILE";

/// The most the kernel reads ahead: what one request carries.
const READAHEAD_BYTES_MAX: u64 = 1 << 20;

/// The values of `-o`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub read_only: bool,
    pub no_exec: bool,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub umask: u32,
    pub prefix: String,
    pub readahead_bytes: Option<u32>,
    pub uncached: bool,
    pub credentials: Option<PathBuf>,
}

impl Options {
    /// Reads lists of options; the last of two that contradict counts.
    pub fn parse<'a>(lists: impl IntoIterator<Item = &'a String>) -> Result<Self, Failure> {
        let mut options = Self::default();
        for option in lists.into_iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
            if !options.take(option)? {
                return Err(Failure::usage(format!("-o {option} is not a mount option: {KNOWN}")));
            }
        }
        Ok(options)
    }

    /// Takes one option; whether there is such a one.
    pub fn take(&mut self, option: &str) -> Result<bool, Failure> {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("noexec", None) => self.no_exec = true,
            ("exec", None) => self.no_exec = false,
            ("uid", Some(value)) => self.uid = Some(id(option, value)?),
            ("gid", Some(value)) => self.gid = Some(id(option, value)?),
            ("umask", Some(value)) => self.umask = umask(option, value)?,
            ("prefix", Some(value)) => value.clone_into(&mut self.prefix),
            ("readahead", Some(value)) => self.readahead_bytes = Some(readahead(option, value)?),
            ("cache", Some("on")) => self.uncached = false,
            ("cache", Some("off")) => self.uncached = true,
            ("credentials", Some(file)) => self.credentials = Some(file.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn id(option: &str, value: &str) -> Result<u32, Failure> {
    // u32::MAX means "leave as it is" to chown(2), so it is nobody's id.
    let id = value.parse().ok().filter(|id| *id != u32::MAX);
    id.ok_or_else(|| Failure::usage(format!("-o {option}: use a number from 0 to {}", u32::MAX - 1)))
}

fn umask(option: &str, value: &str) -> Result<u32, Failure> {
    let umask = u32::from_str_radix(value, 8).ok().filter(|umask| *umask <= 0o777 && !value.starts_with('+'));
    umask.ok_or_else(|| Failure::usage(format!("-o {option}: use an octal number from 0 to 777")))
}

fn readahead(option: &str, value: &str) -> Result<u32, Failure> {
    let size = value.parse::<Size>().ok().filter(|size| size.bytes <= READAHEAD_BYTES_MAX);
    let bytes = size.and_then(|size| u32::try_from(size.bytes).ok());
    bytes.ok_or_else(|| Failure::usage(format!("-o {option}: use a size from 0 to 1Mi, such as 128Ki")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Options, Failure> {
        Options::parse([&list.to_owned()])
    }

    #[test]
    fn options_are_those_of_mount() {
        let expected = Options {
            read_only: true,
            no_exec: true,
            uid: Some(1000),
            gid: Some(0),
            umask: 0o27,
            prefix: "a/b".into(),
            readahead_bytes: Some(128 << 10),
            uncached: true,
            credentials: Some("/k".into()),
        };
        let list = "ro,noexec,uid=1000,gid=0,umask=027,prefix=a/b,readahead=128Ki,cache=off,credentials=/k";
        assert_eq!(parse(list).expect("good"), expected);
        assert_eq!(parse("").expect("none"), Options::default());
        assert_eq!(parse("ro,noexec,cache=off,rw,exec,cache=on").expect("the last counts"), Options::default());
    }

    #[test]
    fn unknown_options_are_refused_with_the_known() {
        let bad = [
            "allow_other",
            "uid",
            "ro=1",
            "uid=x",
            "gid=4294967295",
            "umask=8",
            "umask=1777",
            "readahead=2Mi",
            "cache=1Gi",
        ];
        for bad in bad {
            let text = parse(bad).expect_err(bad).to_string();
            assert!(text.contains(bad) && (text.contains("prefix=P") || text.contains("use a")), "{bad}: {text}");
        }
    }
}
