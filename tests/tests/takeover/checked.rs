//! `amphora check --metadata-url … --content-url …`: a store without a data folder, whole and damaged.

use std::time::Duration;

use aws_sdk_s3::Client;
use serde_json::Value;

use super::shared::Shared;
use crate::support::access::root_client;
use crate::support::*;

const BUCKET: &str = "checked";
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the command on the parts of a store.
fn check(server: &Server, shared: &Shared, content: &str, more: &[&str]) -> Outcome {
    let elsewhere = shared.content();
    let key = elsewhere.credentials();
    let url = shared.postgres.url();
    let args = ["check", "--output=json", "--metadata-url", &url, "--content-url", content];
    let mut command = server.cli(args.iter().chain(&["--content-endpoint", elsewhere.s3()]).chain(more));
    command.env("AWS_ACCESS_KEY_ID", &key.access_key_id).env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
    run(&mut command, LIMIT).expect("it ends")
}

fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

async fn keys(client: &Client, prefix: &str) -> Vec<(String, i64)> {
    let listed = client.list_objects_v2().bucket("content").prefix(prefix).send().await.expect("listed");
    listed.contents().iter().map(|it| (it.key().unwrap_or_default().to_owned(), it.size().unwrap_or(0))).collect()
}

async fn overwrite(client: &Client, key: &str, content: Vec<u8>) {
    client.put_object().bucket("content").key(key).body(content.into()).send().await.expect("overwritten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a program syncs its file")]
async fn a_store_is_checked_without_a_server_and_nothing_is_written() {
    let shared = need!(Shared::of_our_own());
    let mut owner = shared.options().start();
    make_bucket(&owner, BUCKET, &[]);
    let client = root_client(&owner);
    for (key, len) in [("inline", 100), ("packed", 30_000), ("large", 400_000)] {
        let body: Vec<u8> = (0..len).map(|at: u32| (at % 241) as u8).collect();
        client.put_object().bucket(BUCKET).key(key).body(body.into()).send().await.expect("put");
    }
    if root_and_fuse().is_ok() {
        let mount = Mounted::new(&owner, BUCKET, "m");
        let path = mount.path().join("file");
        std::fs::write(&path, vec![7; 700_000]).expect("written");
        std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("synced");
        mount.unmount(&owner);
    }
    let own = "s3://content/takeover";
    let refused = check(&owner, &shared, own, &[]);
    assert!(refused.stderr.contains("owns this store") && refused.stderr.contains("--metadata-only"), "{refused}");
    let records = check(&owner, &shared, own, &["--metadata-only"]);
    assert!(records.status.success() && report(&records)["clean"] == true, "beside a server: {records}");
    assert_eq!(owner.terminate().code(), Some(0));
    std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder");

    let elsewhere = root_client(shared.content());
    let state = || {
        shared
            .postgres
            .sql("SELECT epoch, server, renewed, first, (SELECT max(number) FROM amphora.log) FROM amphora.owner")
    };
    let (before, objects) = (state(), keys(&elsewhere, "takeover/").await);
    for more in [&[][..], &["--checksums"]] {
        let checked = check(&owner, &shared, own, more);
        assert!(checked.status.success(), "{checked}");
        let report = report(&checked);
        assert!(report["clean"] == true && report["blobs"].as_u64() >= Some(2), "{report}");
        assert_eq!(report["verifiedBytes"].as_u64() > Some(400_000), !more.is_empty(), "{report}");
    }
    assert_eq!((state(), keys(&elsewhere, "takeover/").await), (before, objects), "it only reads");

    let large = keys(&elsewhere, "takeover/blobs/").await.into_iter().find(|(_, size)| *size == 400_000);
    let (large, _) = large.expect("the large object");
    let good = elsewhere.get_object().bucket("content").key(&large).send().await.expect("got");
    let good = good.body.collect().await.expect("a body").to_vec();
    let mut flipped = good.clone();
    flipped[200_000] ^= 1;
    overwrite(&elsewhere, &large, flipped).await;
    assert!(check(&owner, &shared, own, &[]).status.success(), "the length is right");
    let named = |outcome: &Outcome| report(outcome)["problems"].to_string();
    let found = check(&owner, &shared, own, &["--checksums"]);
    assert!(!found.status.success() && named(&found).contains("large"), "{found}");
    overwrite(&elsewhere, &large, good[1..].to_vec()).await;
    let found = check(&owner, &shared, own, &[]);
    assert!(!found.status.success() && named(&found).contains("399999 bytes"), "{found}");
    elsewhere.delete_object().bucket("content").key(&large).send().await.expect("deleted");
    let found = check(&owner, &shared, own, &[]);
    assert!(named(&found).contains("no object") && named(&found).contains("large"), "{found}");
    overwrite(&elsewhere, &large, good).await;
    assert!(check(&owner, &shared, own, &["--checksums"]).status.success(), "it is whole again");

    let other = check(&owner, &shared, "s3://content/nobodys", &[]);
    assert!(!other.status.success() && other.stderr.contains("is missing"), "{other}");
    shared.postgres.sql("ALTER SCHEMA amphora RENAME TO hidden");
    let none = check(&owner, &shared, own, &[]);
    assert!(none.stderr.contains("has no store's log"), "{none}");
    assert_eq!(shared.postgres.sql("SELECT to_regclass('amphora.owner') IS NULL"), "t", "nothing was made");
    shared.postgres.sql("ALTER SCHEMA hidden RENAME TO amphora");
    shared.postgres.sql("UPDATE amphora.version SET version = 99");
    let newer = check(&owner, &shared, own, &[]);
    assert!(newer.stderr.contains("of version 99"), "{newer}");
}

