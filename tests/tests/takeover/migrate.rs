//! `amphora migrate`: a store moves to PostgreSQL and S3 and back, is interrupted by kill -9, and keeps everything that its
//! clients know.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, getxattr, setxattr};
use serde_json::Value;
use tests::server::Options;

use super::shared::Shared;
use crate::csi::Driver;
use crate::csi::block::devices;
use crate::support::access::{client_of, read, root_client, write};
use crate::support::cli::{account, check_store, cli, json, listings};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);
const BUCKET: &str = "moved";
/// Without versioning: its files may have several names.
const FILES: &str = "files";
const XATTR: &str = "user.colour";

/// The command, with the parts of the shared store.
fn migrate(server: &Server, shared: &Shared, more: &[&str]) -> Command {
    let elsewhere = shared.content();
    let (key, url) = (elsewhere.credentials(), shared.postgres.url());
    let args = ["migrate", "--output=json", "--single-postgres", "--metadata-url", &url];
    let place = ["--content-url", "s3://content/takeover", "--content-endpoint", elsewhere.s3()];
    let mut command = server.cli(args.iter().chain(&place).chain(more));
    command.env("AWS_ACCESS_KEY_ID", &key.access_key_id).env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
    // What a killed command leaves goes with the test.
    command.env("TMPDIR", server.home().path());
    command
}

