//! The command line end to end: every noun, as scripts use it, with `--output json`.

use std::fs;

use serde_json::{Value, json as value};

use crate::support::access::{Rights, read, rights, root_client, write};
use crate::support::cli::{account, cli, json, key_of, refusal};
use crate::support::*;

/// The field names of an object, in order.
fn fields(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[tokio::test]
async fn buckets_are_made_shown_changed_and_deleted() {
    let server = Server::start();
    let made = json(&server, &["bucket", "create", "docs", "--quota", "10Mi"]);
    let names = [
        "accessLog",
        "createdAt",
        "fromSnapshot",
        "hiddenKeyCount",
        "inodeCount",
        "name",
        "objectCount",
        "owner",
        "quotaBytes",
        "usedBytes",
        "versioning",
        "website",
    ];
    let mut found = fields(&made);
    found.sort_unstable();
    assert_eq!(found, names, "field names are stable: scripts read them");
    assert_eq!(
        (&made["name"], &made["quotaBytes"], &made["owner"]),
        (&value!("docs"), &value!(10 << 20), &value!("root"))
    );
    assert_eq!(json(&server, &["bucket", "list"]), value!([made]));

    write(&root_client(&server), "docs", "k", &[1; 100 << 10]).await;
    let shown = json(&server, &["bucket", "show", "docs"]);
    assert_eq!((&shown["inodeCount"], &shown["usedBytes"]), (&value!(1), &value!(100 << 10)));
    assert_eq!(json(&server, &["bucket", "set", "docs", "--quota", "1Gi"])["quotaBytes"], value!(1 << 30));
    assert_eq!(json(&server, &["bucket", "set", "docs", "--no-quota"])["quotaBytes"], Value::Null);

    account(&server, "alice");
    let hers = json(&server, &["bucket", "create", "hers", "--owner", "alice"]);
    assert_eq!(hers["owner"], "alice");
    assert!(refusal(&server, &["bucket", "delete", "docs"], 1).contains("--force"), "it says how");
    json(&server, &["bucket", "delete", "docs", "--force"]);
    json(&server, &["bucket", "delete", "hers"]);
    assert_eq!(json(&server, &["bucket", "list"]), value!([]));
}

#[tokio::test]
async fn accounts_keys_and_grants_allow_and_deny_buckets() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs"]);
    let made = json(&server, &["account", "create", "alice", "--may-create-buckets"]);
    assert_eq!((&made["name"], &made["mayCreateBuckets"]), (&value!("alice"), &value!(true)));
    let printed = json(&server, &["key", "create", "--account", "alice"]);
    let key = key_of(&printed);
    let listed = json(&server, &["key", "list", "--account", "alice"]);
    assert_eq!(listed[0]["accessKeyId"], printed["accessKeyId"]);
    assert!(!listed.to_string().contains(&key.secret_access_key), "a secret is shown once");

    let hers = access::client_of(&server, &key);
    hers.create_bucket().bucket("by-alice").send().await.expect("she may");
    let grant = json(&server, &["grant", "add", "docs", "--account", "alice", "--mode", "ro"]);
    assert_eq!(grant, value!({"bucket": "docs", "account": "alice", "mode": "ro"}));
    assert_eq!(rights(&server, &key, "docs").await, Rights::Read);
    let all = json(&server, &["grant", "list", "--account", "alice"]);
    let of_docs = json(&server, &["grant", "list", "docs"]);
    assert!(all.as_array().is_some_and(|all| all.contains(&grant)), "{all}");
    assert!(of_docs.as_array().is_some_and(|all| all.contains(&grant)), "{of_docs}");

    // An account has two key slots, so that a key can be replaced without a gap.
    let second = key_of(&json(&server, &["key", "rotate", "--account", "alice"]));
    assert_eq!(rights(&server, &second, "docs").await, Rights::Read);
    assert_eq!(rights(&server, &key, "docs").await, Rights::Read, "the old key works until the next rotation");
    let third = key_of(&json(&server, &["key", "rotate", "--account", "alice"]));
    assert_eq!(rights(&server, &key, "docs").await, Rights::UnknownKey);
    assert_eq!(rights(&server, &third, "docs").await, Rights::Read);

    json(&server, &["key", "delete", &second.access_key_id]);
    assert_eq!(rights(&server, &second, "docs").await, Rights::UnknownKey);
    json(&server, &["grant", "remove", "docs", "--account", "alice"]);
    assert_eq!(rights(&server, &third, "docs").await, Rights::None);
    json(&server, &["bucket", "delete", "by-alice"]);
    json(&server, &["account", "delete", "alice"]);
    assert_eq!(rights(&server, &third, "docs").await, Rights::UnknownKey);
}

