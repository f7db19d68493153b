//! `amphora mount` and `amphora umount` as commands.

use std::io::ErrorKind;

use crate::support::cli::{json, refusal};
use crate::support::*;

#[test]
fn a_mount_is_there_until_it_is_taken_away() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let dir = mount.path().to_owned();
    std::fs::write(dir.join("f"), "kept").expect("a file is written");
    let text = dir.to_str().expect("a path of ours");
    let taken = refusal(&server, &["mount", "files", text], 1);
    assert!(taken.contains(text) && taken.contains("files"), "{taken}");
    mount.unmount(&server);
    assert!(!dir.join("f").exists(), "the directory below shows");
    let again = refusal(&server, &["umount", text], 1);
    assert!(again.contains(text), "{again}");
    let mount = Mounted::new(&server, "files", "m");
    assert_eq!(std::fs::read(mount.path().join("f")).expect("the file is back"), b"kept");
}

#[test]
fn a_terminated_server_takes_its_mounts_along_and_keeps_what_was_written() {
    need!(root_and_fuse());
    let mut server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let file = mount.path().join("f");
    std::fs::write(&file, vec![7; 300_000]).expect("a file is written");
    drop(mount);
    let status = server.terminate();
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert_eq!(std::fs::metadata(&file).expect_err("unmounted").kind(), ErrorKind::NotFound);
    server.restart();
    let mount = Mounted::new(&server, "files", "m");
    assert!(std::fs::read(mount.path().join("f")).expect("a file") == vec![7; 300_000]);
}

#[test]
fn options_make_a_mount_read_only_or_show_one_folder() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    std::fs::create_dir_all(mount.path().join("a/b")).expect("folders");
    std::fs::write(mount.path().join("a/b/f"), "below").expect("a file");
    let part = server.home().path().join("part");
    std::fs::create_dir(&part).expect("a folder");
    json(&server, &["mount", "files", part.to_str().expect("a path of ours"), "-o", "ro,prefix=a,uid=1234"]);
    assert_eq!(std::fs::read(part.join("b/f")).expect("the folder's file"), b"below");
    assert_eq!(std::fs::write(part.join("b/g"), "").expect_err("refused").kind(), ErrorKind::ReadOnlyFilesystem);
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(part.join("b/f")).expect("there"));
    assert_eq!(owner, 1234);
}
