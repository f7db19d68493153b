//! The AWS SDK for Rust: a round trip, a multipart upload, and a revoked key.

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};

use crate::support::access::{Rights, client_of, code, read, rights, root_client, write};
use crate::support::cli::{account, json};
use crate::support::*;

#[tokio::test]
async fn objects_round_trip_and_survive_a_crash() {
    let mut server = Server::start();
    let client = root_client(&server);
    client.create_bucket().bucket("docs").send().await.expect("made");
    let contents = [0, 1, 4 << 10, (4 << 10) + 1, (128 << 10) + 1, 5 << 20].map(|len| vec![b'x'; len]);
    for (number, content) in contents.iter().enumerate() {
        write(&client, "docs", &format!("dir/{number}"), content).await;
    }
    server.kill9();
    server.restart();
    let client = root_client(&server);
    for (number, content) in contents.iter().enumerate() {
        assert!(read(&client, "docs", &format!("dir/{number}")).await == *content, "object {number}");
    }
    let listed = client.list_objects_v2().bucket("docs").prefix("dir/").send().await.expect("listed");
    let sizes: Vec<_> = listed.contents().iter().map(|object| object.size().unwrap_or(-1)).collect();
    assert_eq!(sizes, contents.map(|content| content.len() as i64));
}

#[tokio::test]
async fn a_multipart_upload_becomes_one_object() {
    let server = Server::start();
    let client = root_client(&server);
    client.create_bucket().bucket("docs").send().await.expect("made");
    let begun = client.create_multipart_upload().bucket("docs").key("k").send().await.expect("begun");
    let upload = begun.upload_id().expect("an id");
    let parts = [vec![1; 5 << 20], vec![2; 6 << 20], vec![3; 10]];
    let mut completed = CompletedMultipartUpload::builder();
    for (number, part) in (1..).zip(&parts) {
        let call = client.upload_part().bucket("docs").key("k").upload_id(upload).part_number(number);
        let stored = call.body(part.clone().into()).send().await.expect("stored");
        let part = CompletedPart::builder().part_number(number).set_e_tag(stored.e_tag).build();
        completed = completed.parts(part);
    }
    let call = client.complete_multipart_upload().bucket("docs").key("k").upload_id(upload);
    call.multipart_upload(completed.build()).send().await.expect("completed");
    assert!(read(&client, "docs", "k").await == parts.concat(), "the content is the parts in order");
}

#[tokio::test]
async fn revoked_grants_and_keys_fail_at_the_next_request() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs"]);
    let key = account(&server, "alice");
    assert_eq!(rights(&server, &key, "docs").await, Rights::None);
    // The client keeps its connection: access is checked at each request.
    let client = client_of(&server, &key);
    for (mode, expected) in [("ro", Rights::Read), ("wo", Rights::Write), ("rw", Rights::Both), ("owner", Rights::Both)]
    {
        json(&server, &["grant", "add", "docs", "--account", "alice", "--mode", mode]);
        assert_eq!(rights(&server, &key, "docs").await, expected, "{mode}");
        let head = client.head_bucket().bucket("docs").send().await;
        assert!(head.is_ok(), "{mode}: {head:?}");
    }
    json(&server, &["grant", "remove", "docs", "--account", "alice"]);
    assert_eq!(rights(&server, &key, "docs").await, Rights::None);
    assert!(client.head_bucket().bucket("docs").send().await.is_err());
    json(&server, &["key", "delete", &key.access_key_id]);
    assert_eq!(rights(&server, &key, "docs").await, Rights::UnknownKey);
    assert!(client.list_buckets().send().await.is_err());
}

#[tokio::test]
async fn the_quota_applies_to_every_kind_of_write() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs", "--quota", "10Mi"]);
    let client = root_client(&server);
    let six = vec![6; 6 << 20];
    write(&client, "docs", "a", &six).await;
    let put = client.put_object().bucket("docs").key("b").body(six.clone().into()).send().await;
    assert_eq!(code(put), "QuotaExceeded");
    let copy = client.copy_object().bucket("docs").key("b").copy_source("docs/a").send().await;
    assert_eq!(code(copy), "QuotaExceeded", "a copy by reference counts as well");
    let begun = client.create_multipart_upload().bucket("docs").key("b").send().await.expect("begun");
    let upload = begun.upload_id().expect("an id");
    let part = || client.upload_part().bucket("docs").key("b").upload_id(upload).part_number(1);
    assert_eq!(code(part().body(six.clone().into()).send().await), "QuotaExceeded");
    part().body(vec![1; 3 << 20].into()).send().await.expect("it fits");
    let put = client.put_object().bucket("docs").key("c").body(vec![1; 2 << 20].into()).send().await;
    assert_eq!(code(put), "QuotaExceeded", "parts of unfinished uploads count as well");
    client.abort_multipart_upload().bucket("docs").key("b").upload_id(upload).send().await.expect("aborted");
    write(&client, "docs", "a", &six).await;
    assert_eq!(
        json(&server, &["bucket", "show", "docs"])["usedBytes"],
        6 << 20,
        "an overwrite frees the replaced content"
    );

    // A quota below the current usage: nothing can be added, and everything can be deleted.
    json(&server, &["bucket", "set", "docs", "--quota", "1Mi"]);
    let put = client.put_object().bucket("docs").key("d").body(vec![1].into()).send().await;
    assert_eq!(code(put), "QuotaExceeded");
    client.delete_object().bucket("docs").key("a").send().await.expect("deleted");
    write(&client, "docs", "d", &[1]).await;
}
