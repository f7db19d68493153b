//! Guarantees of [`Disk`] and [`File`], tested on the operating system's disk.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn disk() -> (RealDisk, tempfile::TempDir) {
    (RealDisk::new(), tempfile::tempdir().unwrap())
}

#[test]
fn files_are_read_written_and_sized_at_offsets() {
    let (disk, dir) = disk();
    let path = dir.path().join("file");
    let file = disk.create(&path).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(b"hello", 3).unwrap();
    file.sync().unwrap();
    let mut buf = [9; 10];
    assert_eq!(disk.open(&path).unwrap().read_at(&mut buf, 0).unwrap(), 8);
    assert_eq!(&buf[..8], b"\0\0\0hello");
    assert_eq!(file.read_at(&mut buf, 8).unwrap(), 0);
    file.set_len(4).unwrap();
    assert_eq!((file.len().unwrap(), disk.read_all(&path).unwrap()), (4, b"\0\0\0h".to_vec()));
    assert!(file.modified().unwrap() > SystemTime::UNIX_EPOCH);
    assert!(file.raw().is_some());
}

/// Memory that is aligned to a page, with this content.
fn aligned(memory: &mut Vec<u8>, content: &[u8]) -> std::ops::Range<usize> {
    memory.resize(content.len() + DIRECT_BLOCK, 0);
    let start = memory.as_ptr().align_offset(DIRECT_BLOCK);
    memory[start..start + content.len()].copy_from_slice(content);
    start..start + content.len()
}

fn direct_writes_of_all_sorts_are_read_back(dir: &Path) {
    let disk = RealDisk::new();
    let path = dir.join("direct");
    let file = disk.create(&path).unwrap();
    let content: Vec<u8> = (0..3 * DIRECT_BLOCK + 100).map(|at| (at * 7 + at / 251) as u8).collect();
    let (mut memory, mut expected) = (Vec::new(), Vec::new());
    let place = aligned(&mut memory, &content);
    // Whole blocks with an unaligned end, a write from unaligned memory, and blocks at an unaligned offset.
    for (piece, at) in [
        (place.start..place.start + 2 * DIRECT_BLOCK, 0),
        (place.start..place.end, 2 * DIRECT_BLOCK),
        (place.start + 1..place.start + 1 + DIRECT_BLOCK, 8 * DIRECT_BLOCK),
        (place.start..place.start + DIRECT_BLOCK, DIRECT_BLOCK + 17),
        (place.start..place.start + DIRECT_BLOCK, 9 * DIRECT_BLOCK),
    ] {
        let piece = &memory[piece];
        file.write_direct(piece, at as u64).unwrap();
        expected.resize(expected.len().max(at + piece.len()), 0);
        expected[at..at + piece.len()].copy_from_slice(piece);
    }
    file.sync().unwrap();
    assert!(disk.read_all(&path).unwrap() == expected);
    let mut read = vec![0; expected.len()];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), expected.len());
    assert!(read == expected, "through the descriptor that wrote it");
}

#[test]
fn direct_writes_are_read_back_whatever_their_alignment() {
    direct_writes_of_all_sorts_are_read_back(tempfile::tempdir().unwrap().path());
}

#[test]
fn a_file_system_in_memory_takes_direct_writes_or_the_ordinary_ones_in_their_place() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    direct_writes_of_all_sorts_are_read_back(dir.path());
}

#[test]
fn creating_twice_and_opening_nothing_fail_with_the_systems_error() {
    let (disk, dir) = disk();
    let path = dir.path().join("file");
    let missing = disk.open(&path).map(drop).unwrap_err();
    assert!(is_missing(&missing) && missing.to_string().contains(path.to_str().unwrap()), "{missing}");
    disk.create(&path).unwrap();
    let exists = disk.create(&path).map(drop).unwrap_err();
    assert!(matches!(exists, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists));
}

