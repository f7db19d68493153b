//! DriverCreateBucket and DriverDeleteBucket.

use proto::cosi::v1alpha1::{S3SignatureVersion, protocol};
use serde_json::json;
use tonic::Code;

use super::Driver;
use crate::support::access::{Rights, client_of, code, rights, root_client, write};
use crate::support::grpc::refused;
use crate::support::*;

#[tokio::test]
async fn three_calls_at_once_make_one_bucket() {
    let driver = Driver::start().await;
    let call = || driver.create("claim-1", &[("quota", "10Mi")]);
    let (one, two, three) = tokio::join!(call(), call(), call());
    for answer in [one, two, three, call().await] {
        let answer = answer.expect("each call answers as if it were the only one").into_inner();
        assert_eq!(answer.bucket_id, "claim-1", "the Secret of v1alpha1 carries the requested name");
        let Some(protocol::Type::S3(s3)) = answer.bucket_info.expect("in the answer").r#type else { panic!("not S3") };
        assert_eq!((s3.region.as_str(), s3.signature_version()), ("us-east-1", S3SignatureVersion::S3v4));
    }
    let buckets = cli::json(&driver.server, &["bucket", "list"]);
    assert_eq!(buckets.as_array().expect("a list").len(), 1, "{buckets}");
    assert_eq!(buckets[0]["name"], "claim-1");
}

#[tokio::test]
async fn the_same_name_with_other_parameters_is_another_bucket() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[("quota", "1Gi")]).await.expect("made");
    driver.create("claim-1", &[("quota", "1073741824")]).await.expect("the same size, written differently");
    for parameters in [&[("quota", "2Gi")][..], &[]] {
        let answer = driver.create("claim-1", parameters).await;
        refused(&format!("{parameters:?}"), answer, Code::AlreadyExists, &["claim-1"]);
    }
    cli::json(&driver.server, &["bucket", "create", "by-hand"]);
    refused("a bucket of others", driver.create("by-hand", &[]).await, Code::AlreadyExists, &["by-hand"]);
    // An administrator may change the quota, and the sidecar may still ask again.
    cli::json(&driver.server, &["bucket", "set", "claim-1", "--quota", "5Gi"]);
    driver
        .create("claim-1", &[("quota", "1Gi")])
        .await
        .expect("compared with the parameters of its creation, not with its current quota");
    assert_eq!(cli::json(&driver.server, &["bucket", "show", "claim-1"])["quotaBytes"], json!(5_u64 << 30));
}

#[tokio::test]
async fn parameters_are_stored_and_unknown_ones_are_named() {
    let driver = Driver::start().await;
    driver.create("small", &[("quota", "64Ki"), ("versioning", "disabled")]).await.expect("made");
    assert_eq!(cli::json(&driver.server, &["bucket", "show", "small"])["quotaBytes"], 65536);
    let client = root_client(&driver.server);
    write(&client, "small", "fits", &[1; 60 << 10]).await;
    let put = client.put_object().bucket("small").key("more").body(vec![2; 60 << 10].into()).send().await;
    assert_eq!(code(put), "QuotaExceeded");

    let before = cli::listings(&driver.server);
    for (parameters, words) in [
        (("qouta", "1Gi"), ["qouta", "quota"]),
        (("quota", "1.5GiB"), ["quota", "1.5Gi"]),
        (("quota", "0"), ["quota", "\"0\""]),
        (("quota", "-1"), ["quota", "-1"]),
        (("versioning", "on"), ["versioning", "enabled"]),
        (("Quota", "1Gi"), ["Quota", "quota"]),
    ] {
        let answer = driver.create("other", &[parameters]).await;
        refused(&format!("{parameters:?}"), answer, Code::InvalidArgument, &words);
    }
    assert_eq!(cli::listings(&driver.server), before);
}

#[tokio::test]
async fn deletion_takes_content_and_grants_along() {
    let driver = Driver::start().await;
    driver.delete("never-made").await.expect("deleting an absent bucket succeeds");
    driver.delete("Not_A_Bucket_Name").await.expect("deleting a bucket that cannot exist succeeds");
    driver.create("claim-1", &[]).await.expect("made");
    driver.create("claim-2", &[]).await.expect("made");
    let (_, key) = driver.granted("claim-1", "ba-1", &[]).await;
    let (_, other) = driver.granted("claim-2", "ba-2", &[]).await;
    write(&client_of(&driver.server, &key), "claim-1", "dir/content", &[7; 200 << 10]).await;
    for _ in 0..2 {
        driver.delete("claim-1").await.expect("deleted");
    }
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::UnknownKey);
    assert_eq!(rights(&driver.server, &other, "claim-2").await, Rights::Both);
    driver.create("claim-1", &[]).await.expect("the name is free");
    let (_, again) = driver.granted("claim-1", "ba-1", &[]).await;
    assert_ne!(again.access_key_id, key.access_key_id, "the old key stays revoked");
    let listed = client_of(&driver.server, &again).list_objects_v2().bucket("claim-1").send().await.expect("listed");
    assert!(listed.contents().is_empty(), "the new bucket holds no object of the old one");
}

