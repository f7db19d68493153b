//! Many files in one directory, and a tree of two hundred levels: created, listed, read, renamed and deleted, each name
//! exactly once. `benches/many_files.py` measures the cost of each.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::rename;

use super::{BUCKET, mounted};
use crate::support::agree::both_agree;
use crate::support::*;

const DEPTH: usize = 200;

here_and_elsewhere! {
    fn a_large_directory_shows_every_name_once() {
        need!(root_and_fuse());
        let count: usize = amount(3_000, 100_000);
        let (mount, server) = mounted();
        let dir = mount.path().join("many");
        std::fs::create_dir(&dir).expect("a folder");
        let path = |kind: &str, number: usize| dir.join(format!("{kind}-{number:06}"));
        for number in 0..count {
            std::fs::write(path("file", number), number.to_le_bytes()).expect("a file");
        }
        assert_eq!(names(&dir), (0..count).map(|number| format!("file-{number:06}")).collect());
        for number in 0..count {
            assert_eq!(path("file", number).metadata().expect("there").len(), 8);
        }
        for number in (0..count).step_by(2) {
            rename(path("file", number), path("renamed", number)).expect("renamed");
        }
        let seen = names(&dir);
        assert_eq!(
            (seen.len(), seen.iter().filter(|name| name.starts_with("renamed")).count()),
            (count, count.div_ceil(2))
        );
        let compared = both_agree(&server, BUCKET, mount.path());
        assert_eq!((compared.files, compared.directories, compared.bytes), (count, 1, 8 * count as u64));
        // The directory shrinks while it is read: names that were not deleted must still appear.
        let mut left = count;
        for (number, entry) in std::fs::read_dir(&dir).expect("listed").enumerate() {
            std::fs::remove_file(entry.expect("an entry").path()).unwrap_or_else(|error| panic!("entry {number}: {error}"));
            left -= 1;
        }
        assert_eq!(left, 0, "names that readdir(3) left out");
        std::fs::remove_dir(&dir).expect("empty");
    }
}

here_and_elsewhere! {
    fn a_deep_tree_is_a_tree() {
        need!(root_and_fuse());
        let (mount, server) = mounted();
        let mut path = PathBuf::from("deep");
        let mut paths = Vec::new();
        for level in 0..DEPTH {
            paths.push(path.clone());
            // Short names, so that the longest path fits a key of 1,024 bytes.
            path.push(format!("{}", level % 10));
        }
        for path in &paths {
            std::fs::create_dir(mount.path().join(path)).expect("a folder");
            std::fs::write(mount.path().join(path).join("f"), path.as_os_str().len().to_le_bytes()).expect("a file");
        }
        let compared = both_agree(&server, BUCKET, mount.path());
        assert_eq!((compared.files, compared.directories), (DEPTH, DEPTH));
        let (old, new) = (mount.path().join("deep"), mount.path().join("moved"));
        rename(&old, &new).expect("the whole tree is renamed");
        assert!(!old.exists());
        let lowest = mount.path().join("moved").join(paths[DEPTH - 1].strip_prefix("deep").expect("below"));
        assert!(File::open(lowest.join("f")).is_ok(), "the lowest file");
        assert_eq!(both_agree(&server, BUCKET, mount.path()).files, DEPTH);
        std::fs::remove_dir_all(&new).expect("all is deleted");
        assert_eq!(names(mount.path()), BTreeSet::new());
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(dir).expect("listed") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        assert!(names.insert(name.clone()), "{name} is listed twice");
    }
    names
}
