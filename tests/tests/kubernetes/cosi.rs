//! Buckets: claim, access, Secret, its key on S3, revocation, deletion; several claims at once; a volume through S3.

use serde_json::{Value, json};

use super::cluster::{COSI_DRIVER, CSI_DRIVER, Cluster};
use crate::support::*;

const CLASS: &str = "amphora-test";

fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "objectstorage.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}})
}

fn classes(cluster: &Cluster, deletion: &str) {
    let mut bucket = object("BucketClass", CLASS);
    (bucket["driverName"], bucket["deletionPolicy"]) = (COSI_DRIVER.into(), deletion.into());
    let mut access = object("BucketAccessClass", CLASS);
    (access["driverName"], access["authenticationType"]) = (COSI_DRIVER.into(), "Key".into());
    cluster.apply(&bucket);
    cluster.apply(&access);
}

fn delete_classes(cluster: &Cluster) {
    cluster.delete(&format!("bucketclass/{CLASS}"));
    cluster.delete(&format!("bucketaccessclass/{CLASS}"));
}

fn claim(cluster: &Cluster, name: &str, source: (&str, &str)) {
    let mut claim = object("BucketClaim", name);
    claim["spec"] = json!({source.0: source.1, "protocols": ["S3"]});
    cluster.apply(&claim);
}

/// Waits until a claim has its bucket; the Bucket object's name.
fn bucket_of(cluster: &Cluster, name: &str) -> String {
    let claim = format!("bucketclaim/{name}");
    cluster.wait_for(&claim, ".status.bucketReady", "true");
    let bucket = cluster.field(&claim, ".status.bucketName");
    assert!(!bucket.is_empty(), "the claim \"{name}\" is ready and never got its bucket's name");
    cluster.wait_for(&format!("bucket/{bucket}"), ".status.bucketReady", "true");
    bucket
}

/// Asks for access; what the application finds in its Secret.
fn access(cluster: &Cluster, name: &str, claim: &str) -> Value {
    let mut access = object("BucketAccess", name);
    access["spec"] = json!({
        "bucketClaimName": claim, "bucketAccessClassName": CLASS, "credentialsSecretName": name, "protocol": "S3",
    });
    cluster.apply(&access);
    cluster.wait_for(&format!("bucketaccess/{name}"), ".status.accessGranted", "true");
    let secret = ["get", "secret", name, "--output", "go-template={{.data.BucketInfo | base64decode}}"];
    serde_json::from_str(&cluster.kubectl(&secret)).expect("JSON")
}

#[test]
fn a_bucket_lives_from_its_claim_to_its_deletion() {
    let cluster = need!(Cluster::find("cosi"));
    classes(&cluster, "Delete");
    claim(&cluster, "c", ("bucketClassName", CLASS));
    let bucket = bucket_of(&cluster, "c");
    let info = access(&cluster, "one", "c");
    assert_eq!(info["spec"]["bucketName"], bucket.as_str());
    let content = std::env::temp_dir().join(format!("amphora-kubernetes-{}", std::process::id()));
    std::fs::write(&content, "hello").expect("written");
    let put = cluster.curl(&info, "k", &["--upload-file", content.to_str().expect("a path of ours")]);
    assert!(put.status.success(), "{put}");
    std::fs::remove_file(&content).expect("removed");
    let other = access(&cluster, "two", "c");
    assert_eq!(cluster.curl(&other, "k", &[]).ok(), "hello");
    assert_ne!(info["spec"]["secretS3"]["accessKeyID"], other["spec"]["secretS3"]["accessKeyID"]);

    cluster.delete("bucketaccess/two");
    cluster.wait_gone("secret/two");
    assert!(!cluster.curl(&other, "k", &[]).status.success(), "a key that was revoked opens nothing");
    assert_eq!(cluster.curl(&info, "k", &[]).ok(), "hello", "the other access is unchanged");
    cluster.delete("bucketaccess/one");
    cluster.delete("bucketclaim/c");
    cluster.wait_gone(&format!("bucket/{bucket}"));
    delete_classes(&cluster);
}

#[test]
fn simultaneous_claims_all_get_their_buckets() {
    let cluster = need!(Cluster::find("cosi-crowd"));
    classes(&cluster, "Delete");
    let names: Vec<_> = (0..5).map(|number| format!("c{number}")).collect();
    for name in &names {
        claim(&cluster, name, ("bucketClassName", CLASS));
    }
    let buckets: Vec<_> = names.iter().map(|name| bucket_of(&cluster, name)).collect();
    for (name, bucket) in names.iter().zip(&buckets) {
        cluster.delete(&format!("bucketclaim/{name}"));
        cluster.wait_gone(&format!("bucket/{bucket}"));
    }
    delete_classes(&cluster);
}

