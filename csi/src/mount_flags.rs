//! Mount options of a StorageClass or PersistentVolume (CSI v1.12, MountVolume.mount_flags).
//!
//! - A comma between double quotes does not end an option: SELinux contexts have commas.
//! - Options may hold secrets, so an error names an unknown one by its position in the list, never by its text.

use tonic::Status;

use crate::bind::BindFlags;
use crate::size_limit::MAP_BYTES_MAX;

/// The longest SELinux context.
const CONTEXT_BYTES_MAX: usize = 1024;

/// Parsed mount options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountFlags {
    /// `uid=`: the owner shown for every file.
    pub(crate) uid: Option<u32>,
    /// `gid=`: the group shown for every file.
    pub(crate) gid: Option<u32>,
    /// `umask=`: permission bits to hide, as an octal number.
    pub(crate) umask: u32,
    /// `locks=`: whether file locks are left to the kernel of the node (`node`), or the store keeps them (`store`).
    pub(crate) node_locks: Option<bool>,
    /// `context=`: the SELinux context of every file, without quotes.
    pub(crate) context: Option<String>,
    /// `prefix=`: the folder of the bucket to mount.
    pub(crate) prefix: String,
    /// `ro`, `noexec`, `nosuid`, `nodev`, `noatime`.
    pub(crate) bind: BindFlags,
}

impl MountFlags {
    /// Parses options, each of which may hold several separated by commas.
    pub(crate) fn parse(given: &[String]) -> Result<Self, Status> {
        let mut flags = Self::default();
        let bytes: usize = given.iter().map(String::len).sum();
        if bytes > MAP_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "the mount options have {bytes} bytes; use at most {MAP_BYTES_MAX}"
            )));
        }
        for (place, option) in given.iter().flat_map(|list| options(list)).enumerate() {
            if !flags.take(option) {
                return Err(Status::invalid_argument(format!(
                    "mount option number {} is unknown or its value is not valid: use ro, rw, uid=NUMBER, gid=NUMBER, \
                     umask=OCTAL, prefix=FOLDER, context=SELINUX_CONTEXT, locks=store, locks=node, exec, noexec, suid, nosuid, dev, nodev, atime, relatime or noatime",
                    place + 1
                )));
            }
        }
        Ok(flags)
    }

    fn take(&mut self, option: &str) -> bool {
        match option.split_once('=').unwrap_or((option, "")) {
            ("uid", id) => id.parse().is_ok_and(|id| self.uid.replace(id).is_none()),
            ("gid", id) => id.parse().is_ok_and(|id| self.gid.replace(id).is_none()),
            ("umask", bits) => self.take_umask(bits),
            ("prefix", folder) => self.take_prefix(folder),
            ("context", context) => self.take_context(context),
            ("locks", keeper) => self.take_locks(keeper),
            (switch, "") => self.take_switch(switch),
            _ => false,
        }
    }

    fn take_umask(&mut self, bits: &str) -> bool {
        let umask = u32::from_str_radix(bits, 8).ok().filter(|umask| *umask <= 0o777 && !bits.starts_with('+'));
        self.umask = umask.unwrap_or(self.umask);
        umask.is_some()
    }

    fn take_locks(&mut self, keeper: &str) -> bool {
        self.node_locks = match keeper {
            "store" => Some(false),
            "node" => Some(true),
            _ => return false,
        };
        true
    }

    fn take_prefix(&mut self, folder: &str) -> bool {
        let folder = folder.trim_matches('/');
        let good = folder.split('/').all(objstore::name::mountable);
        if good {
            folder.clone_into(&mut self.prefix);
        }
        good
    }

    fn take_context(&mut self, given: &str) -> bool {
        let context = given.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(given);
        is_context(context) && self.context.replace(context.to_owned()).is_none()
    }

    fn take_switch(&mut self, switch: &str) -> bool {
        let (flag, on) = match switch {
            "ro" => (&mut self.bind.read_only, true),
            "rw" => (&mut self.bind.read_only, false),
            "noexec" => (&mut self.bind.no_exec, true),
            "exec" => (&mut self.bind.no_exec, false),
            "nosuid" => (&mut self.bind.no_suid, true),
            "suid" => (&mut self.bind.no_suid, false),
            "nodev" => (&mut self.bind.no_dev, true),
            "dev" => (&mut self.bind.no_dev, false),
            "noatime" => (&mut self.bind.no_atime, true),
            "atime" | "relatime" => (&mut self.bind.no_atime, false),
            _ => return false,
        };
        *flag = on;
        true
    }
}

