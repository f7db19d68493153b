//! `amphora backup` and `restore`: a running store under load, incremental backups, damaged repositories.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata as _;
use aws_sdk_s3::types::{ObjectOwnership, OwnershipControls, OwnershipControlsRule};
use serde_json::Value;

use super::{count, data_dir, files_below, flip, printed, tree};
use crate::support::access::{Rights, client_of, read, rights, root_client, write};
use crate::support::cli::{account, check_store, json, key_of, refusal};
use crate::support::*;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

fn folder(server: &Server) -> PathBuf {
    server.home().path().join("backups")
}

/// The snapshot that the last backup kept.
fn snapshot(server: &Server) -> String {
    let all = json(server, &["snapshot", "list"]);
    let names = all.as_array().expect("a list").iter().filter_map(|snapshot| snapshot["name"].as_str());
    let mut names = names.filter(|name| name.starts_with("backup-"));
    let name = names.next().expect("it is there").to_owned();
    assert_eq!(names.next(), None, "one stays for each bucket");
    name
}

fn sent(made: &Value) -> u64 {
    made[0]["sentBytes"].as_u64().expect("a number")
}

/// Puts and deletes objects until `stop` is set.
async fn put_on(client: aws_sdk_s3::Client, stop: Arc<AtomicBool>) -> usize {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = format!("load/{}", done % 23);
        write(&client, "docs", &key, &vec![(done % 251) as u8; 1 + done * 7919 % 300_000]).await;
        if done % 5 == 4 {
            client.delete_object().bucket("docs").key(&key).send().await.expect("deleted");
        }
        done += 1;
    }
    done
}