/// What a caller without a key may do is said by the class.
#[test]
fn a_class_opens_its_buckets_to_readers_without_a_key() {
    let cluster = need!(Cluster::find("cosi-anonymous"));
    classes(&cluster, "Delete");
    let mut class = object("BucketClass", "amphora-test-public");
    (class["driverName"], class["deletionPolicy"]) = (COSI_DRIVER.into(), "Delete".into());
    class["parameters"] = json!({"anonymousAccess": "read"});
    cluster.apply(&class);
    let status = |info: &Value, bucket: &str, args: &[&str]| {
        let endpoint = info["spec"]["secretS3"]["endpoint"].as_str().expect("a URL");
        let mut command = cluster.command(tool("curl").expect("curl is installed"));
        command.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]).args(args);
        run(command.arg(format!("{endpoint}/{bucket}/k")), std::time::Duration::from_secs(60)).expect("it ends").ok()
    };
    for (name, class, read) in [("closed", CLASS, "403"), ("open", "amphora-test-public", "200")] {
        claim(&cluster, name, ("bucketClassName", class));
        let bucket = bucket_of(&cluster, name);
        let info = access(&cluster, name, name);
        assert!(cluster.curl(&info, "k", &["--request", "PUT", "--data", "hello"]).status.success());
        assert_eq!(status(&info, &bucket, &[]), read, "{name}");
        assert_eq!(status(&info, &bucket, &["--request", "PUT", "--data", "other"]), "403", "{name}");
        assert_eq!(cluster.curl(&info, "k", &[]).ok(), "hello");
        cluster.delete(&format!("bucketaccess/{name}"));
        cluster.delete(&format!("bucketclaim/{name}"));
        cluster.wait_gone(&format!("bucket/{bucket}"));
    }
    cluster.delete("bucketclass/amphora-test-public");
    delete_classes(&cluster);
}

/// Both handles of one bucket, and a Bucket object that could destroy what the CSI driver made.
#[test]
fn a_volume_is_readable_through_s3_and_not_deleted_by_cosi() {
    let cluster = need!(Cluster::find("both"));
    classes(&cluster, "Delete");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "amphora-test-both"},
        "provisioner": CSI_DRIVER, "reclaimPolicy": "Delete",
    });
    cluster.apply(&class);
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {
            "storageClassName": "amphora-test-both", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }));
    cluster.wait_for("pvc/a", ".status.phase", "Bound");
    cluster.pod("one", "a");
    cluster.exec("one", "mkdir /data/dir; echo from the pod >/data/dir/f");
    let volume = cluster.field("pvc/a", ".spec.volumeName");
    let handle = cluster.field(&format!("pv/{volume}"), ".spec.csi.volumeHandle");

    let mut bucket = object("Bucket", "amphora-test-static");
    bucket["spec"] = json!({
        "driverName": COSI_DRIVER, "bucketClassName": CLASS, "deletionPolicy": "Delete", "existingBucketID": handle,
        "protocols": ["S3"], "bucketClaim": {},
    });
    cluster.apply(&bucket);
    cluster.wait_for("bucket/amphora-test-static", ".status.bucketReady", "true");
    claim(&cluster, "c", ("existingBucketName", "amphora-test-static"));
    cluster.wait_for("bucketclaim/c", ".status.bucketReady", "true");
    let mut info = access(&cluster, "one", "c");
    // The Secret has the name of the Bucket object, which here differs from the bucket's.
    info["bucketId"] = handle.as_str().into();
    assert_eq!(cluster.curl(&info, "dir/f", &[]).ok(), "from the pod\n");

    cluster.delete("bucketaccess/one");
    cluster.kubectl(&["delete", "bucketclaim/c", "bucket/amphora-test-static", "--wait=false"]);
    let refusal = || {
        let events =
            cluster.kubectl(&["get", "events", "--all-namespaces", "--output", "jsonpath={.items[*].message}"]);
        events.contains("was not made by the driver").then_some(())
    };
    assert!(wait_until(std::time::Duration::from_secs(60), refusal).is_some(), "the deletion is refused, and says why");
    assert_eq!(cluster.exec("one", "cat /data/dir/f"), "from the pod");
    let retain = r#"{"spec":{"deletionPolicy":"Retain"}}"#;
    cluster.kubectl(&["patch", "bucket/amphora-test-static", "--type=merge", "--patch", retain]);
    cluster.wait_gone("bucket/amphora-test-static");
    cluster.delete("pod/one");
    cluster.delete("pvc/a");
    cluster.wait_gone(&format!("pv/{volume}"));
    cluster.kubectl(&["delete", "storageclass/amphora-test-both"]);
    delete_classes(&cluster);
}
