//! Secrets of volumes: a key gives the same access to a mount as through S3, and no more.

use std::collections::HashMap;
use std::fs;

use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::cosi::v1alpha1::{
    AuthenticationType, DriverCreateBucketRequest, DriverGrantBucketAccessRequest, DriverRevokeBucketAccessRequest,
};
use rustix::io::Errno;
use tonic::Code;

use super::{Driver, errno, no_secrets};
use crate::support::access::{read, root_client, write};
use crate::support::grpc::refused;
use crate::support::*;

type Secrets = HashMap<String, String>;

/// Creates a bucket and an access to it by COSI; returns the account, and the Secret that the sidecar writes for a pod.
async fn cosi_secret(server: &Server, bucket: &str, mode: &str) -> (String, Secrets) {
    let mut cosi = ProvisionerClient::new(grpc::channel(&server.ready().socket("cosi")).await);
    let create = DriverCreateBucketRequest { name: bucket.into(), ..Default::default() };
    cosi.driver_create_bucket(create).await.expect("made");
    let grant = DriverGrantBucketAccessRequest {
        bucket_id: bucket.into(),
        name: format!("ba-{mode}"),
        authentication_type: AuthenticationType::Key.into(),
        parameters: HashMap::from([("mode".into(), mode.into())]),
    };
    let granted = cosi.driver_grant_bucket_access(grant).await.expect("granted").into_inner();
    let key = &granted.credentials["s3"].secrets;
    let info = serde_json::json!({
        "metadata": {"name": "bc-1", "creationTimestamp": null},
        "spec": {
            "bucketName": bucket,
            "authenticationType": "KEY",
            "secretS3": {
                "endpoint": key["endpoint"], "region": key["region"],
                "accessKeyID": key["accessKeyID"], "accessSecretKey": key["accessSecretKey"],
            },
            "secretAzure": null,
            "protocols": ["s3"],
        },
    });
    (granted.account_id, HashMap::from([("BucketInfo".into(), info.to_string())]))
}

fn plain(key: &Credentials) -> Secrets {
    HashMap::from([
        ("accessKeyId".into(), key.access_key_id.clone()),
        ("secretAccessKey".into(), key.secret_access_key.clone()),
    ])
}

#[tokio::test]
async fn a_cosi_secret_mounts_its_bucket_with_the_rights_of_its_grant() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let (_, reader) = cosi_secret(&driver.server, "claim-1", "ro").await;
    let (_, both) = cosi_secret(&driver.server, "claim-1", "rw").await;
    let (_, writer) = cosi_secret(&driver.server, "claim-1", "wo").await;
    write(&root_client(&driver.server), "claim-1", "f", b"1").await;

    let answer = driver.stage("claim-1", &writer).await;
    refused("a key that only writes", answer, Code::PermissionDenied, &["only write", "ro or rw"]);

    let path = driver.mounted("claim-1", &reader).await;
    assert_eq!(fs::read(path.join("f")).expect("there"), b"1");
    assert_eq!(errno(fs::write(path.join("f"), "2")), Some(Errno::ROFS));
    assert_eq!(errno(fs::remove_file(path.join("f"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::create_dir(path.join("d"))), Some(Errno::ROFS));
    driver.unpublish("claim-1", "claim-1").await;
    driver.unstage("claim-1").await;

    // A stage with all rights, and a target with the lesser rights of the pod's own Secret.
    let path = driver.mounted("claim-1", &both).await;
    fs::write(path.join("f"), "2").expect("written");
    driver.publish("claim-1", "narrow", false, &reader).await.expect("published");
    let narrow = driver.path("targets/narrow");
    assert_eq!(fs::read(narrow.join("f")).expect("there"), b"2");
    assert_eq!(errno(fs::write(narrow.join("f"), "3")), Some(Errno::ROFS));
    let answer = driver.publish("claim-1", "none", false, &writer).await;
    refused("a target for a key that only writes", answer, Code::PermissionDenied, &["only write"]);
    assert!(!driver.path("targets/none").exists(), "a refused publish leaves nothing");
    assert_eq!(read(&root_client(&driver.server), "claim-1", "f").await, b"2");
}

#[tokio::test]
async fn a_revoked_key_mounts_nothing() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let (account, secret) = cosi_secret(&driver.server, "claim-1", "rw").await;
    driver.mounted("claim-1", &secret).await;
    driver.unpublish("claim-1", "claim-1").await;
    driver.unstage("claim-1").await;
    let mut cosi = ProvisionerClient::new(grpc::channel(&driver.server.ready().socket("cosi")).await);
    let revoke =
        DriverRevokeBucketAccessRequest { bucket_id: "claim-1".into(), account_id: account, ..Default::default() };
    cosi.driver_revoke_bucket_access(revoke).await.expect("revoked");
    refused("a revoked key", driver.stage("claim-1", &secret).await, Code::Unauthenticated, &["revoked"]);
    let status = cli::json(&driver.server, &["status"]);
    assert_eq!(status["mounts"], serde_json::json!([]), "{status}");
}

