//! Mounts after both the server and its holder crashed.

use super::*;

/// Kills the server and its holder, and starts another server.
fn lose_both(server: &mut Server) {
    server.kill9();
    server.end_holder();
    server.restart();
}

#[test]
fn mounts_with_keep_are_restored_and_others_are_reported_with_the_command() {
    need!(root_and_fuse());
    let (mut server, kept) = served();
    let lost = folder(&server, "it's lost");
    mount(&server, &kept, &["--keep", "-o", "umask=027"]);
    mount(&server, &lost, &["-o", "ro"]);
    std::fs::write(kept.join("f"), "content").expect("written");
    lose_both(&mut server);
    assert_eq!(look(&["cat", text(&kept.join("f"))]).as_deref(), Ok("content"));
    assert_eq!(look(&["stat", "-c", "%a", text(&kept.join("f"))]).as_deref(), Ok("640\n"));
    assert!(look(&["cat", text(&lost.join("f"))]).is_err());
    let told_lost = reported(&server, "lostMounts");
    assert!(told_lost.len() == 1 && told_lost[0]["dir"] == text(&lost), "{told_lost:?}");
    let command = told_lost[0]["command"].as_str().expect("a command");
    let again = command.replacen("amphora", text(Path::new(server.cli(["status"]).get_program())), 1);
    let mut shell = Command::new("sh");
    let admin = format!("unix://{}", server.home().socket("admin").display());
    shell.args(["-c", &again]).env("AMPHORA_ADMIN_ENDPOINT", admin);
    drop(run(&mut shell, LOOK).unwrap_or_else(|error| panic!("{error}")).ok());
    assert_eq!(look(&["cat", text(&lost.join("f"))]).as_deref(), Ok("content"));
    assert!(reported(&server, "lostMounts").is_empty());
    let read_only =
        reported(&server, "mounts").iter().any(|mount| mount["dir"] == text(&lost) && mount["readOnly"] == true);
    assert!(read_only, "as it was");
    // Until it is unmounted.
    json(&server, &["umount", text(&kept)]);
    json(&server, &["umount", text(&lost)]);
    lose_both(&mut server);
    assert!(!is_mounted(&kept) && reported(&server, "mounts").is_empty() && reported(&server, "lostMounts").is_empty());
}

#[test]
fn a_mount_with_keep_is_restored_without_a_holder() {
    need!(root_and_fuse());
    let mut server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let (dir, plain) = (folder(&server, "m"), folder(&server, "plain"));
    mount(&server, &dir, &["--keep"]);
    mount(&server, &plain, &[]);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!is_mounted(&dir));
    server.restart();
    assert!(is_mounted(&dir) && !is_mounted(&plain) && reported(&server, "lostMounts").is_empty());
    server.kill9();
    server.restart();
    assert!(is_reported(&server, "mounts", &dir));
    look(&["touch", text(&dir.join("f"))]).expect("it is served");
    json(&server, &["umount", text(&dir)]);
    server.restart();
    assert!(reported(&server, "mounts").is_empty());
}

#[test]
fn a_restored_mount_has_the_present_rights_and_stores_no_secret() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    let (file, key) = alice(&server, "rw");
    mount(&server, &dir, &["--keep", "--credentials", text(&file)]);
    std::fs::remove_file(&file).expect("removed");
    for record in std::fs::read_dir(server.home().data_dir().join("mounts")).expect("records").flatten() {
        let content = std::fs::read_to_string(record.path()).expect("text");
        assert!(content.contains(&key.access_key_id) && !content.contains(&key.secret_access_key), "{content}");
    }
    json(&server, &["grant", "add", BUCKET, "--account", "alice", "--mode", "ro"]);
    lose_both(&mut server);
    look(&["ls", text(&dir)]).expect("it is there again");
    assert!(look(&["touch", text(&dir.join("f"))]).is_err(), "the grant permits only reading now");
    json(&server, &["key", "delete", &key.access_key_id]);
    lose_both(&mut server);
    assert!(look(&["ls", text(&dir.join("f"))]).is_err());
    let lost = reported(&server, "lostMounts");
    assert!(lost.len() == 1 && lost[0]["why"].as_str().is_some_and(|why| why.contains("deleted")), "{lost:?}");
    json(&server, &["umount", text(&dir)]);
    assert!(reported(&server, "lostMounts").is_empty());
}

#[test]
fn a_new_bucket_of_the_same_name_is_not_mounted_in_place_of_the_old_one() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &["--keep"]);
    look(&["umount", text(&dir)]).expect("unmounted without the server");
    assert!(reported(&server, "mounts").is_empty());
    json(&server, &["bucket", "delete", BUCKET, "--force"]);
    make_bucket(&server, BUCKET, &[]);
    server.restart();
    assert!(!is_mounted(&dir));
    let lost = reported(&server, "lostMounts");
    assert!(lost.len() == 1 && lost[0]["why"].as_str().is_some_and(|why| why.contains("another bucket")), "{lost:?}");
    mount(&server, &dir, &["--keep"]);
    look(&["umount", text(&dir)]).expect("unmounted without the server");
    server.restart();
    assert!(is_reported(&server, "mounts", &dir), "only amphora umount ends a mount with --keep");
    json(&server, &["umount", text(&dir)]);
}