/// The options of a list with commas between them.
fn options(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    list.split(move |character| {
        quoted ^= character == '"';
        character == ',' && !quoted
    })
}

/// Whether a text has the form of an SELinux context: a user, a role and a type, and perhaps a level. The kernel looks it up.
fn is_context(text: &str) -> bool {
    let known = |character: char| character.is_ascii_alphanumeric() || "_-.:,".contains(character);
    let fields = text.split(':').take(4).filter(|field| !field.is_empty()).count();
    text.len() <= CONTEXT_BYTES_MAX && text.chars().all(known) && fields >= 3 && !text.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<MountFlags, Status> {
        MountFlags::parse(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_one_by_one_or_in_a_list() {
        assert_eq!(parse(&[]).unwrap(), MountFlags::default());
        let flags = parse(&["ro,noexec", "uid=1000", "gid=0", "prefix=/a/b/", "umask=027", "locks=node"]).unwrap();
        assert_eq!(flags.node_locks, Some(true));
        assert_eq!(flags.umask, 0o027);
        assert_eq!((flags.uid, flags.gid, flags.prefix.as_str()), (Some(1000), Some(0), "a/b"));
        assert_eq!(flags.bind, BindFlags { read_only: true, no_exec: true, ..Default::default() });
        assert!(!parse(&["ro", "rw"]).unwrap().bind.read_only, "the last of two counts");
    }

    #[test]
    fn options_are_no_longer_than_their_field() {
        let list = |bytes: usize| format!("prefix={}", "a/".repeat(bytes))[..bytes].to_owned();
        assert!(parse(&[&list(2048), &"ro,".repeat(700)[..2048]]).is_ok_and(|flags| flags.bind.read_only));
        let refused = parse(&[&list(2049), &"ro,".repeat(700)[..2048]]).unwrap_err();
        assert!(refused.code() == tonic::Code::InvalidArgument && refused.message().contains("4097"), "{refused}");
    }

    #[test]
    fn a_selinux_context_may_be_quoted_and_has_commas() {
        const CONTEXT: &str = "system_u:object_r:container_file_t:s0:c1,c2";
        let quoted = format!("context=\"{CONTEXT}\"");
        assert_eq!(parse(&[&quoted]).unwrap().context.as_deref(), Some(CONTEXT), "as kubelet writes it");
        let list = format!("ro,{quoted},noexec");
        let flags = parse(&[&list]).unwrap();
        assert_eq!(flags.context.as_deref(), Some(CONTEXT));
        assert!(flags.bind.read_only && flags.bind.no_exec);
        assert_eq!(parse(&["context=u:r:t"]).unwrap().context.as_deref(), Some("u:r:t"));
        let long = format!("context=u:r:{}", "t".repeat(1024));
        for bad in [
            "context=",
            "context=\"\"",
            "context=t",
            "context=u:r:",
            "context=u::t",
            "context=\"u:r:t",
            "context=u:r:t\"",
            "context=u:r:t s0",
            "context=u:r:t,c2",
            &format!("{quoted},{quoted}"),
            &long,
        ] {
            assert_eq!(parse(&[bad]).unwrap_err().code(), tonic::Code::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn unknown_options_are_refused_without_their_text() {
        for option in [
            "password=hunter2",
            "ro=hunter2",
            "uid=hunter2",
            "uid=",
            "umask=8",
            "umask=1777",
            "prefix=",
            "locks=hunter2",
            "prefix=a/../hunter2",
            "",
        ] {
            let status = parse(&["ro", option]).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{option}");
            assert!(status.message().contains("number 2") && !status.message().contains("hunter2"), "{status}");
        }
    }
}