/// Writes files in place, and creates, renames and removes files, until `stop` is set.
fn write_on(dir: &Path, stop: &AtomicBool) -> std::io::Result<usize> {
    use std::os::unix::fs::FileExt as _;
    std::fs::create_dir_all(dir)?;
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(dir.join("database"))?;
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        file.write_all_at(&[(done % 251) as u8; 8192], (done * 7919 % 500 * 4096) as u64)?;
        let (draft, name) = (dir.join("draft"), dir.join(format!("file-{}", done % 17)));
        std::fs::write(&draft, vec![done as u8; done * 31 % 20_000])?;
        rustix::fs::rename(&draft, &name)?;
        if done % 7 == 6 {
            std::fs::remove_file(&name)?;
        }
        done += 1;
    }
    Ok(done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_restores_to_what_its_snapshot_shows() {
    need!(root_and_fuse());
    let mut server = Server::start();
    make_bucket(&server, "docs", &["--versioning", "--quota", "10Gi"]);
    account(&server, "anna");
    json(&server, &["grant", "add", "docs", "--account", "anna", "--mode", "ro"]);
    let mount = Mounted::new(&server, "docs", "live");
    let dir = mount.path().join("mounted");
    std::fs::create_dir(&dir).expect("made");
    std::fs::write(dir.join("a"), vec![1; 700_000]).expect("written");
    std::fs::hard_link(dir.join("a"), dir.join("b")).unwrap_or_default();
    std::os::unix::fs::symlink("a", dir.join("link")).expect("linked");
    std::os::unix::fs::chown(dir.join("a"), Some(7), Some(8)).expect("changed");

    let stop = Arc::new(AtomicBool::new(false));
    let (flag, below) = (stop.clone(), mount.path().join("programs"));
    let program = std::thread::spawn(move || write_on(&below, &flag));
    let putting = tokio::spawn(put_on(root_client(&server), stop.clone()));
    let to = folder(&server);
    for round in 0..3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let made = tokio::task::block_in_place(|| json(&server, &["backup", "docs", text(&to)]));
        assert_eq!(count(&made[0]["damaged"]), 0, "{made}");
        let name = format!("again-{round}");
        tokio::task::block_in_place(|| json(&server, &["restore", text(&to), "docs", "--as", &name]));
        same(&server, &snapshot(&server), &name).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(putting.await.expect("ended") > 10);
    assert!(program.join().expect("ended").expect("no error") > 10);
    let shown = json(&server, &["bucket", "show", "again-2"]);
    assert_eq!((&shown["versioning"], &shown["quotaBytes"]), (&"enabled".into(), &(10_u64 << 30).into()));
    assert!(json(&server, &["grant", "list", "again-2"]).to_string().contains("anna"));
    drop(mount);
    server.terminate();
    check_store(&server);
}

/// Asserts that S3 and mounts show the same content in two buckets.
async fn same(server: &Server, a: &str, b: &str) {
    let client = root_client(server);
    let (of_a, of_b) = (tree::of_s3(&client, a).await, tree::of_s3(&client, b).await);
    assert!(!of_a.is_empty());
    assert_eq!(of_a, of_b);
    tokio::task::block_in_place(|| {
        let (one, two) = (Mounted::new(server, a, "one"), Mounted::new(server, b, "two"));
        let (of_one, of_two) = (tree::of_mount(one.path()), tree::of_mount(two.path()));
        for (path, shown) in &of_one {
            assert_eq!(of_two.get(path), Some(shown), "{path}");
        }
        assert_eq!(of_one.len(), of_two.len());
        one.unmount(server);
        two.unmount(server);
    });
}

#[tokio::test]
async fn an_incremental_backup_writes_only_changes_and_restores_in_another_store() {
    let mut server = Server::start();
    json(&server, &["bucket", "create", "docs"]);
    json(&server, &["bucket", "create", "other"]);
    let client = root_client(&server);
    for at in 0..20 {
        write(&client, "docs", &format!("large-{at}"), &vec![at; 1 << 20]).await;
        write(&client, "docs", &format!("small-{at}"), &vec![at; 20_000]).await;
    }
    write(&client, "other", "k", b"content").await;
    let to = folder(&server);
    let first = json(&server, &["backup", "--all", text(&to)]);
    assert_eq!(count(&first), 2);
    assert!(sent(&first) > 20 << 20, "{first}");
    write(&client, "docs", "large-3", &vec![99; 1 << 20]).await;
    let second = json(&server, &["backup", "docs", text(&to)]);
    assert!((1 << 20..(1 << 20) + 200_000).contains(&sent(&second)), "{second}");
    let listed = json(&server, &["backup", "list", text(&to)]);
    assert_eq!(count(&listed), 3);
    assert_eq!(json(&server, &["backup", "verify", text(&to)])["clean"], true);

    let another = Server::start();
    let restored = json(&another, &["restore", text(&to), "--all"]);
    assert_eq!(count(&restored), 2);
    let theirs = root_client(&another);
    assert_eq!(read(&theirs, "docs", "large-3").await, vec![99; 1 << 20]);
    assert_eq!(read(&theirs, "other", "k").await, b"content");
    assert_eq!(tree::of_s3(&client, "docs").await, tree::of_s3(&theirs, "docs").await);
    assert!(refusal(&another, &["restore", text(&to), "docs"], 1).contains("already exists"));
    let older = listed[0]["id"].as_str().expect("an id");
    json(&another, &["restore", text(&to), "docs", "--at", older, "--as", "docs-before"]);
    assert_eq!(read(&theirs, "docs-before", "large-3").await, vec![3; 1 << 20]);

    json(&server, &["backup", "prune", text(&to), "--keep", "1"]);
    assert_eq!(count(&json(&server, &["backup", "list", text(&to)])), 2);
    assert_eq!(json(&server, &["backup", "verify", text(&to)])["clean"], true);
    server.terminate();
    check_store(&server);
}

#[tokio::test]
async fn a_damaged_backup_and_other_folders_are_refused() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs"]);
    write(&root_client(&server), "docs", "large", &vec![7; 3 << 20]).await;
    let to = folder(&server);
    json(&server, &["backup", "docs", text(&to)]);
    assert!(refusal(&server, &["backup", "docs", &data_dir(&server)], 1).contains("other files than backups"));
    assert!(refusal(&server, &["backup", "gone", text(&to)], 1).contains("does not exist"));
    assert!(refusal(&server, &["backup", "docs"], 2).contains("DEST_DIR"));
    assert!(refusal(&server, &["restore", text(&to), "gone"], 1).contains("no backup"));
    assert!(refusal(&server, &["backup", "list", &data_dir(&server)], 1).contains("not a folder of backups"));
    let mut files = Vec::new();
    files_below(&to.join("data"), &mut files);
    let largest = files.iter().max_by_key(|path| std::fs::metadata(path).map_or(0, |found| found.len())).expect("one");
    flip(largest, 1 << 20);
    let refused = refusal(&server, &["restore", text(&to), "docs", "--as", "again"], 1);
    assert!(refused.contains("damaged") && refused.contains("checksum"), "{refused}");
    assert!(refusal(&server, &["bucket", "show", "again"], 1).contains("does not exist"));
    let (status, verified) = printed(&server, &["backup", "verify", text(&to)]);
    assert_eq!((status, count(&verified["problems"])), (Some(1), 1), "{verified}");
    std::fs::remove_file(largest).expect("removed");
    assert!(refusal(&server, &["restore", text(&to), "docs", "--as", "again"], 1).contains("all of its files"));
}

