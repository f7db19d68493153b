//! The check that a folder can be a data folder, made before anything in it is changed.
//!
//! - A folder with `meta/version` holds a store, even beside other files: every store has that file, and opening
//!   reports what else is missing.
//! - A folder without it counts as new if it is absent or empty, except for names that a file system creates by itself
//!   ([`is_of_the_volume`]).
//! - So does one that holds only names of a store: an interrupted first start leaves some of them, and has answered no
//!   client yet. Acknowledged content cannot be there without metadata: opening compares the two.
//! - Any other folder belongs to another program and is refused; so is a folder of another user, unless that is root.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::disk::is_of_the_volume;
use crate::error::{Error, Result};

/// All names in a data folder, except those that end in `.tmp`.
const NAMES: [&str; 17] = [
    "checkpoint",
    "content",
    "csi-node",
    "lock",
    "master.key",
    "master.key.next",
    "meta",
    "migration",
    "mounts",
    "moved",
    "quarantine",
    "root-credentials",
    "run",
    "server-id",
    "sessions",
    "volume-ca-key.pem",
    "volume-ca.pem",
];
/// The most names shown in a message.
const SHOWN: usize = 5;

/// Refuses a folder that cannot be a data folder. Changes nothing.
///
/// # Errors
/// [`Error::Unusable`] with what was found and what to do.
pub fn check(dir: &Path) -> Result<()> {
    let shown = dir.display();
    let failed = |error| Error::io(format!("looking at {shown}"), error);
    let found = match std::fs::metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    if !found.is_dir() {
        let why =
            format!("the data folder {shown} is a file and no folder: name an empty folder, or one that is absent");
        return Err(Error::Unusable { why });
    }
    refuse_owner(dir, found.uid())?;
    if dir.join("meta/version").symlink_metadata().is_ok() {
        return Ok(());
    }
    let (mut foreign, mut count) = (Vec::new(), 0_usize);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !is_ours(&name) {
            count += 1;
            if foreign.len() < SHOWN {
                foreign.push(name.to_string_lossy().escape_debug().to_string());
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    foreign.sort_unstable();
    let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    let why = format!(
        "the folder {shown} holds no store and is not empty ({}{more}): name the data folder of a store, an empty folder, \
         or one that is absent",
        foreign.join(", ")
    );
    Err(Error::Unusable { why })
}

fn is_ours(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name.strip_suffix(".tmp").unwrap_or(name)) || is_of_the_volume(name)
}

/// Checks the owner, who could replace anything in the folder.
fn refuse_owner(dir: &Path, owner: u32) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if owner == own || owner == 0 {
        return Ok(());
    }
    let shown = dir.display();
    let why = format!(
        "the data folder {shown} belongs to user {owner} and may not be used by user {own}: run this as the user who owns \
         it, or have it owned by user {own} with all that is in it (chown -R {own} {shown})"
    );
    Err(Error::Unusable { why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    fn refusal(dir: &Path) -> String {
        match check(dir) {
            Err(Error::Unusable { why }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_an_empty_folder_a_store_or_what_a_first_start_left_is_taken() {
        let in_place = tempfile::tempdir().unwrap();
        let dir = in_place.path().join("data");
        check(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        check(&dir).unwrap();
        std::fs::create_dir(dir.join("lost+found")).unwrap();
        check(&dir).unwrap();
        for name in ["lock", "meta", "master.key.tmp", "run"] {
            std::fs::write(dir.join(name), "").unwrap();
            check(&dir).unwrap();
        }
        for at in 0..7 {
            std::fs::write(dir.join(format!("passwd-{at}")), "").unwrap();
        }
        let why = refusal(&dir);
        assert!(why.contains("passwd-") && why.contains("and 2 more") && why.contains("an empty folder"), "{why}");
        std::fs::remove_file(dir.join("meta")).unwrap();
        std::fs::create_dir(dir.join("meta")).unwrap();
        assert!(refusal(&dir).contains("passwd-"), "a folder called meta makes no store");
        std::fs::write(dir.join("meta/version"), "").unwrap();
        check(&dir).unwrap();
        assert!(refusal(&dir.join("lock")).contains("is a file"));
    }

    #[test]
    fn hidden_files_and_names_that_are_no_text_are_somebodys() {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [&b".bashrc"[..], b"\xff\xfe"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
            assert!(refusal(dir.path()).contains("not empty"));
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(65534), None).unwrap();
        let why = refusal(dir.path());
        assert!(why.contains("belongs to user 65534") && why.contains("chown"), "{why}");
    }
}