#[tokio::test]
async fn a_bucket_that_a_node_uses_is_not_deleted() {
    use proto::csi::v1::controller_client::ControllerClient;
    use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode};
    use proto::csi::v1::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, VolumeCapability};

    let driver = Driver::of(Options::default().args(["--node-id", "node-1"]).start()).await;
    driver.create("claim-1", &[]).await.expect("made");
    let (_, key) = driver.granted("claim-1", "ba-1", &[]).await;
    let mut csi = ControllerClient::new(grpc::channel(&driver.server.ready().socket("csi")).await);
    let attach = ControllerPublishVolumeRequest {
        volume_id: "claim-1".into(),
        node_id: "node-1".into(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        ..Default::default()
    };
    csi.controller_publish_volume(attach).await.expect("a handle may name any bucket");
    refused("in use", driver.delete("claim-1").await, Code::FailedPrecondition, &["claim-1", "node-1"]);
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both, "a refused deletion takes no grant");
    let detach = ControllerUnpublishVolumeRequest { volume_id: "claim-1".into(), ..Default::default() };
    csi.controller_unpublish_volume(detach).await.expect("detached");
    driver.delete("claim-1").await.expect("deleted");
}

#[tokio::test]
async fn cosi_deletes_only_what_it_created() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    let by_hand = cli::account(&driver.server, "cosi-alice");
    cli::json(&driver.server, &["bucket", "create", "by-hand"]);
    cli::json(&driver.server, &["bucket", "create", "owned-by-cosi", "--owner", "cosi"]);
    for bucket in ["claim-1", "by-hand"] {
        cli::json(&driver.server, &["grant", "add", bucket, "--account", "cosi-alice", "--mode", "rw"]);
    }
    for bucket in ["by-hand", "owned-by-cosi"] {
        refused(bucket, driver.delete(bucket).await, Code::FailedPrecondition, &[bucket, "was not made by the driver"]);
        let (account, key) = driver.granted(bucket, &format!("ba-{bucket}"), &[]).await;
        assert_eq!(
            rights(&driver.server, &key, bucket).await,
            Rights::Both,
            "the driver grants access to buckets it did not create"
        );
        driver.revoke(bucket, &account).await.expect("and taken");
    }
    refused("its name", driver.grant("claim-1", "alice", &[]).await, Code::FailedPrecondition, &["alice"]);
    refused("its name", driver.revoke("claim-1", "cosi-alice").await, Code::FailedPrecondition, &["cosi-alice"]);
    driver.delete("claim-1").await.expect("its own");
    assert_eq!(
        rights(&driver.server, &by_hand, "by-hand").await,
        Rights::Both,
        "the account has a name like COSI's, and is not COSI's"
    );
}

#[tokio::test]
async fn a_bucket_that_is_mounted_is_not_deleted() {
    need!(root_and_fuse());
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    let (_, key) = driver.granted("claim-1", "ba-1", &[]).await;
    let dir = driver.server.home().path().join("mnt");
    std::fs::create_dir(&dir).expect("made");
    let dir = dir.to_str().expect("a path of ours");
    cli::json(&driver.server, &["mount", "claim-1", dir]);
    refused("mounted", driver.delete("claim-1").await, Code::FailedPrecondition, &["claim-1", "mounted"]);
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both, "a refused deletion takes no access away");
    cli::json(&driver.server, &["umount", dir]);
    driver.delete("claim-1").await.expect("deleted");
}

#[tokio::test]
async fn the_first_answer_about_a_bucket_is_delayed() {
    use std::time::{Duration, Instant};

    let driver = Driver::of(Options::default().args(["--cosi-answer-delay", "500ms"]).start()).await;
    for (bucket, times) in [("claim-1", 1), ("claim-2", 2)] {
        let begin = Instant::now();
        let (one, two) = tokio::join!(driver.create(bucket, &[]), driver.create(bucket, &[]));
        assert!(one.is_ok() && two.is_ok());
        assert!(begin.elapsed() >= Duration::from_millis(500) * times, "{bucket}: {:?}", begin.elapsed());
        let begin = Instant::now();
        driver.create(bucket, &[]).await.expect("found");
        assert!(begin.elapsed() < Duration::from_millis(500), "{bucket}, asked again: {:?}", begin.elapsed());
    }
}
