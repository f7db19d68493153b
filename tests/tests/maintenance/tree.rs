//! Everything that a mount and S3 show of a bucket, for comparison.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Everything below a mounted directory, by path: its type and content.
pub fn of_mount(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    walk(root, root, &mut all);
    all
}

fn walk(root: &Path, dir: &Path, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let found = std::fs::symlink_metadata(&path).expect("its attributes");
        let (kind, held) = match found.file_type() {
            kind if kind.is_dir() => ("directory", String::new()),
            kind if kind.is_symlink() => ("link", std::fs::read_link(&path).expect("a target").display().to_string()),
            kind if kind.is_fifo() => ("pipe", String::new()),
            _ => ("file", format!("{:016x}", digest(&std::fs::read(&path).expect("content")))),
        };
        let (size, times) = (if kind == "directory" { 0 } else { found.size() }, (found.mtime(), found.mtime_nsec()));
        let shown = format!(
            "{kind} {} {:o} {}:{} {} {size} {times:?} {held}",
            found.ino(),
            found.mode(),
            found.uid(),
            found.gid(),
            found.nlink()
        );
        all.insert(path.strip_prefix(root).expect("below").display().to_string(), shown);
        if kind == "directory" {
            walk(root, &path, all);
        }
    }
}

/// An FNV-1a hash.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// All versions of all objects: key, version, entity tag, size, time, whether it is the latest.
pub async fn of_s3(client: &aws_sdk_s3::Client, bucket: &str) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), (None, None));
    loop {
        let request = client.list_object_versions().bucket(bucket);
        let page = request.set_key_marker(after.0).set_version_id_marker(after.1).send().await.expect("a listing");
        all.extend(page.versions().iter().map(|version| {
            format!(
                "{:?} {:?} {:?} {:?} {:?} {:?}",
                version.key(),
                version.version_id(),
                version.e_tag(),
                version.size(),
                version.last_modified(),
                version.is_latest()
            )
        }));
        all.extend(
            page.delete_markers()
                .iter()
                .map(|marker| format!("{:?} {:?} marker {:?}", marker.key(), marker.version_id(), marker.is_latest())),
        );
        if page.is_truncated() != Some(true) {
            return all;
        }
        after = (page.next_key_marker, page.next_version_id_marker);
    }
}