#[tokio::test]
async fn a_restored_policy_denies_the_same_callers() {
    let (server, another) = (Server::start(), Server::start());
    json(&server, &["bucket", "create", "docs"]);
    account(&server, "anna");
    json(&server, &["grant", "add", "docs", "--account", "anna", "--mode", "rw"]);
    let client = root_client(&server);
    write(&client, "docs", "k", b"content").await;
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": {"AWS": "anna"},
        "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": ["arn:aws:s3:::docs", "arn:aws:s3:::docs/*"]}]}"#;
    client.put_bucket_policy().bucket("docs").policy(policy).send().await.expect("put");
    let to = folder(&server);
    json(&server, &["backup", "docs", text(&to)]);
    // Accounts have other ids in that store.
    account(&another, "zoe");
    for name in ["docs", "docs-again"] {
        json(&another, &["restore", text(&to), "docs", "--as", name]);
    }
    let key = key_of(&json(&another, &["key", "create", "--account", "anna"]));
    for name in ["docs", "docs-again"] {
        assert_eq!(rights(&another, &key, name).await, Rights::Write, "{name}");
        assert_eq!(read(&root_client(&another), name, "k").await, b"content", "{name}");
    }
}

/// Gives a bucket `docs` an object that anna may read, by an ACL alone.
async fn open_to_anna(server: &Server) {
    json(server, &["bucket", "create", "docs"]);
    account(server, "anna");
    let client = root_client(server);
    let rule =
        OwnershipControlsRule::builder().object_ownership(ObjectOwnership::ObjectWriter).build().expect("a rule");
    let controls = OwnershipControls::builder().rules(rule).build().expect("controls");
    client.put_bucket_ownership_controls().bucket("docs").ownership_controls(controls).send().await.expect("set");
    for (key, grant) in [("hers", Some("id=anna")), ("mine", None)] {
        let body = key.as_bytes().to_vec().into();
        let put = client.put_object().bucket("docs").key(key).set_grant_read(grant.map(str::to_owned)).body(body);
        put.send().await.expect("put");
    }
}

#[tokio::test]
async fn an_acl_allows_the_same_callers_after_a_restart_and_a_restore() {
    let (mut server, another) = (Server::start(), Server::start());
    open_to_anna(&server).await;
    server.kill9();
    server.restart();
    let to = folder(&server);
    json(&server, &["backup", "docs", text(&to)]);
    // Accounts have other ids there: the first one has hers.
    account(&another, "zoe");
    json(&another, &["restore", text(&to), "docs"]);
    for server in [&server, &another] {
        let key = key_of(&json(server, &["key", "create", "--account", "anna"]));
        let client = client_of(server, &key);
        assert_eq!(read(&client, "docs", "hers").await, b"hers");
        let refused = client.get_object().bucket("docs").key("mine").send().await.expect_err("it is not hers");
        assert_eq!(refused.code(), Some("AccessDenied"));
    }
    let zoe = key_of(&json(&another, &["key", "create", "--account", "zoe"]));
    let refused =
        client_of(&another, &zoe).get_object().bucket("docs").key("hers").send().await.expect_err("nor zoe's");
    assert_eq!(refused.code(), Some("AccessDenied"));
}