#[tokio::test]
async fn a_static_handle_names_any_bucket_and_requires_its_key() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    cli::json(&driver.server, &["bucket", "create", "archive"]);
    let alice = cli::account(&driver.server, "alice");
    write(&root_client(&driver.server), "archive", "f", b"1").await;

    let answer = driver.stage("archive", &no_secrets()).await;
    refused("no key", answer, Code::PermissionDenied, &["archive", "nodeStageSecretRef"]);
    let answer = driver.stage("archive", &plain(&alice)).await;
    refused("a key without a grant", answer, Code::PermissionDenied, &["alice", "archive"]);
    cli::json(&driver.server, &["grant", "add", "archive", "--account", "alice", "--mode", "rw"]);
    let path = driver.mounted("archive", &plain(&alice)).await;
    assert_eq!(fs::read(path.join("f")).expect("there"), b"1");
    fs::write(path.join("g"), "2").expect("written");
    assert_eq!(read(&root_client(&driver.server), "archive", "g").await, b"2");

    driver.unpublish("archive", "archive").await;
    driver.unstage("archive").await;
    let delete = proto::csi::v1::DeleteVolumeRequest { volume_id: "archive".into(), ..Default::default() };
    let answer = driver.controller.delete_volume(delete).await;
    refused("a bucket of others", answer, Code::FailedPrecondition, &["archive", "amphora bucket delete"]);
    assert_eq!(read(&root_client(&driver.server), "archive", "g").await, b"2");
}

#[tokio::test]
async fn every_form_of_a_secret_works_and_none_is_logged() {
    need!(root_and_fuse());
    let server = Options::default().args(["--log-level", "trace"]).start();
    let (controller, node) = super::clients(&server).await;
    let mut driver = Driver { server, controller, node };
    cli::json(&driver.server, &["bucket", "create", "archive"]);
    let alice = cli::account(&driver.server, "alice");
    cli::json(&driver.server, &["grant", "add", "archive", "--account", "alice", "--mode", "rw"]);
    for (id, secret) in [
        ("accessKeyId", "secretAccessKey"),
        ("accessKeyID", "accessSecretKey"),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("COSI_S3_ACCESS_KEY_ID", "COSI_S3_ACCESS_SECRET_KEY"),
    ] {
        let form = Secrets::from([
            (id.to_owned(), alice.access_key_id.clone()),
            (secret.to_owned(), alice.secret_access_key.clone()),
        ]);
        driver.stage("archive", &form).await.unwrap_or_else(|status| panic!("{id}: {status}"));
        driver.unstage("archive").await;
    }
    let log = driver.server.log();
    assert!(log.contains("NodeStageVolume"), "calls are logged at this level: {log}");
    assert!(!log.contains(&alice.secret_access_key), "a secret is in the log");
}

#[tokio::test]
async fn secrets_without_a_key_are_refused() {
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 1 << 20, None).await;
    let alice = cli::account(&driver.server, "alice");
    let one = |name: &str, value: &str| Secrets::from([(name.to_owned(), value.to_owned())]);
    let wrong = Credentials { secret_access_key: "hunter2hunter2".into(), ..alice.clone() };
    for (secrets, code, words) in [
        (one("password", "hunter2"), Code::InvalidArgument, "accessKeyId"),
        (one("accessKeyId", "AKID"), Code::InvalidArgument, "secretAccessKey"),
        (one("BucketInfo", "hunter2"), Code::InvalidArgument, "BucketInfo"),
        (one("BucketInfo", r#"{"spec":{"secretS3":null}}"#), Code::InvalidArgument, "S3"),
        (plain(&wrong), Code::Unauthenticated, "has another secret"),
        (plain(&alice), Code::PermissionDenied, "no grant"),
    ] {
        let answer = driver.stage(&volume, &secrets).await;
        let message = answer.as_ref().err().map(|status| status.message().to_owned()).unwrap_or_default();
        assert!(!message.contains("hunter2"), "a refusal quotes a secret: {message}");
        refused(words, answer, code, &[words]);
    }
    assert_eq!(cli::json(&driver.server, &["status"])["mounts"], serde_json::json!([]));
}
