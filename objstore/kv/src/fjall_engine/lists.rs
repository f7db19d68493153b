//! Verification of fjall's table lists, whose checksums fjall does not compare.
//!
//! - Each keyspace has a file `current`: the number of its list, the list's XXH3, and the kind of checksum. The list
//!   says which tables exist and what is added to their numbers. fjall removes a table that no list names, and a
//!   keyspace without `current`: so both files are verified before.
//!
//! It writes nothing.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, RealDisk};

/// Refuses a folder in which a keyspace's list differs from what was written.
pub(super) fn check(folder: &Path) -> Result<()> {
    let (disk, keyspaces) = (RealDisk::new(), folder.join("keyspaces"));
    if !disk.exists(&keyspaces)? {
        return Ok(());
    }
    let names = disk.list(&keyspaces)?;
    let numbered = names.iter().filter(|name| name.parse::<u64>().is_ok());
    numbered.map(|name| keyspaces.join(name)).try_for_each(|keyspace| check_one(&disk, &keyspace))
}

fn check_one(disk: &RealDisk, keyspace: &Path) -> Result<()> {
    let current = keyspace.join("current");
    if !disk.exists(&current)? {
        let tables = keyspace.join("tables");
        // A keyspace whose creation a crash interrupted has no list.
        if !disk.exists(&tables)? || disk.list(&tables)?.is_empty() {
            return Ok(());
        }
        return Err(Error::corrupt(format!("the file {}", current.display()), "the name of a list of tables", "none"));
    }
    let (number, sum) = named(&disk.read_all(&current)?).ok_or_else(|| {
        Error::corrupt(format!("the file {}", current.display()), "the name of a list of tables", "other bytes")
    })?;
    let list = keyspace.join(format!("v{number}"));
    let what = format!("the list of tables {}", list.display());
    if !disk.exists(&list)? {
        return Err(Error::corrupt(what, "a file", "none"));
    }
    let found = xxh3_128(&disk.read_all(&list)?);
    if found == sum {
        Ok(())
    } else {
        Err(Error::corrupt(what, format!("checksum {sum:032x}"), format!("{found:032x}")))
    }
}

/// The number of a list and its checksum, little-endian in the file.
fn named(current: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = current.split_first_chunk()?;
    let (sum, kind) = rest.split_first_chunk()?;
    (kind == [0]).then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*sum)))
}
