//! Mounts of this process, from the kernel's table `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
//!
//! - Reading the table never touches the mounted file systems, so a dead or slow one cannot block the reader.
//! - Incomplete lines are skipped.

use std::ffi::OsString;
use std::io::Result;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountEntry {
    /// The path it is mounted at, without symbolic links.
    pub path: PathBuf,
    /// The major and minor number of its file system, for example `8:1`: equal for a mount and its bind mounts, and
    /// different for any two file systems.
    pub device: String,
    /// The path within its file system that is shown, for example `/` or, for a bind mount of a device's node, `/loop0`.
    pub root: String,
    /// The type of its file system, for example `ext4` or `fuse.amphora`.
    pub fs_type: String,
    /// The source of the mount, as the file system names it.
    pub source: String,
    /// The options of this mount, for example `rw` and `nosuid`.
    pub options: Vec<String>,
    /// The options of the file system, common to all its mounts.
    pub fs_options: Vec<String>,
}

/// All mounts of this process's mount namespace, in the kernel's order: a later one covers an earlier one at its path.
///
/// # Errors
/// The system's, if the table cannot be read.
pub fn mounts() -> Result<Vec<MountEntry>> {
    Ok(parse_table(&std::fs::read("/proc/self/mountinfo")?))
}

/// The topmost mount at `path`, whose parent must not contain symbolic links.
///
/// # Errors
/// Those of [`mounts`].
pub fn topmost_mount(path: &Path) -> Result<Option<MountEntry>> {
    Ok(topmost(mounts()?, path))
}

fn topmost(table: Vec<MountEntry>, path: &Path) -> Option<MountEntry> {
    table.into_iter().rfind(|mount| mount.path == path)
}

fn parse_table(table: &[u8]) -> Vec<MountEntry> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = text(fields.nth(2)?);
    let root = text(fields.next()?);
    let path = OsString::from_vec(unescape(fields.next()?)).into();
    let options = options(fields.next()?);
    // The optional fields between the options and the type end with a single hyphen.
    let mut file_system = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = text(file_system.next()?);
    let source = text(file_system.next()?);
    let fs_options = self::options(file_system.next().unwrap_or_default());
    Some(MountEntry { path, device, root, fs_type, source, options, fs_options })
}

fn options(field: &[u8]) -> Vec<String> {
    text(field).split(',').map(str::to_owned).collect()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Decodes a field: space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match octal(tail).filter(|_| byte == b'\\') {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..b'8').contains(digit)))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
36 28 0:60 / /mnt/a\\040b\\134 rw,relatime shared:1 master:2 - fuse.amphora bucket\\040one rw,user_id=0\n\
37 36 0:61 /sub /mnt/a\\040b\\134 ro,nodev - fuse.amphora two rw\n\
38 28 8:1 / /mnt rw - ext4 /dev/sda1 ro,errors=remount-ro\n";

    #[test]
    fn the_topmost_mount_is_found_by_its_path() {
        let found = |path: &str| topmost(parse_table(TABLE), Path::new(path));
        let covering = found("/mnt/a b\\").unwrap();
        assert_eq!((covering.device.as_str(), covering.fs_type.as_str()), ("0:61", "fuse.amphora"));
        assert_eq!(covering.root, "/sub");
        assert_eq!((covering.source.as_str(), covering.options), ("two", vec!["ro".to_owned(), "nodev".to_owned()]));
        assert_eq!(found("/mnt").unwrap().fs_options, ["ro", "errors=remount-ro"]);
        assert_eq!(found("/mnt/a"), None);
    }

    #[test]
    fn mounts_stand_in_the_kernels_order() {
        let devices: Vec<_> = parse_table(TABLE).into_iter().map(|mount| mount.device).collect();
        assert_eq!(devices, ["0:21", "0:60", "0:61", "8:1"]);
        assert_eq!(parse_table(TABLE)[1].source, "bucket one");
    }

    #[test]
    fn lines_that_are_cut_short_are_passed_over() {
        for line in ["", "36", "36 28 0:60 / /x", "36 28 0:60 / /x rw - fuse"] {
            assert_eq!(parse_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_running_system_has_a_root() {
        assert!(topmost_mount(Path::new("/")).unwrap().is_some());
    }
}
