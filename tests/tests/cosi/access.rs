//! DriverGrantBucketAccess and DriverRevokeBucketAccess.

use proto::cosi::v1alpha1::{AuthenticationType, DriverGrantBucketAccessRequest};
use tonic::Code;

use super::{Driver, key_of};
use crate::support::access::{Rights, rights};
use crate::support::grpc::refused;
use crate::support::*;

#[tokio::test]
async fn a_repeated_grant_answers_the_same_secret() {
    let mut driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    let call = || driver.grant("claim-1", "ba-1", &[]);
    let (one, two, three) = tokio::join!(call(), call(), call());
    let answers: Vec<_> = [one, two, three].into_iter().map(|answer| answer.expect("granted").into_inner()).collect();
    let key = key_of(&answers[0]);
    for answer in &answers {
        assert!(*answer == answers[0], "the sidecar never overwrites the Secret it wrote first");
    }
    let secrets = &answers[0].credentials["s3"].secrets;
    assert_eq!(secrets["endpoint"], driver.server.s3());
    assert_eq!(secrets["region"], "us-east-1");

    driver.server.kill9();
    driver.server.restart();
    driver.channel = grpc::channel(&driver.server.ready().socket("cosi")).await;
    let (account, again) = driver.granted("claim-1", "ba-1", &[]).await;
    assert!(again.secret_access_key == key.secret_access_key && again.access_key_id == key.access_key_id);
    assert_eq!(account, answers[0].account_id);
    assert_eq!(rights(&driver.server, &again, "claim-1").await, Rights::Both);
}

#[tokio::test]
async fn the_mode_of_an_access_is_enforced_by_s3() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    driver.create("claim-2", &[]).await.expect("made");
    for (mode, expected) in [("ro", Rights::Read), ("rw", Rights::Both), ("wo", Rights::Write)] {
        let (_, key) = driver.granted("claim-1", &format!("ba-{mode}"), &[("mode", mode)]).await;
        assert_eq!(rights(&driver.server, &key, "claim-1").await, expected, "{mode}");
        assert_eq!(rights(&driver.server, &key, "claim-2").await, Rights::None, "{mode}: another bucket");
    }
    let (_, key) = driver.granted("claim-1", "ba-plain", &[]).await;
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both, "rw unless said otherwise");
}

#[tokio::test]
async fn secrets_carry_the_endpoint_that_serve_was_given() {
    let options = Options::default().args(["--s3-endpoint-url", "https://s3.example:8443"]);
    let driver = Driver::of(options.start()).await;
    driver.create("claim-1", &[]).await.expect("made");
    let answer = driver.grant("claim-1", "ba-1", &[]).await.expect("granted").into_inner();
    assert_eq!(answer.credentials["s3"].secrets["endpoint"], "https://s3.example:8443");
}

#[tokio::test]
async fn an_invalid_access_is_refused_and_changes_nothing() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    driver.create("claim-2", &[]).await.expect("made");
    driver.granted("claim-2", "ba-taken", &[]).await;
    let before = cli::listings(&driver.server);
    for (bucket, name, parameters, code, words) in [
        ("absent", "ba-1", &[][..], Code::NotFound, "absent"),
        ("Not_A_Name", "ba-1", &[], Code::NotFound, "Not_A_Name"),
        ("", "ba-1", &[], Code::InvalidArgument, "bucket_id"),
        ("claim-1", "", &[], Code::InvalidArgument, "name"),
        ("claim-1", "ba/1", &[], Code::InvalidArgument, "ba/1"),
        ("claim-1", "ba-1", &[("mode", "owner")], Code::InvalidArgument, "ro, rw or wo"),
        ("claim-1", "ba-1", &[("Mode", "ro")], Code::InvalidArgument, "\"Mode\""),
        // Otherwise the key in one Secret would give access to the bucket of another.
        ("claim-1", "ba-taken", &[], Code::FailedPrecondition, "claim-2"),
    ] {
        let what = format!("{name:?} for {bucket:?} with {parameters:?}");
        refused(&what, driver.grant(bucket, name, parameters).await, code, &[words]);
    }
    for (kind, words) in
        [(AuthenticationType::Iam, "serviceAccountNamespace"), (AuthenticationType::UnknownAuthenticationType, "KEY")]
    {
        let request = DriverGrantBucketAccessRequest {
            bucket_id: "claim-1".into(),
            name: "ba-1".into(),
            authentication_type: kind.into(),
            ..Default::default()
        };
        let answer = driver.provisioner().driver_grant_bucket_access(request).await;
        refused(kind.as_str_name(), answer, Code::InvalidArgument, &[words]);
    }
    assert_eq!(cli::listings(&driver.server), before);
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_the_next_request() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    driver.create("claim-2", &[]).await.expect("made");
    let (account, key) = driver.granted("claim-1", "ba-1", &[]).await;
    let (_, kept) = driver.granted("claim-1", "ba-2", &[]).await;
    driver.revoke("claim-1", "cosi-never-granted").await.expect("revoking an unknown account succeeds");
    driver.revoke("absent", "cosi-never-granted").await.expect("also of an unknown bucket");
    driver.revoke("claim-2", &account).await.expect("it has no access there");
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both, "none of these was its grant");
    driver.revoke("claim-1", &account).await.expect("revoked");
    driver.revoke("claim-1", &account).await.expect("revoked again");
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::UnknownKey);
    assert_eq!(rights(&driver.server, &kept, "claim-1").await, Rights::Both);
}

#[tokio::test]
async fn accounts_of_others_are_not_revoked() {
    let driver = Driver::start().await;
    driver.create("claim-1", &[]).await.expect("made");
    let alice = cli::account(&driver.server, "alice");
    cli::json(&driver.server, &["grant", "add", "claim-1", "--account", "alice", "--mode", "rw"]);
    let before = cli::listings(&driver.server);
    for (bucket, account) in [("claim-1", "alice"), ("claim-1", "root"), ("claim-1", "cosi"), ("claim-1", "")] {
        refused(account, driver.revoke(bucket, account).await, Code::InvalidArgument, &["account"]);
    }
    refused("no bucket", driver.revoke("", "cosi-ba-1").await, Code::InvalidArgument, &["bucket_id"]);
    assert_eq!(cli::listings(&driver.server), before);
    assert_eq!(rights(&driver.server, &alice, "claim-1").await, Rights::Both);
}

#[tokio::test]
async fn no_secret_is_logged() {
    let driver = Driver::of(Options::default().args(["--log-level", "trace"]).start()).await;
    driver.create("claim-1", &[]).await.expect("made");
    let (_, key) = driver.granted("claim-1", "ba-1", &[]).await;
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both);
    let log = driver.server.log();
    assert!(log.contains("DriverGrantBucketAccess"), "calls are logged at this level: {log}");
    let root = driver.server.credentials();
    for secret in [key.secret_access_key, root.secret_access_key] {
        assert!(!log.contains(&secret), "a secret is in the log");
    }
}
