//! Making a copy's folder from the newest checkpoint.

use std::path::Path;

use objstore_base::error::{Error, Result};
use objstore_log::LogId;
use xxhash_rust::xxh3::xxh3_128;

use super::manifest::{BYTES_MAX, Content, Manifest, NAME, Table};
use crate::vault::Vault;

/// Fills the empty folder `target`; returns the last batch, or `None` if there is no checkpoint. After an error the folder
/// holds part of it, and has to be emptied again.
///
/// # Errors
/// - [`Error::Unusable`]: the checkpoints are those of another log.
/// - [`Error::Corrupt`]: a file differs from what was written.
pub(crate) fn restore(vault: &dyn Vault, id: LogId, target: &Path) -> Result<Option<u64>> {
    let Some((bytes, _)) = vault.get(NAME, BYTES_MAX)? else { return Ok(None) };
    let manifest = Manifest::decode(&bytes)?;
    if manifest.id != id {
        let why =
            format!("the checkpoints are those of the log {}, not of {id}: name another place for them", manifest.id);
        return Err(Error::Unusable { why });
    }
    let all = manifest.tables().map(|table| table.bytes).sum::<u64>();
    tracing::info!(batch = manifest.batch, bytes = all, "fetching the newest checkpoint of the metadata");
    for file in &manifest.files {
        let path = target.join(&file.path);
        let failed = |source| Error::io(format!("writing {}", path.display()), source);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        match &file.content {
            Content::Small(content) => std::fs::write(&path, content).map_err(failed)?,
            Content::Table(table) => std::fs::write(&path, fetch(vault, table)?).map_err(failed)?,
        }
    }
    Ok(Some(manifest.batch))
}

fn fetch(vault: &dyn Vault, table: &Table) -> Result<bytes::Bytes> {
    let name = table.name();
    let expected = || format!("{} bytes with checksum {:032x}", table.bytes, table.sum);
    let most = usize::try_from(table.bytes).unwrap_or(usize::MAX);
    let Some((content, _)) = vault.get(&name, most)? else {
        // A newer checkpoint may have replaced it meanwhile.
        return Err(Error::Busy { what: format!("the checkpoint, whose table {name} is gone,") });
    };
    if content.len() as u64 != table.bytes || xxh3_128(&content) != table.sum {
        return Err(Error::corrupt(name, expected(), "other bytes"));
    }
    Ok(content)
}
