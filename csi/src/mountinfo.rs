//! What the kernel says is mounted where (proc_pid_mountinfo(5)).
//!
//! - Reading it never touches the mounted file systems, so a dead or slow one cannot block it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Major and minor number of its file system: equal for a mount and its binds, and for no two file systems.
    pub device: String,
    /// Its type, such as `fuse.amphora`.
    pub fs_type: String,
    /// What was mounted, as the file system named it.
    pub source: String,
    /// The options of this mount, such as `rw` and `nosuid`.
    pub options: Vec<String>,
}

/// The uppermost mount at `path`, whose parent folder has to be resolved.
pub fn mounted(path: &Path) -> io::Result<Option<Mounted>> {
    let list = std::fs::read("/proc/self/mountinfo")?;
    Ok(uppermost(&list, path))
}

/// The last line counts: later mounts cover earlier ones.
fn uppermost(list: &[u8], path: &Path) -> Option<Mounted> {
    let lines = list.split(|byte| *byte == b'\n');
    lines.filter_map(parse).filter(|(at, _)| at == path).map(|(_, mount)| mount).next_back()
}

fn parse(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = text(fields.nth(2)?);
    let at = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let options = text(fields.next()?).split(',').map(str::to_owned).collect();
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = text(behind.next()?);
    let source = text(behind.next()?);
    Some((at, Mounted { device, fs_type, source, options }))
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match (byte, octal(tail)) {
            (b'\\', Some(escaped)) => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
36 28 0:60 / /mnt/a\\040b\\134 rw,relatime shared:1 master:2 - fuse.amphora bucket\\040one rw\n\
37 36 0:61 /sub /mnt/a\\040b\\134 ro,nodev - fuse.amphora two rw\n\
38 28 8:1 / /mnt rw - ext4 /dev/sda1 rw\n";

    #[test]
    fn the_uppermost_mount_is_found_by_its_path() {
        let found = uppermost(LIST.as_bytes(), Path::new("/mnt/a b\\")).unwrap();
        assert_eq!(
            (found.device.as_str(), found.fs_type.as_str(), found.source.as_str()),
            ("0:61", "fuse.amphora", "two")
        );
        assert_eq!(found.options, ["ro", "nodev"]);
        let found = uppermost(LIST.as_bytes(), Path::new("/sys")).unwrap();
        assert_eq!((found.device.as_str(), found.fs_type.as_str()), ("0:21", "sysfs"));
        assert_eq!(uppermost(LIST.as_bytes(), Path::new("/mnt/a")), None);
    }

    #[test]
    fn lines_cut_short_are_passed_over() {
        for line in ["", "36", "36 28 0:60 / /x", "36 28 0:60 / /x rw - fuse"] {
            assert_eq!(uppermost(line.as_bytes(), Path::new("/x")), None, "{line}");
        }
    }

    #[test]
    fn the_running_system_has_a_root() {
        assert!(mounted(Path::new("/")).unwrap().is_some());
    }
}
