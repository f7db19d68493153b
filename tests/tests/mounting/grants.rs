//! A mount that a restarted server may not, or cannot, serve as before.

use super::*;
use crate::support::cli::refusal;

fn restart_after_kill(server: &mut Server) {
    server.kill9();
    server.restart();
}

#[test]
fn a_mount_with_a_revoked_grant_answers_eacces_also_after_a_restart() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    let (file, key) = alice(&server, "rw");
    mount(&server, &dir, &["--credentials", text(&file)]);
    let inside = dir.join("f");
    std::fs::write(&inside, "content").expect("written");
    json(&server, &["grant", "remove", BUCKET, "--account", "alice"]);
    let denied = |what: &[&str]| {
        let error = look(what).expect_err("no grant");
        assert!(error.contains("Permission denied"), "{what:?}: {error}");
    };
    denied(&["cat", text(&inside)]);
    restart_after_kill(&mut server);
    for what in [&["cat", text(&inside)][..], &["ls", text(&dir)], &["touch", text(&inside)], &["df", text(&dir)]] {
        denied(what);
    }
    assert!(is_reported(&server, "mounts", &dir) && reported(&server, "unservedMounts").is_empty());
    // As with an uninterrupted server, the mount has the rights of its grant.
    json(&server, &["grant", "add", BUCKET, "--account", "alice", "--mode", "rw"]);
    assert_eq!(look(&["cat", text(&inside)]).as_deref(), Ok("content"));
    look(&["touch", text(&inside)]).expect("the mount can be written again");
    // After a restart the account's grant is checked again, not the key.
    json(&server, &["key", "delete", &key.access_key_id]);
    restart_after_kill(&mut server);
    assert_eq!(look(&["cat", text(&inside)]).as_deref(), Ok("content"));
    json(&server, &["account", "delete", "alice"]);
    restart_after_kill(&mut server);
    denied(&["cat", text(&inside)]);
    json(&server, &["umount", text(&dir)]);
    assert!(!is_mounted(&dir));
    assert_eq!(server.terminate().code(), Some(0));
    cli::check_store(&server);
}

/// A holder that keeps a mount under a record changed by `change`.
fn with_record(server: &mut Server, change: impl Fn(&mut Vec<u8>)) {
    server.kill9();
    let holder = fuse::holder::Holder::connect(&server.home().socket("holder")).expect("the holder is there");
    for mut deposit in holder.list().expect("listed") {
        change(&mut deposit.record);
        let descriptors: Vec<_> = deposit.descriptors.iter().map(std::os::fd::AsFd::as_fd).collect();
        holder.deposit(deposit.id, &deposit.record, &descriptors).expect("replaced");
    }
    drop(holder);
    server.restart();
}

#[test]
fn a_mount_that_cannot_be_taken_over_answers_eio_and_is_reported() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    std::fs::write(dir.join("f"), "content").expect("written");
    // As a later version writes records.
    with_record(&mut server, |record| record[0] = 9);
    for what in [&["cat", text(&dir.join("f"))][..], &["ls", text(&dir)], &["touch", text(&dir.join("g"))]] {
        let error = look(what).expect_err("no server serves it");
        assert!(error.contains("Input/output error"), "{what:?}: {error}");
    }
    let unserved = reported(&server, "unservedMounts");
    assert!(unserved.len() == 1 && unserved[0]["dir"] == text(&dir), "{unserved:?}");
    // The version that wrote it is started again.
    with_record(&mut server, |record| record[0] = 1);
    assert_eq!(look(&["cat", text(&dir.join("f"))]).as_deref(), Ok("content"));
    assert!(reported(&server, "unservedMounts").is_empty());
    with_record(&mut server, |record| record[0] = 9);
    json(&server, &["umount", text(&dir)]);
    assert!(!is_mounted(&dir) && reported(&server, "unservedMounts").is_empty());
    mount(&server, &dir, &[]);
    assert_eq!(look(&["cat", text(&dir.join("f"))]).as_deref(), Ok("content"));
    json(&server, &["umount", text(&dir)]);
}

#[test]
fn a_mount_without_a_matching_session_ends_and_is_reported() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    make_bucket(&server, "fakes", &[]);
    mount(&server, &dir, &[]);
    std::fs::write(dir.join("f"), "content").expect("written");
    let renamed = |record: &mut Vec<u8>| {
        let name = format!("\"bucket\":\"{BUCKET}\"").into_bytes();
        let at = record.windows(name.len()).position(|part| part == name).expect("its bucket");
        record[at..at + name.len()].copy_from_slice(b"\"bucket\":\"fakes\"");
    };
    with_record(&mut server, renamed);
    assert!(look(&["cat", text(&dir.join("f"))]).is_err() && !is_mounted(&dir));
    let lost = reported(&server, "lostMounts");
    assert!(lost.len() == 1 && lost[0]["dir"] == text(&dir) && lost[0]["command"].is_string(), "{lost:?}");
    json(&server, &["umount", text(&dir)]);
    assert!(reported(&server, "lostMounts").is_empty());
    refusal(&server, &["umount", text(&dir)], 1);
}

#[test]
fn a_server_without_a_holder_ends_mounts_that_one_keeps() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    let inside = dir.join("f");
    std::fs::write(&inside, "content").expect("written");
    server.kill9();
    *server.options() = server.options().clone().args(["--no-holder"]);
    server.restart();
    assert!(look(&["cat", text(&inside)]).is_err(), "nobody waits");
    assert!(!is_mounted(&dir));
}
