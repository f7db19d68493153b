//! Mount options of `-o`, for `amphora mount` and for `mount -t amphora`.
//!
//! - Options that mount(8), fstab(5) and systemd.mount(5) use themselves, and those that hold for every mount anyway,
//!   are accepted and change nothing. An option that promises more than a mount does is refused with an alternative.

use std::path::PathBuf;

use crate::config::Size;
use crate::failure::Failure;

/// The `--help` text of `-o`.
pub(super) const HELP: &str = "ro; noexec; uid=N and gid=N (show all files as theirs); umask=OCTAL (hide permission bits); \
                               prefix=P (show only what is below); readahead=SIZE (up to 1Mi); cache=on|off (file content \
                               in the kernel's page cache); locks=store|node (file locks exclude programs on all mounts \
                               of the bucket, or on this mount alone); credentials=FILE; server=HOST:PORT; ca=FILE; cert=FILE and key=FILE; remount (with ro or rw: change an \
                               existing mount). Options of mount(8) and fstab without effect here are accepted";

const KNOWN: &str = "known are ro, rw, remount, noexec, exec, uid=N, gid=N, umask=OCTAL, prefix=P, readahead=SIZE, \
                     cache=on|off, locks=store|node, credentials=FILE, server=HOST:PORT, ca=FILE, cert=FILE, key=FILE, and those options of mount(8) that have no effect here";

/// Options without effect: mount(8)'s own, and those that always hold.
const HARMLESS: [&str; 29] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "_netdev",
    "nofail",
    "nosuid",
    "nodev",
    "async",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "nostrictatime",
    "silent",
    "loud",
    "allow_other",
    "default_permissions",
];

/// Prefixes of further options without effect: comments for other programs, and user mounts.
const HARMLESS_STARTS: [&str; 5] = ["x-", "X-", "comment=", "user=", "uhelper="];

/// Options that mounts do not support, and what to do instead.
const REFUSED: [(&str, &str); 5] = [
    ("suid", "a mount ignores setuid bits, since anyone who may write to the bucket could set one: leave it out"),
    ("dev", "a mount ignores device files, since anyone who may write to the bucket could create one: leave it out"),
    ("sync", "open a file with O_SYNC, or call fsync(2), which syncs all writes to the file"),
    ("dirsync", "fsync(2) of any file or directory makes all names durable"),
    ("strictatime", "reading does not update access times"),
];

/// Options that the kernel reports for every mount, and that mount(8) passes back for a remount.
const KERNELS: [&str; 4] = ["user_id=", "group_id=", "max_read=", "seclabel"];

/// The largest readahead: what one request carries.
const READAHEAD_BYTES_MAX: u64 = 1 << 20;

/// The parsed values of `-o`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub read_only: bool,
    /// Change an existing mount.
    pub remount: bool,
    pub no_exec: Option<bool>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub umask: Option<u32>,
    pub prefix: Option<String>,
    pub readahead_bytes: Option<u32>,
    pub uncached: Option<bool>,
    /// Leave file locks to the kernel of this machine.
    pub node_locks: Option<bool>,
    pub credentials: Option<PathBuf>,
    /// The volume listener of a store on another machine.
    pub server: Option<String>,
    /// The certificates of its authority.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to it.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
    /// An option that the kernel reports, which only a remount may name.
    kernels: Option<String>,
}

