//! The temporary folder of a test server: data, sockets and log, with a path short enough for a socket.
//!
//! - Mounts below it are detached before anything is deleted, so that cleaning up never deletes through a mount.
//! - A panicking test keeps the folder, so that data and log can be examined.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

/// A Unix socket path holds 107 bytes; this leaves room for `/run/csi-node.sock` and more below the folder.
const LONGEST_HOME: usize = 60;

/// A temporary folder; removed on drop unless the test is panicking.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// Creates a folder, below `TMPDIR` if that path is short enough.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn new() -> Result<Self, String> {
        let base = std::env::temp_dir();
        let base = if base.as_os_str().len() > LONGEST_HOME { PathBuf::from("/tmp") } else { base };
        let dir = tempfile::Builder::new().prefix("amphora-").tempdir_in(&base);
        let dir = dir.map_err(|error| format!("a temporary folder in {}: {error}", base.display()))?;
        std::fs::create_dir(dir.path().join("run")).map_err(|error| format!("the folder for sockets: {error}"))?;
        Ok(Self { dir })
    }

    /// The folder itself; tests may put mount points and files of their own in it.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The data folder of the store.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The file with the server's stdout and stderr.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The path of a socket.
    #[must_use]
    pub fn socket(&self, name: &str) -> PathBuf {
        self.path().join("run").join(format!("{name}.sock"))
    }
}

/// Writes a file that only its owner may read, as files with secrets require.
///
/// # Panics
/// If it cannot be written.
#[track_caller]
pub fn write_private(file: &Path, content: impl AsRef<[u8]>) {
    let written = std::fs::write(file, content)
        .and_then(|()| std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)));
    assert!(written.is_ok(), "{}: {written:?}", file.display());
}

impl Drop for Home {
    fn drop(&mut self) {
        for target in mounts_below(self.path()) {
            // A failure shows below. Forced, because processes in a mount without a server must not keep waiting.
            let _ = unmount(&target, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        if std::thread::panicking() || !mounts_below(self.path()).is_empty() {
            self.dir.disable_cleanup(true);
        }
    }
}

/// The mount points below `dir`, the innermost first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points: Vec<_> = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect();
    points.retain(|point| point.starts_with(dir));
    points.reverse();
    points
}

/// proc(5): space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &str) -> PathBuf {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(pairs.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to)))
}
