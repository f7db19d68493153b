//! Mounts between two servers: unmounted meanwhile, listed meanwhile, without their holder, and upgraded.
//!
//! - For programs under load see `outlive`; here each step is tested separately.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};

use crate::support::cli::{check_store, json, refusal};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(20);

fn held() -> (Server, Mounted) {
    let server = Options::default().holder().start();
    make_bucket(&server, "held", &[]);
    let mount = Mounted::held(&server, "held", "m");
    (server, mount)
}

fn mounts(server: &Server) -> usize {
    json(server, &["status"])["mounts"].as_array().expect("a list").len()
}

#[test]
fn a_mount_that_was_unmounted_without_a_server_stays_unmounted() {
    need!(root_and_fuse());
    let (mut server, mount) = held();
    std::fs::write(mount.path().join("kept"), "kept").expect("written");
    server.kill9();
    unmount(mount.path(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).expect("no process uses the mount");
    server.restart();
    assert_eq!(mounts(&server), 0);
    let mount = Mounted::held(&server, "held", "m");
    assert_eq!(std::fs::read(mount.path().join("kept")).expect("still in the bucket"), b"kept");
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[test]
fn a_holder_that_dies_is_replaced() {
    need!(root_and_fuse());
    let (mut server, mount) = held();
    let mut file = File::options().create_new(true).append(true).open(mount.path().join("log")).expect("made");
    file.write_all(b"one ").expect("written");
    server.end_holder();
    file.write_all(b"two ").expect("the mount does not need its holder while it has a server");
    let again = wait_until(LIMIT, || server.log().contains("keeps the mounts again").then_some(()));
    again.expect("another holder has the mount");
    server.kill9();
    server.restart();
    file.write_all(b"three").expect("the file is still open");
    assert_eq!(std::fs::read(mount.path().join("log")).expect("read"), b"one two three");
    drop(file);
    mount.unmount(&server);
}

#[test]
fn an_orderly_end_keeps_mounts_and_open_deleted_files() {
    need!(root_and_fuse());
    let (mut server, mount) = held();
    let path = mount.path().join("gone");
    let open = File::options().create_new(true).read(true).write(true).open(&path).expect("made");
    open.write_all_at(&[7; 100_000], 0).expect("written");
    std::fs::remove_file(&path).expect("deleted");
    for _ in 0..2 {
        assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
        server.restart();
        assert_eq!(mounts(&server), 1);
        let mut seen = vec![0; 100_000];
        open.read_exact_at(&mut seen, 0).expect("still there");
        assert_eq!(seen, [7; 100_000]);
    }
    drop(open);
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[test]
fn a_listing_with_deletes_misses_nothing_across_a_kill() {
    need!(root_and_fuse());
    let (mut server, mount) = held();
    let folder = mount.path().join("folder");
    std::fs::create_dir(&folder).expect("made");
    for number in 0..3_000 {
        File::create(folder.join(format!("file-{number:05}"))).expect("made");
    }
    let mut listed = 0;
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("listed and there");
        listed += 1;
        if listed == 700 || listed == 1_900 {
            server.kill9();
            server.restart();
        }
    }
    assert_eq!(listed, 3_000);
    std::fs::remove_dir(&folder).expect("empty");
    mount.unmount(&server);
}

#[test]
fn an_upgrade_keeps_mounts_and_connections_or_is_refused() {
    need!(root_and_fuse());
    let (server, mount) = held();
    let mut file = File::create(mount.path().join("f")).expect("made");
    let pid = server.pid();
    let upgraded = json(&server, &["upgrade"]);
    assert!(upgraded["fromVersion"].is_string() && upgraded["fromVersion"] == upgraded["toVersion"], "{upgraded}");
    file.write_all(b"after").expect("the mount continues");
    assert_eq!(server.pid(), pid);
    assert!(answers_http(server.s3()), "the port is the same");
    drop(file);
    mount.unmount(&server);
    let server = Server::start();
    make_bucket(&server, "mine", &[]);
    let mount = Mounted::new(&server, "mine", "m");
    let why = refusal(&server, &["upgrade"], 1);
    assert!(why.contains(mount.path().to_str().expect("a path of ours")) && why.contains("no holder"), "{why}");
    mount.unmount(&server);
    json(&server, &["upgrade"]);
}

fn answers_http(url: &str) -> bool {
    let address = url.strip_prefix("http://").expect("without TLS");
    let mut stream = std::net::TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).is_ok() && &answer == b"HTTP/"
}

/// A holder without mounts ends by itself.
#[test]
fn an_unused_holder_ends() {
    need!(root_and_fuse());
    let (mut server, mount) = held();
    let socket = server.home().socket("holder");
    assert!(socket.exists());
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    wait_until(LIMIT, || (!socket.exists()).then_some(())).expect("the holder ended and removed its socket");
}
