//! The path of a Unix socket, written as `unix:///run/amphora/csi.sock`.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The capacity of `sockaddr_un.sun_path` without the final NUL (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// An absolute path short enough for a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SocketPath(PathBuf);

impl SocketPath {
    /// Makes a path absolute and checks its length.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(path: &Path) -> Result<Self, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let bytes = path.as_os_str().as_bytes().len();
        if bytes > PATH_BYTES_MAX {
            let shown = path.display();
            return Err(format!(
                "the path {shown} has {bytes} bytes, and a Unix socket path holds {PATH_BYTES_MAX}: use a shorter one"
            ));
        }
        Ok(Self(path))
    }

    /// Creates the folder of the socket, accessible by its owner only.
    ///
    /// # Errors
    /// The folder, and the system's error.
    pub fn make_folder(&self) -> Result<(), String> {
        let Some(folder) = self.0.parent() else { return Ok(()) };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("its folder {} cannot be made ({error})", folder.display()))
    }

    /// The default socket of the fd holder for the server with this admin socket.
    #[must_use]
    pub fn holder_beside(&self) -> Self {
        Self(self.0.with_file_name("holder.sock"))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for SocketPath {
    type Err = String;

    /// Parses `unix://PATH`, `unix:PATH` (gRPC naming) or a path that begins with `/`.
    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:"));
        match path.or_else(|| text.starts_with('/').then_some(text)) {
            Some(path) if !path.is_empty() => Self::new(Path::new(path)),
            _ => Err("use unix:// and the path of a socket, as in unix:///run/amphora/csi.sock".into()),
        }
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_uris_and_absolute_paths() {
        for text in ["unix:///run/a.sock", "unix:/run/a.sock", "/run/a.sock"] {
            assert_eq!(text.parse::<SocketPath>().expect(text).to_string(), "unix:///run/a.sock");
        }
        let relative: SocketPath = "unix://a.sock".parse().expect("relative");
        assert!(relative.path().is_absolute());
    }

    #[test]
    fn other_schemes_are_refused() {
        for text in ["", "tcp://127.0.0.1:9000", "unix://", "a.sock"] {
            assert!(text.parse::<SocketPath>().expect_err(text).contains("unix://"), "{text}");
        }
    }

    #[test]
    fn a_path_of_107_bytes_is_the_longest() {
        let path = |bytes: usize| format!("unix:///{}", "s".repeat(bytes - 1));
        assert!(path(107).parse::<SocketPath>().is_ok());
        let error = path(108).parse::<SocketPath>().expect_err("too long");
        assert!(error.contains("108 bytes") && error.contains("107"), "{error}");
    }
}