fn moved(mut command: Command) -> Value {
    let outcome = run(&mut command, LIMIT).expect("it ends");
    assert!(outcome.status.success(), "{outcome}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
    assert!(report["moved"] == true && report["problems"] == Value::Array(vec![]), "{outcome}");
    report
}

fn refusal(mut command: Command, word: &str) {
    let outcome = run(&mut command, LIMIT).expect("it ends");
    assert!(!outcome.status.success() && outcome.stderr.contains(word), "{word}: {outcome}");
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of ours").to_owned()
}

fn body(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

/// Fills the store through S3.
async fn fill_by_s3(server: &Server) -> (Credentials, String) {
    make_bucket(server, BUCKET, &["--versioning"]);
    make_bucket(server, FILES, &[]);
    let client = root_client(server);
    write(&client, FILES, "large", &body(6, 5 << 20)).await;
    for (key, len) in [("small", 100), ("packed", 30_000), ("d/packed", 70_000), ("large", 20 << 20)] {
        write(&client, BUCKET, key, &body(len as u8, len)).await;
    }
    write(&client, BUCKET, "packed", &body(7, 40_000)).await;
    client.delete_object().bucket(BUCKET).key("small").send().await.expect("a delete marker");
    let put = client.put_object().bucket(BUCKET).key("tagged").tagging("team=red").content_type("text/x-story");
    put.metadata("said", "kept").body(body(1, 3000).into()).send().await.expect("put");
    upload(&client, "parts", true).await;
    let unfinished = upload(&client, "unfinished", false).await;
    let user = account(server, "user");
    assert!(cli(server, &["grant", "add", BUCKET, "--account", "user", "--mode", "rw"]).status.success());
    assert!(cli(server, &["snapshot", "create", BUCKET, "shot"]).status.success());
    assert!(cli(server, &["bucket", "create", "cloned", "--from-snapshot", "shot"]).status.success());
    write(&client, "cloned", "packed", &body(3, 50_000)).await;
    (user, unfinished)
}

async fn upload(client: &Client, key: &str, complete: bool) -> String {
    let begun = client.create_multipart_upload().bucket(BUCKET).key(key).send().await.expect("begun");
    let id = begun.upload_id().expect("an id").to_owned();
    let mut parts = Vec::new();
    for number in 1..=2 {
        let part = client.upload_part().bucket(BUCKET).key(key).upload_id(&id).part_number(number);
        let part = part.body(body(number as u8, 6 << 20).into()).send().await.expect("a part");
        parts.push(CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build());
    }
    if complete {
        let all = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let done = client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(&id).multipart_upload(all);
        done.send().await.expect("completed");
    }
    id
}

/// Fills the store through a mount.
#[expect(clippy::disallowed_methods, reason = "a program syncs its file")]
fn fill_by_mount(server: &Server) {
    let mount = Mounted::new(server, FILES, "m");
    let at = |name: &str| mount.path().join(name);
    std::fs::create_dir(at("folder")).expect("a folder");
    std::fs::write(at("folder/file"), body(9, 700_000)).expect("written");
    std::fs::hard_link(at("folder/file"), at("linked")).expect("linked");
    symlink("folder/file", at("symbolic")).expect("linked");
    setxattr(at("linked"), XATTR, b"red", XattrFlags::empty()).expect("an attribute");
    let sparse = std::fs::File::create(at("sparse")).expect("made");
    sparse.set_len(40 << 20).expect("longer");
    sparse.write_all_at(&body(4, 300_000), 9 << 20).expect("written");
    fallocate(&sparse, FallocateFlags::KEEP_SIZE, 0, 1 << 20).expect("reserved");
    sparse.sync_all().expect("synced");
    let large = std::fs::OpenOptions::new().write(true).open(at("large")).expect("opened");
    large.write_all_at(b"changed by a program", 3 << 20).expect("written");
    drop((large, sparse));
    mount.unmount(server);
}

/// Fills a block volume, and takes it down.
#[expect(clippy::disallowed_methods, reason = "a program syncs its device")]
async fn fill_device(server: Server) -> Server {
    let mut driver = Driver::of(server).await;
    let volume = driver.create_block("disk", 64, None).await;
    let device = driver.device(&volume, &HashMap::new()).await;
    let opened = std::fs::OpenOptions::new().write(true).open(&device).expect("opened");
    opened.write_all_at(&body(5, 1 << 20), 33 << 20).expect("written");
    opened.sync_all().expect("synced");
    drop(opened);
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    driver.server
}

/// Everything of a store that S3 clients and programs see.
async fn seen(server: &Server) -> BTreeMap<String, String> {
    let client = root_client(server);
    let mut seen = BTreeMap::from([("listings".to_owned(), listings(server))]);
    for bucket in json(server, &["bucket", "list"]).as_array().expect("buckets") {
        let bucket = bucket["name"].as_str().expect("a name");
        let listed = client.list_object_versions().bucket(bucket).send().await.expect("listed");
        for version in listed.versions() {
            let (key, id) = (version.key().expect("a key"), version.version_id().expect("an id"));
            let got = client.get_object().bucket(bucket).key(key).version_id(id).send().await.expect("got");
            let headers = format!("{:?} {:?} {:?}", got.content_type(), got.metadata(), got.tag_count());
            let content = got.body.collect().await.expect("a body").into_bytes();
            seen.insert(format!("{bucket}/{key}/{id}"), format!("{version:?} {headers} {}", hash(&content)));
        }
        seen.insert(format!("{bucket} markers"), format!("{:?}", listed.delete_markers()));
        let uploads = client.list_multipart_uploads().bucket(bucket).send().await.expect("listed");
        seen.insert(format!("{bucket} uploads"), format!("{:?}", uploads.uploads()));
        if root_and_fuse().is_ok() {
            let mount = Mounted::new(server, bucket, &format!("seen-{bucket}"));
            walk(mount.path(), &mut |path, text| {
                let name = path.strip_prefix(mount.path()).expect("below").display();
                seen.insert(format!("mount of {bucket}: {name}"), text);
            });
            mount.unmount(server);
        }
    }
    seen
}

fn walk(dir: &Path, tell: &mut dyn FnMut(&Path, String)) {
    for entry in std::fs::read_dir(dir).expect("listed") {
        let path = entry.expect("an entry").path();
        let meta = path.symlink_metadata().expect("there");
        let mut value = [0; 64];
        let attribute = getxattr(&path, XATTR, &mut value).map_or(&[][..], |len| &value[..len]);
        let content = match () {
            () if meta.is_file() => hash(&std::fs::read(&path).expect("readable")),
            () if meta.is_symlink() => hash(path.read_link().expect("a link").as_os_str().as_encoded_bytes()),
            () => 0,
        };
        let known = (meta.ino(), meta.mode(), meta.nlink(), meta.uid(), meta.size(), meta.mtime(), meta.mtime_nsec());
        tell(&path, format!("{known:?} {attribute:?} {content:x}"));
        if meta.is_dir() {
            walk(&path, tell);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[track_caller]
fn same(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) {
    for (what, value) in expected {
        assert_eq!(found.get(what), Some(value), "{what}");
    }
    assert_eq!(found.len(), expected.len());
}

/// Runs the command until the bucket has some objects, and kills it.
async fn kill_in_the_middle(mut command: Command, shared: &Shared) {
    let client = root_client(shared.content());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    loop {
        let listed = client.list_objects_v2().bucket("content").prefix("takeover/").send().await.expect("listed");
        if listed.contents().len() >= 6 {
            break;
        }
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be killed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().expect("killed");
    assert!(!child.wait().expect("ended").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_to_postgresql_and_s3_and_back_with_everything_that_it_has() {
    let shared = need!(Shared::of_our_own());
    // Nothing of the environment says where its parts are.
    let mut server = Options::default().env("AMPHORA_METADATA_URL", "").env("AMPHORA_CONTENT_URL", "").start();
    let (user, unfinished) = fill_by_s3(&server).await;
    if root_and_fuse().is_ok() {
        fill_by_mount(&server);
    }
    if devices().is_ok() {
        server = fill_device(server).await;
    }
    let before = seen(&server).await;
    let data = text(&server.home().data_dir());
    refusal(migrate(&server, &shared, &["--data-dir", &data]), "stop it first");
    assert_eq!(server.terminate().code(), Some(0));

    kill_in_the_middle(migrate(&server, &shared, &["--data-dir", &data]), &shared).await;
    let early = shared.options().try_start().expect_err("it is not complete");
    assert!(early.contains("run the same `amphora migrate` again"), "{early}");
    let report = moved(migrate(&server, &shared, &["--data-dir", &data]));
    assert!(report["found"].as_u64() > Some(0), "{report}");
    let old = server.try_restart().expect_err("the old copy is refused");
    assert!(old.contains("was moved to s3://content/takeover"), "{old}");

    let mut owner = shared.options().start();
    same(&seen(&owner).await, &before);
    write(&client_of(&owner, &user), BUCKET, "by-the-old-key", b"content").await;
    write(&root_client(&owner), BUCKET, "later", &body(8, 200_000)).await;
    let aborted = root_client(&owner).abort_multipart_upload().bucket(BUCKET).key("unfinished").upload_id(&unfinished);
    aborted.send().await.expect("the upload is there");
    if root_and_fuse().is_ok() {
        let mount = Mounted::new(&owner, FILES, "later");
        let file = std::fs::OpenOptions::new().write(true).open(mount.path().join("folder/file")).expect("opened");
        file.write_all_at(&body(2, 5000), 100).expect("written");
        drop(file);
        std::fs::write(mount.path().join("new"), body(6, 600_000)).expect("written");
        mount.unmount(&owner);
    }
    let after = seen(&owner).await;
    std::fs::remove_dir_all(&data).expect("the old copy");
    refusal(migrate(&server, &shared, &["--to-data-dir", &data]), "owns this store");
    assert_eq!(owner.terminate().code(), Some(0));
    let url = shared.postgres.url();
    let place = ["--metadata-url", &url, "--content-url", "s3://content/takeover", "--checksums"];
    let key = shared.content().credentials();
    let mut check = server.cli(["check"].iter().chain(&place).chain(&["--content-endpoint", shared.content().s3()]));
    check.env("AWS_ACCESS_KEY_ID", &key.access_key_id).env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
    let checked = run(&mut check, LIMIT).expect("it ends");
    assert!(checked.status.success(), "{checked}");

    moved(migrate(&server, &shared, &["--to-data-dir", &data]));
    let gone = owner.try_restart().expect_err("it was moved");
    assert!(gone.contains("this store was moved to"), "{gone}");
    server.restart();
    same(&seen(&server).await, &after);
    assert_eq!(read(&client_of(&server, &user), BUCKET, "by-the-old-key").await, b"content");
    assert_eq!(server.terminate().code(), Some(0));
    check_store(&server);
    server.restart();
    same(&seen(&server).await, &after);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_store_with_mounts_that_a_holder_keeps_is_refused() {
    need!(root_and_fuse());
    let shared = need!(Shared::of_our_own());
    let local = Options::default().env("AMPHORA_METADATA_URL", "").env("AMPHORA_CONTENT_URL", "");
    let mut server = local.holder().start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::held(&server, BUCKET, "held");
    std::fs::write(mount.path().join("file"), "content").expect("written");
    assert_eq!(server.terminate().code(), Some(0));
    let data = text(&server.home().data_dir());
    let socket = format!("unix://{}", server.home().socket("holder").display());
    let out = ["--data-dir", &data, "--holder-endpoint", &socket];
    refusal(migrate(&server, &shared, &out), "unmount them first");
    server.restart();
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0));
    moved(migrate(&server, &shared, &out));
}
