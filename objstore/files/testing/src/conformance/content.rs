//! Content: reading, writing, appending, holes, copies, and unlinked files.

use objstore_base::error::Posix;
use objstore_files::{Allocate, DATA_BYTES_MAX, FileSession, ROOT_INO, SetAttr, Spot};

use super::{OWNER, Subject, Test, file, refused};

pub(super) const TESTS: &[(&str, Test)] = &[
    ("what is written is read by every session", what_is_written_is_read),
    ("appends go to the end", appends_go_to_the_end),
    ("holes are found, made and filled", holes_are_found_made_and_filled),
    ("ranges are copied", ranges_are_copied),
    ("an unlinked file stays until it is forgotten", an_unlinked_file_stays),
    ("open writers are counted and protected files refused", open_writers_are_counted),
];

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 31 % 251).unwrap_or_default()).collect()
}

fn read(session: &FileSession, ino: u64) -> Vec<u8> {
    let size = usize::try_from(session.own().attr(ino).expect("attributes").size).expect("a small file");
    let mut content = Vec::new();
    while content.len() < size {
        let len = u32::try_from((size - content.len()).min(DATA_BYTES_MAX)).expect("a megabyte");
        content.extend_from_slice(&session.own().read(ino, content.len() as u64, len).expect("read"));
    }
    content
}

fn what_is_written_is_read(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let files = session.own();
    let ino = file(&files, "a");
    let mut expected = Vec::new();
    for (offset, len) in [(0, 10), (5, 4000), (4000, 200_000), (150_000, DATA_BYTES_MAX)] {
        let data = pattern(len);
        files.write(ino, offset as u64, false, &data).expect("written");
        expected.resize(expected.len().max(offset + len), 0);
        expected[offset..offset + len].copy_from_slice(&data);
        assert!(read(&session, ino) == expected && read(&other, ino) == expected, "{offset}");
    }
    assert!(files.read(ino, expected.len() as u64, 10u32).expect("the end").is_empty());
    assert_eq!(files.read(ino, expected.len() as u64 - 3, 10u32).expect("the end").len(), 3);
    files.sync(ino, true).and_then(|()| files.sync(ino, false)).expect("synced");
    files.sync_volume().expect("synced");
    let cut = SetAttr { size: Some(100), ..SetAttr::default() };
    assert_eq!(files.set_attr(ino, cut).expect("cut").size, 100);
    assert_eq!(read(&other, ino), expected[..100]);
    refused(files.read(ROOT_INO, 0u64, 1u32), Posix::IsDirectory);
    refused(files.write(ino, u64::MAX - 1, false, b"far"), Posix::TooLarge);
}

fn appends_go_to_the_end(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let ino = file(&session.own(), "a");
    assert_eq!(session.own().append(ino, b"one ").expect("appended"), 4);
    assert_eq!(other.own().append(ino, b"two ").expect("appended"), 8);
    assert_eq!(session.own().append(ino, b"three").expect("appended"), 13);
    assert_eq!(read(&session, ino), b"one two three");
    session.own().recall(ino).expect("recalled");
}

fn holes_are_found_made_and_filled(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let ino = file(&files, "a");
    let (block, size) = (1u64 << 20, 4u64 << 20);
    files.write(ino, size - 4096, false, &pattern(4096)).expect("written");
    let hole = files.seek(ino, 0u64, false).expect("a hole");
    let data = files.seek(ino, 0u64, true).expect("data");
    assert_eq!((hole, data.is_some_and(|at| at > block)), (Some(0), true));
    assert_eq!(files.seek(ino, size, true).expect("the end"), None);
    files.allocate(ino, Allocate::Extend, size, block).expect("reserved");
    assert_eq!(files.attr(ino).expect("attributes").size, size + block);
    files.allocate(ino, Allocate::PunchHole, size - 4096, 4096u64).expect("punched");
    assert!(files.read(ino, size - 4096, 4096u32).expect("read").iter().all(|byte| *byte == 0));
    files.allocate(ino, Allocate::ZeroRange, 0u64, block).expect("zeroed");
    refused(files.seek(ROOT_INO, 0u64, true), Posix::Invalid);
}

fn ranges_are_copied(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let (from, to) = (file(&files, "a"), file(&files, "b"));
    let data = pattern(300_000);
    files.write(from, 0u64, false, &data).expect("written");
    let spot = |ino, offset| Spot { ino, offset };
    let mut copied = 0;
    while copied < 200_000 {
        let rest = 200_000 - copied;
        copied += files.copy_range(spot(from, 1000 + copied), spot(to, copied), rest).expect("copied");
    }
    assert!(read(&session, to) == data[1000..201_000]);
    refused(files.copy_range(spot(from, 0), spot(from, 10), 20u64), Posix::Invalid);
}

fn an_unlinked_file_stays(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let ino = file(&files, "a");
    files.write(ino, 0u64, false, b"content").expect("written");
    files.pin(ino).expect("a second reference");
    files.unlink(ROOT_INO, "a").expect("unlinked");
    assert_eq!((read(&session, ino), files.attr(ino).expect("attributes").nlink), (b"content".to_vec(), 0));
    files.forget(ino, 1u64).expect("returned");
    assert_eq!(read(&session, ino), b"content");
    files.forget(ino, 1u64).expect("returned");
    // It is collected behind the call.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while files.attr(ino).is_ok() {
        assert!(std::time::Instant::now() < until, "nobody collects it");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    refused(files.pin(ino), Posix::Stale);
}

fn open_writers_are_counted(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let made = files.create(ROOT_INO, "a", OWNER).expect("created and open");
    files.open_writer(made.ino).expect("open again");
    for handle in [1u64, 2] {
        files.closing(made.ino, handle).expect("announced");
        files.close_writer(made.ino, false).expect("closed");
        files.closed(made.ino, handle).expect("announced");
    }
    files.close_writer(made.ino, true).expect("one of an earlier process");
    assert!(!files.keeps_versions().expect("versioning"));
    let append_only = objstore_files::Flags { append_only: true, ..Default::default() };
    files.set_flags(made.ino, append_only).expect("set");
    refused(files.check_open(made.ino, false), Posix::NotPermitted);
    files.check_open(made.ino, true).expect("for appending");
    refused(files.write(made.ino, 0u64, false, b"x"), Posix::NotPermitted);
    refused(files.write_back(made.ino, 0u64, false, b"x"), Posix::NotPermitted);
    assert_eq!(files.append(made.ino, b"x").expect("appended"), 1);
}