#[tokio::test]
async fn a_snapshot_can_be_read_and_cloned() {
    let server = Server::start();
    let client = root_client(&server);
    json(&server, &["bucket", "create", "docs"]);
    write(&client, "docs", "k", b"old").await;
    let taken = json(&server, &["snapshot", "create", "docs", "docs-monday"]);
    assert_eq!((&taken["name"], &taken["bucket"]), (&value!("docs-monday"), &value!("docs")));
    write(&client, "docs", "k", b"new").await;
    assert_eq!(read(&client, "docs-monday", "k").await, b"old", "a snapshot is read under its own name");
    let put = client.put_object().bucket("docs-monday").key("k").body(Vec::new().into()).send().await;
    assert_eq!(access::code(put), "AccessDenied");
    let clone = json(&server, &["bucket", "create", "copy", "--from-snapshot", "docs-monday"]);
    assert_eq!(clone["fromSnapshot"], "docs-monday");
    assert_eq!(read(&client, "copy", "k").await, b"old");
    write(&client, "copy", "k", b"other").await;
    assert_eq!(json(&server, &["snapshot", "list", "docs"]), json(&server, &["snapshot", "list"]));
    json(&server, &["snapshot", "delete", "docs-monday"]);
    assert_eq!(json(&server, &["snapshot", "list"]), value!([]));
    assert_eq!(
        (read(&client, "copy", "k").await, read(&client, "docs", "k").await),
        (b"other".to_vec(), b"new".to_vec())
    );
}

#[tokio::test]
async fn a_bucket_is_mounted_and_unmounted() {
    need!(root_and_fuse());
    let server = Server::start();
    let client = root_client(&server);
    json(&server, &["bucket", "create", "docs"]);
    write(&client, "docs", "team/k", b"1").await;
    let dir = server.home().path().join("mnt");
    fs::create_dir(&dir).expect("made");
    let at = dir.to_str().expect("UTF-8");

    json(&server, &["mount", "docs", at]);
    fs::write(dir.join("team/f"), "2").expect("written");
    assert_eq!(read(&client, "docs", "team/f").await, b"2");
    let point = value!([{"bucket": "docs", "dir": at, "readOnly": false, "keep": false}]);
    assert_eq!(json(&server, &["status"])["mounts"], point);
    assert_eq!(json(&server, &["volume", "show", "docs"])["mounts"], point);
    assert!(refusal(&server, &["mount", "docs", at], 1).contains(at), "a directory is mounted once");
    assert!(refusal(&server, &["bucket", "delete", "docs", "--force"], 1).contains("umount"), "it says how");
    json(&server, &["umount", at]);
    assert!(refusal(&server, &["umount", at], 1).contains(at));
    assert_eq!(fs::read_dir(&dir).expect("there").count(), 0, "nothing is left in the directory");

    json(&server, &["mount", "docs", at, "-o", "ro,prefix=team"]);
    assert_eq!(fs::read(dir.join("f")).expect("there"), b"2");
    assert!(fs::write(dir.join("f"), "3").is_err());
    json(&server, &["umount", at]);

    // A key has the rights of its account's grant and no more.
    let alice = account(&server, "alice");
    let file = server.home().path().join("alice");
    let pair = (&alice.access_key_id, &alice.secret_access_key);
    let text = format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n", pair.0, pair.1);
    write_private(&file, text);
    let credentials = file.to_str().expect("UTF-8");
    let refused = refusal(&server, &["mount", "docs", at, "--credentials", credentials], 1);
    assert!(refused.contains("alice") || refused.contains("docs"), "{refused}");
    json(&server, &["grant", "add", "docs", "--account", "alice", "--mode", "ro"]);
    json(&server, &["mount", "docs", at, "--credentials", credentials]);
    assert_eq!(json(&server, &["status"])["mounts"][0]["readOnly"], true);
    json(&server, &["umount", at]);

    json(&server, &["snapshot", "create", "docs", "docs-1"]);
    fs::write(server.home().path().join("unrelated"), "").expect("written");
    write(&client, "docs", "team/k", b"new").await;
    json(&server, &["mount", "docs-1", at]);
    assert_eq!(fs::read(dir.join("team/k")).expect("there"), b"1");
    assert!(fs::write(dir.join("team/k"), "3").is_err(), "a snapshot cannot be changed");
    json(&server, &["umount", at]);
}

