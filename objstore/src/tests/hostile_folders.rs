//! Backup repositories with links, devices and FIFOs in place of files: refused at once, and never followed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::test_store::*;
use crate::backup::{Folder, Progress, ProgressSink, create, list, prune, restore, verify};
use crate::store::Deletion;

fn quiet() -> ProgressSink {
    Arc::new(|_: Progress| Ok(()))
}

/// All files and folders below a folder.
fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_below(&path));
        }
        found.push(path);
    }
    found
}

/// Puts other things in place of a file or folder of a backup while `f` runs.
#[expect(clippy::disallowed_methods, reason = "a test moves files of its own, and nothing has to last")]
fn instead(path: &Path, outside: &Path, f: impl Fn(&str)) {
    let quarantine = outside.join("aside");
    std::fs::rename(path, &quarantine).unwrap();
    let fifo = || rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let long = || std::fs::File::create(path).unwrap().set_len(15 << 30).unwrap();
    let odd: [(&str, &dyn Fn()); 4] = [
        ("a FIFO", &fifo),
        ("a link to what never ends", &|| symlink("/dev/zero", path).unwrap()),
        ("a link to what was there", &|| symlink(&quarantine, path).unwrap()),
        ("a file of 15 GiB", &long),
    ];
    for (what, put) in odd {
        put();
        f(&format!("{what} as {}", path.display()));
        std::fs::remove_file(path).unwrap();
    }
    std::fs::rename(&quarantine, path).unwrap();
}

#[test]
fn a_folder_with_links_devices_and_fifos_is_refused_at_once_and_leads_nowhere() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &[7; 9000]).unwrap();
    let (in_place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = in_place.path().join("backups");
    let open = || Folder::for_writing(&dir).map(Arc::new);
    let id = test.run(create(&test.store, &bucket, &open().unwrap(), &quiet())).unwrap().id;
    let begun = std::time::Instant::now();
    for path in all_below(&dir) {
        instead(&path, outside.path(), |what| {
            let Ok(folder) = open() else { return };
            // The lock file of 15 GiB is a regular file, whose content is not read.
            let is_lock = path.ends_with("lock");
            let restored = test.run(restore(&test.store, &folder, ("jar", &id), &name("again"), &quiet()));
            assert_eq!(restored.is_ok(), is_lock, "{what}: {restored:?}");
            if restored.is_ok() {
                test.run(test.store.delete_bucket(&name("again"), Deletion::Force)).unwrap();
            }
            let verified = verify(&folder, &|_| {});
            assert!(is_lock || verified.is_err() || !verified.unwrap().0.is_empty(), "{what}");
            let listed = list(&folder);
            let is_manifest = path.extension().is_some_and(|end| end == "manifest");
            assert!(!is_manifest || listed.unwrap().iter().any(Result::is_err), "{what}");
        });
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn pruning_and_backing_up_change_nothing_outside_the_folder() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "key", &[7; 9000]).unwrap();
    for place in ["data", "data/ab", "backups", "backups/jar", "lock", "amphora-backup"] {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        drop(Folder::for_writing(dir.path()).unwrap());
        let precious = outside.path().join("precious");
        std::fs::write(&precious, "of another user").unwrap();
        let path = dir.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        let target = if matches!(place, "lock" | "amphora-backup") { &*precious } else { outside.path() };
        symlink(target, &path).unwrap();
        if let Ok(folder) = Folder::for_writing(dir.path()).map(Arc::new) {
            for _ in 0..2 {
                let _ = test.run(create(&test.store, &bucket, &folder, &quiet()));
                let _ = prune(&folder, 1);
            }
        }
        assert_eq!(std::fs::read(&precious).unwrap(), b"of another user", "{place}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1, "{place}");
    }
}
