//! Files that the administrator names, read again for each use: Kubernetes replaces them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Reads a file up to a limit, off the async workers.
pub(crate) async fn read_file(path: PathBuf, limit: u64) -> Result<Vec<u8>, String> {
    let read = tokio::task::spawn_blocking(move || read_bounded(&path, limit)).await;
    read.map_err(|error| error.to_string())?
}

fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("{shown} has more than {limit} bytes"));
    }
    Ok(bytes)
}