#[test]
fn folders_are_made_listed_and_emptied() {
    let (disk, dir) = disk();
    let deep = dir.path().join("a/b/c");
    disk.make_dir_all(&deep).unwrap();
    disk.make_dir_all(&deep).unwrap();
    disk.make_dir(&deep).unwrap();
    disk.create(&deep.join("x")).unwrap();
    assert_eq!(disk.list(&deep).unwrap(), ["x"]);
    assert!(disk.exists(&deep.join("x")).unwrap());
    disk.remove(&deep.join("x")).unwrap();
    disk.remove(&deep.join("x")).unwrap();
    assert!(!disk.exists(&deep.join("x")).unwrap());
    disk.sync_dir(&deep).unwrap();
    assert!(disk.make_dir(&dir.path().join("p/q")).is_err());
    std::fs::write(dir.path().join("plain"), "").unwrap();
    assert!(disk.make_dir(&dir.path().join("plain")).is_err(), "a file is not a folder");
    let space = disk.space(&deep).unwrap();
    assert!(0 < space.free_bytes && space.free_bytes <= space.total_bytes);
}

#[test]
fn an_atomic_write_replaces_content_and_permissions_and_leaves_no_draft() {
    let (disk, dir) = disk();
    let path = dir.path().join("secret");
    disk.write_atomic(&path, b"old", 0o644).unwrap();
    std::fs::write(dir.path().join("secret.tmp"), "left by a crash").unwrap();
    disk.write_atomic(&path, b"new", 0o600).unwrap();
    assert_eq!(disk.read_all(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(disk.list(dir.path()).unwrap(), ["secret"]);
}

#[test]
fn a_second_server_on_a_folder_is_refused_by_name_until_the_first_ends() {
    let (disk, dir) = disk();
    let path = dir.path().join("lock");
    let lock = disk.lock(&path).unwrap();
    let refused = disk.lock(&path).map(drop).unwrap_err();
    let (folder, pid) = (dir.path().display().to_string(), format!("process {}", std::process::id()));
    assert!(matches!(&refused, Error::Unusable { why } if why.contains(&folder) && why.contains(&pid)), "{refused}");
    std::fs::write(&path, "1 pid:[1]\n").unwrap();
    let refused = disk.lock(&path).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::Unusable { why } if why.contains("process 1 of another container")), "{refused}");
    drop(lock);
    disk.lock(&path).unwrap();
}

#[test]
fn holes_are_punched_found_and_reserved() {
    const MIB: u64 = 1024 * 1024;
    let (disk, dir) = disk();
    let file = disk.create(&dir.path().join("file")).unwrap();
    file.write_at(&vec![1; 3 * MIB as usize], 0).unwrap();
    file.punch(MIB, MIB).unwrap();
    let mut buf = [9; 2];
    file.read_at(&mut buf, MIB - 1).unwrap();
    assert_eq!((buf, file.len().unwrap()), ([1, 0], 3 * MIB));
    // A file system without holes reports everything as data.
    let hole = file.seek_hole(0).unwrap();
    assert!(hole == Some(MIB) || hole == Some(3 * MIB), "{hole:?}");
    if hole == Some(MIB) {
        assert_eq!(file.seek_data(MIB).unwrap(), Some(2 * MIB));
    }
    assert_eq!((file.seek_data(3 * MIB).unwrap(), file.seek_hole(4 * MIB).unwrap()), (None, None));
    file.allocate(0, 4 * MIB, Allocate::KeepSize).unwrap();
    assert_eq!(file.len().unwrap(), 3 * MIB);
    file.allocate(0, 4 * MIB, Allocate::Extend).unwrap();
    assert_eq!(file.len().unwrap(), 4 * MIB);
    file.punch(0, 0).unwrap();
    file.allocate(0, 0, Allocate::Extend).unwrap();
}

#[test]
fn a_clone_is_a_copy_or_nothing() {
    let (disk, dir) = disk();
    let source = disk.create(&dir.path().join("source")).unwrap();
    source.write_at(b"content", 0).unwrap();
    let copy = disk.create(&dir.path().join("copy")).unwrap();
    let expected = if copy.reflink_from(&*source).unwrap() { 7 } else { 0 };
    assert_eq!(copy.len().unwrap(), expected);
}

#[test]
fn each_call_that_makes_something_durable_is_timed() {
    let (disk, dir) = disk();
    let file = disk.create(&dir.path().join("file")).unwrap();
    assert_eq!(disk.sync_latency().count(), 0);
    file.sync().unwrap();
    file.sync_with_time().unwrap();
    disk.sync_dir(dir.path()).unwrap();
    disk.sync_everything(dir.path()).unwrap();
    assert_eq!(disk.sync_latency().count(), 4);
    disk.write_atomic(&dir.path().join("note"), b"note", 0o600).unwrap();
    assert_eq!(disk.sync_latency().count(), 6, "the file and its folder");
}
