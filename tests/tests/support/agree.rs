//! Comparison of a whole bucket through both handles: a mount shows what S3 lists and returns, and vice versa.

use std::collections::BTreeMap;
use std::fs::{DirEntry, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use aws_sdk_s3::Client;
use tests::prelude::*;

use super::access::root_client;

/// A listing: size and entity tag by key.
type Listed = BTreeMap<String, (u64, String)>;

/// The amount that was compared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Keys of regular files.
    pub files: usize,
    /// Keys of directories.
    pub directories: usize,
    /// Bytes of content, each read twice.
    pub bytes: u64,
}

/// Compares names, sizes and contents, and checks that reading changes no entity tag.
///
/// # Panics
/// If the handles differ.
pub fn both_agree(server: &Server, bucket: &str, mount: &Path) -> Compared {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(compare(&root_client(server), bucket, mount))
}

async fn compare(client: &Client, bucket: &str, mount: &Path) -> Compared {
    let listed = list(client, bucket).await;
    let mut shown = BTreeMap::new();
    walk(mount, "", &mut shown);
    let sizes: BTreeMap<_, _> = listed.iter().map(|(key, (size, _))| (key.clone(), *size)).collect();
    if let Some((key, size)) = shown.iter().find(|(key, size)| sizes.get(*key) != Some(size)) {
        panic!("the mount shows {key:?} with {size} bytes, S3 lists {:?}", sizes.get(key));
    }
    if let Some(key) = sizes.keys().find(|key| !shown.contains_key(*key)) {
        panic!("S3 lists {key:?}, the mount does not show it");
    }
    let mut compared = Compared::default();
    for (key, (size, tag)) in &listed {
        if key.ends_with('/') {
            compared.directories += 1;
            continue;
        }
        let seen_tag = content(client, bucket, key, &mount.join(key)).await;
        assert_eq!(&seen_tag, tag, "entity tag of {key:?}");
        compared.files += 1;
        compared.bytes += size;
    }
    assert!(list(client, bucket).await == listed, "reading changed the listing");
    compared
}

/// Compares GET and read(2) piece by piece; returns the entity tag of GET.
async fn content(client: &Client, bucket: &str, key: &str, path: &Path) -> String {
    let object = client.get_object().bucket(bucket).key(key).send().await;
    let object = object.unwrap_or_else(|error| panic!("GET {key:?}: {error:?}"));
    let tag = object.e_tag().expect("an entity tag").to_owned();
    let mut file = File::open(path).unwrap_or_else(|error| panic!("opening {key:?}: {error}"));
    let (mut body, mut at, mut buffer) = (object.body, 0, Vec::new());
    while let Some(piece) = body.try_next().await.expect("the whole body") {
        buffer.resize(piece.len(), 0);
        file.read_exact(&mut buffer).unwrap_or_else(|error| panic!("{key:?} at {at}: {error}"));
        assert!(buffer == piece, "{key:?} differs in the {} bytes at {at}", piece.len());
        at += piece.len();
    }
    assert_eq!(file.read(&mut [0]).expect("readable"), 0, "the file {key:?} is longer than the {at} bytes of GET");
    tag
}

async fn list(client: &Client, bucket: &str) -> Listed {
    let mut pages = client.list_objects_v2().bucket(bucket).into_paginator().send();
    let mut listed = Listed::new();
    while let Some(page) = pages.next().await {
        for object in page.expect("a page of the listing").contents() {
            let (key, tag) = (object.key().expect("a key"), object.e_tag().expect("an entity tag"));
            let size = u64::try_from(object.size().expect("a size")).expect("not negative");
            assert!(listed.insert(key.to_owned(), (size, tag.to_owned())).is_none(), "{key:?} is listed twice");
        }
    }
    listed
}

/// The keys below `prefix` with their sizes. Symbolic links and special files exist on the mount only.
fn walk(mount: &Path, prefix: &str, shown: &mut BTreeMap<String, u64>) {
    let entries = std::fs::read_dir(mount.join(prefix)).unwrap_or_else(|error| panic!("reading {prefix:?}: {error}"));
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("names of S3 are UTF-8");
        let key = format!("{prefix}{name}");
        match size(&entry) {
            Some(size) => drop(shown.insert(key, size)),
            None if entry.file_type().expect("a kind").is_dir() => {
                shown.insert(format!("{key}/"), 0);
                walk(mount, &format!("{key}/"), shown);
            }
            None => {}
        }
    }
}

/// The size of a regular file. Checks that readdir(3) and stat(2) report the same type.
fn size(entry: &DirEntry) -> Option<u64> {
    let (kind, stat) = (entry.file_type().expect("a kind"), entry.metadata().expect("attributes"));
    assert_eq!(kind, stat.file_type(), "{}", entry.path().display());
    let special = kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device();
    assert_eq!(kind.is_file(), !special && !kind.is_dir() && !kind.is_symlink(), "{}", entry.path().display());
    kind.is_file().then_some(stat.size())
}