/// Files of every size, as a program writes them that syncs nothing.
fn write_unsynced(root: &std::path::Path, round: usize) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for (number, len) in [0, 100, 5000, 70_000, 700_000].into_iter().enumerate() {
        let path = root.join(format!("{round}-{number}"));
        let content: Vec<u8> = (0..len).map(|at: usize| (at * 31 % 251) as u8).collect();
        std::fs::write(&path, &content).expect("written");
        files.push((path, content));
    }
    files
}

/// A file that no sync made durable may be missing or have zeros, as after a power cut. It is never damaged.
#[test]
fn files_that_were_not_synced_when_the_owner_died_are_no_damage() {
    need!(root_and_fuse());
    let shared = need!(Shared::of_our_own());
    let mut owner = shared.options().start();
    make_bucket(&owner, BUCKET, &[]);
    let mut rng = Rng::new("takeover::unsynced");
    let own = "s3://content/takeover";
    for round in 0..amount(1, 30) {
        let mount = Mounted::new(&owner, BUCKET, &format!("m-{round}"));
        let mut files = Vec::new();
        for step in 0..3 {
            files.extend(write_unsynced(mount.path(), round * 10 + step));
            std::thread::sleep(Duration::from_millis(rng.below(900) as u64));
        }
        let (root, reopened) = (mount.path().to_owned(), format!("again-{round}"));
        owner.kill9();
        mount.break_off();
        std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder of the dead server");
        for more in [&[][..], &["--checksums"]] {
            let checked =
                || Some(check(&owner, &shared, own, more)).filter(|it| !it.stderr.contains("owns this store"));
            let checked = wait_until(LIMIT, checked).expect("the lease ends");
            assert!(checked.status.success() && report(&checked)["clean"] == true, "round {round}: {checked}");
        }
        owner.restart();
        let mount = Mounted::new(&owner, BUCKET, &reopened);
        let mut whole = 0;
        for (path, content) in files {
            let path = mount.path().join(path.strip_prefix(&root).expect("below the mount"));
            let found = match std::fs::read(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                found => found.unwrap_or_else(|error| panic!("round {round}: {}: {error}", path.display())),
            };
            let same = found.iter().zip(&content).all(|(found, written)| *found == *written || *found == 0);
            assert!(same && found.len() <= content.len(), "round {round}: {} has other bytes", path.display());
            whole += usize::from(found == content);
        }
        super::report(&format!("not synced, round {round}: {whole} of 15 files whole"));
        mount.unmount(&owner);
    }
    assert_eq!(owner.terminate().code(), Some(0));
    assert!(check(&owner, &shared, own, &["--checksums"]).status.success());
}