impl Options {
    /// Parses lists of options; the last of two contradicting ones counts.
    pub fn parse<'a>(lists: impl IntoIterator<Item = &'a String>) -> Result<Self, Failure> {
        let mut options = Self::default();
        for option in lists.into_iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
            if !options.take(option)? {
                return Err(unknown(option));
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Refuses combinations that are not allowed.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.kernels {
            Some(option) if !self.remount => Err(unknown(option)),
            _ => Ok(()),
        }
    }

    /// Parses one option. Returns whether it is an option of Amphora.
    pub fn take(&mut self, option: &str) -> Result<bool, Failure> {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("remount", None) => self.remount = true,
            ("noexec", None) => self.no_exec = Some(true),
            ("exec", None) => self.no_exec = Some(false),
            ("uid", Some(value)) => self.uid = Some(id(option, value)?),
            ("gid", Some(value)) => self.gid = Some(id(option, value)?),
            ("umask", Some(value)) => self.umask = Some(umask(option, value)?),
            ("prefix", Some(value)) => self.prefix = Some(value.to_owned()),
            ("readahead", Some(value)) => self.readahead_bytes = Some(readahead(option, value)?),
            ("cache", Some("on")) => self.uncached = Some(false),
            ("cache", Some("off")) => self.uncached = Some(true),
            ("locks", Some("store")) => self.node_locks = Some(false),
            ("locks", Some("node")) => self.node_locks = Some(true),
            ("server", Some(server)) => self.server = Some(server.to_owned()),
            ("ca", Some(file)) => self.ca = Some(file.into()),
            ("cert", Some(file)) => self.cert = Some(file.into()),
            ("key", Some(file)) => self.key = Some(file.into()),
            ("credentials", Some(file)) => self.credentials = Some(file.into()),
            _ => return self.take_foreign(option),
        }
        Ok(true)
    }

    /// Parses an option that is not Amphora's.
    fn take_foreign(&mut self, option: &str) -> Result<bool, Failure> {
        let begins = |starts: &[&str]| starts.iter().any(|start| option.starts_with(start));
        if let Some((_, instead)) = REFUSED.iter().find(|(name, _)| *name == option) {
            return Err(Failure::usage(format!("-o {option} is not offered: {instead}")));
        }
        if begins(&KERNELS) {
            self.kernels = Some(option.to_owned());
            return Ok(true);
        }
        Ok(HARMLESS.contains(&option) || begins(&HARMLESS_STARTS))
    }
}

fn unknown(option: &str) -> Failure {
    Failure::usage(format!("-o {option} is not a mount option: {KNOWN}"))
}

fn id(option: &str, value: &str) -> Result<u32, Failure> {
    // u32::MAX means "unchanged" for chown(2), so it is not a valid id.
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
            remount: false,
            no_exec: Some(true),
            uid: Some(1000),
            gid: Some(0),
            umask: Some(0o27),
            prefix: Some("a/b".into()),
            readahead_bytes: Some(128 << 10),
            uncached: Some(true),
            node_locks: Some(true),
            credentials: Some("/k".into()),
            server: Some("h:1".into()),
            ca: Some("/c".into()),
            cert: Some("/n".into()),
            key: Some("/s".into()),
            kernels: None,
        };
        let list = "ro,noexec,uid=1000,gid=0,umask=027,prefix=a/b,readahead=128Ki,cache=off,locks=node,credentials=/k,\
                    server=h:1,ca=/c,cert=/n,key=/s";
        assert_eq!(parse(list).expect("good"), expected);
        assert_eq!(parse("").expect("none"), Options::default());
        let last = Options { no_exec: Some(false), uncached: Some(false), ..Options::default() };
        assert_eq!(parse("ro,noexec,cache=off,rw,exec,cache=on").expect("the last counts"), last);
    }

    #[test]
    fn what_holds_in_any_case_is_taken_and_what_does_not_hold_is_refused() {
        let harmless = "allow_other,default_permissions,_netdev,nofail,noauto,users,user=a,x-systemd.automount,X-mount.mkdir,\
                        comment=c,defaults,relatime,noatime,nodev,nosuid,async";
        assert_eq!(parse(harmless).expect("harmless"), Options::default());
        for bad in ["suid", "dev", "nosuid,suid", "sync", "dirsync", "strictatime"] {
            let text = parse(bad).expect_err(bad).to_string();
            assert!(
                text.contains("is not offered") && text.contains(bad.rsplit(',').next().expect("a word")),
                "{text}"
            );
        }
    }

    #[test]
    fn unknown_options_are_refused_with_the_known() {
        let bad = [
            "nosymfollow",
            "max_read=1",
            "uid",
            "ro=1",
            "uid=x",
            "gid=4294967295",
            "umask=8",
            "umask=1777",
            "readahead=2Mi",
            "cache=1Gi",
            "locks=kernel",
        ];
        for bad in bad {
            let text = parse(bad).expect_err(bad).to_string();
            assert!(text.contains(bad) && (text.contains("prefix=P") || text.contains("use a")), "{bad}: {text}");
        }
    }
}
