//! COSI access for a ServiceAccount: a pod's token opens the bucket through STS, and no Secret has a key.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::{COSI_DRIVER, Cluster};
use crate::support::*;

const CLASS: &str = "amphora-test-web";
const ACCOUNT: &str = "web";
const KIND: &str = "objectstorage.k8s.io/v1alpha1";
/// An application: boto3 with nothing but the variables of its pod. It prints what it reads back.
const APP: &str = "import boto3, sys\n\
                   s3 = boto3.client('s3')\n\
                   if len(sys.argv) > 2: s3.put_object(Bucket=sys.argv[1], Key='greeting', Body=sys.argv[2])\n\
                   print(s3.get_object(Bucket=sys.argv[1], Key='greeting')['Body'].read().decode())";

/// Asks for the bucket and for access of one ServiceAccount to it; what its Secret has.
fn access(cluster: &Cluster, namespace: &str) -> Value {
    let named = |kind: &str, name: &str| json!({"apiVersion": KIND, "kind": kind, "metadata": {"name": name}});
    let mut bucket = named("BucketClass", CLASS);
    (bucket["driverName"], bucket["deletionPolicy"]) = (COSI_DRIVER.into(), "Delete".into());
    let mut class = named("BucketAccessClass", CLASS);
    (class["driverName"], class["authenticationType"]) = (COSI_DRIVER.into(), "IAM".into());
    class["parameters"] = json!({"serviceAccountNamespace": namespace, "serviceAccountName": ACCOUNT});
    let mut claim = named("BucketClaim", "photos");
    claim["spec"] = json!({"bucketClassName": CLASS, "protocols": ["S3"]});
    let mut access = named("BucketAccess", "photos");
    access["spec"] = json!({
        "bucketClaimName": "photos", "bucketAccessClassName": CLASS, "credentialsSecretName": "photos", "protocol": "S3",
        "serviceAccountName": ACCOUNT,
    });
    for object in [bucket, class, claim, access] {
        cluster.apply(&object);
    }
    cluster.wait_for("bucketaccess/photos", ".status.accessGranted", "true");
    let secret = ["get", "secret", "photos", "--output", "go-template={{.data.BucketInfo | base64decode}}"];
    serde_json::from_str(&cluster.kubectl(&secret)).expect("JSON")
}

/// A pod of the ServiceAccount, with the variables that SDKs read.
fn pod(cluster: &Cluster, account: &str, endpoint: &str) {
    let variables = [
        ("AWS_ROLE_ARN", format!("arn:aws:iam::{account}:role/workload")),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/amphora/token".to_owned()),
        ("AWS_ENDPOINT_URL_STS", endpoint.to_owned()),
        ("AWS_ENDPOINT_URL_S3", endpoint.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    let variables: Vec<_> = variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let token = json!({"audience": "amphora", "path": "token", "expirationSeconds": 3600});
    let volume = json!({"name": "amphora", "projected": {"sources": [{"serviceAccountToken": token}]}});
    let mounts = json!([{"name": "amphora", "mountPath": "/var/run/secrets/amphora", "readOnly": true}]);
    let spec = json!({"serviceAccountName": ACCOUNT, "volumes": [volume]});
    cluster.apply_pod("app", &spec, &json!({"env": variables, "volumeMounts": mounts}));
    cluster.wait_ready("app");
}

/// The application beside the pod, where Python is: with the pod's variables, and with this token in the pod's file.
fn app(cluster: &Cluster, home: &Home, token: &str, args: &[&str]) -> Outcome {
    let file = home.path().join("token");
    std::fs::write(&file, token).expect("written");
    let mut command: Command = cluster.command(python().expect("checked before"));
    for line in cluster.exec("app", "env").lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| name.starts_with("AWS_")) {
            command.env(name, value);
        }
    }
    command.env("AWS_WEB_IDENTITY_TOKEN_FILE", &file).env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", home.path()).args(["-c", APP]).args(args);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE"] {
        command.env_remove(name);
    }
    run(&mut command, Duration::from_secs(60)).expect("it ends")
}

#[test]
fn a_service_account_opens_its_bucket_without_a_key_in_any_secret() {
    let cluster = need!(Cluster::find("identity"));
    if cluster.lab().is_none() {
        tests::skip!("it needs a lab, whose server trusts the cluster's issuer");
    }
    if python().is_none() {
        tests::skip!("boto3 is not installed: run tests/setup.sh");
    }
    let home = need!(Home::new());
    for name in [ACCOUNT, "other"] {
        cluster.kubectl(&["create", "serviceaccount", name]);
    }
    let info = access(&cluster, "amphora-test-identity");
    let s3 = &info["spec"]["secretS3"];
    assert!(s3["accessKeyID"] == "" && s3["accessSecretKey"] == "", "the Secret has no key: {info}");
    let account = cluster.field("bucketaccess/photos", ".status.accountID");
    let (bucket, endpoint) = (info["spec"]["bucketName"].as_str(), s3["endpoint"].as_str());
    let (bucket, endpoint) = (bucket.expect("a bucket").to_owned(), endpoint.expect("an endpoint"));
    pod(&cluster, &account, endpoint);
    let token = cluster.exec("app", "cat /var/run/secrets/amphora/token");
    assert_eq!(app(&cluster, &home, &token, &[&bucket, "hello"]).ok().trim(), "hello");

    for (account, audience, words) in
        [("other", "amphora", "AccessDenied"), (ACCOUNT, "elsewhere", "InvalidIdentityToken")]
    {
        let token = cluster.kubectl(&["create", "token", account, "--audience", audience]);
        let refused = app(&cluster, &home, &token, &[&bucket]);
        assert!(!refused.status.success() && refused.stderr.contains(words), "{refused}");
    }
    cluster.delete("bucketaccess/photos");
    let refused = app(&cluster, &home, &token, &[&bucket]);
    assert!(!refused.status.success() && refused.stderr.contains("AccessDenied"), "the role is gone: {refused}");
    cluster.delete("pod/app");
    cluster.delete("bucketclaim/photos");
    for class in ["bucketclass", "bucketaccessclass"] {
        cluster.delete(&format!("{class}/{CLASS}"));
    }
}