#[tokio::test]
async fn status_and_check_report_the_state() {
    let mut server = Server::start();
    json(&server, &["bucket", "create", "docs"]);
    write(&root_client(&server), "docs", "k", &[1; 300 << 10]).await;
    let status = json(&server, &["status"]);
    assert_eq!((&status["buckets"], &status["poisoned"]), (&value!(1), &Value::Null), "{status}");
    assert_eq!(status["dataDir"], server.home().data_dir().to_str().expect("UTF-8"));
    assert_eq!(format!("http://{}", status["s3Address"].as_str().expect("in the answer")), server.s3());
    assert!(status["version"].is_string() && status["uptimeMs"].is_u64(), "{status}");
    assert_eq!(server.terminate().code(), Some(0));
    let data = server.home().data_dir().display().to_string();
    let report = json(&server, &["check", &data]);
    assert_eq!((&report["clean"], &report["problems"]), (&value!(true), &value!([])), "{report}");
    assert_eq!(report["verifiedBytes"], 300 << 10, "content is read, not only named: {report}");

    // Damages a block of content on the disk.
    let blob = largest_file(&server.home().data_dir().join("content"));
    let mut bytes = fs::read(&blob).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).expect("written");
    let outcome = cli(&server, &["check", &data, "--output", "json"]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(report["clean"], false, "{report}");
    assert!(report["problems"].as_array().is_some_and(|problems| !problems.is_empty()), "{report}");
}

fn largest_file(dir: &std::path::Path) -> std::path::PathBuf {
    let mut found = (0, std::path::PathBuf::new());
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let meta = entry.metadata().expect("readable");
            if meta.is_dir() {
                folders.push(entry.path());
            } else if meta.len() > found.0 {
                found = (meta.len(), entry.path());
            }
        }
    }
    found.1
}

#[test]
fn people_get_tables_and_scripts_get_statuses() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs", "--quota", "1Gi"]);
    let table = cli(&server, &["bucket", "list"]);
    let lines: Vec<_> = table.stdout.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[1].starts_with("docs") && lines[1].contains("1Gi"), "{table}");
    for (args, status) in [
        (&["--version"][..], 0),
        (&["--help"], 0),
        (&["bucket", "--help"], 0),
        (&["completions", "bash"], 0),
        (&["nonsense"], 2),
    ] {
        let outcome = cli(&server, args);
        assert_eq!(outcome.status.code(), Some(status), "{outcome}");
        assert_eq!(outcome.stdout.is_empty(), status != 0, "{outcome}");
    }
}

#[tokio::test]
async fn the_root_key_is_private_and_can_be_chosen() {
    use std::os::unix::fs::PermissionsExt;

    let options = Options::default()
        .env("AMPHORA_ROOT_ACCESS_KEY_ID", "AKGIVEN")
        .env("AMPHORA_ROOT_SECRET_ACCESS_KEY", "a-given-secret-of-some-length");
    let mut server = options.start();
    assert_eq!(server.credentials().access_key_id, "AKGIVEN");
    let file = server.home().data_dir().join("root-credentials");
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    root_client(&server).create_bucket().bucket("docs").send().await.expect("it works");
    server.restart();
    root_client(&server).head_bucket().bucket("docs").send().await.expect("it still works");
    assert!(!server.log().contains("a-given-secret"), "the secret is in the log");
}
