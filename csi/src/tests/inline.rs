//! Inline volumes: the guarantees of the node, with simulated mounts.

use super::node::publish;
use super::recovery::start_again;
use super::*;

/// An id as kubelet makes them, longer than the name of a bucket.
const ID: &str = "csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn inline(f: &Fixture, attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
    let marks = [("csi.storage.k8s.io/ephemeral", "true"), ("csi.storage.k8s.io/pod.name", "app-0")];
    let context = marks.iter().chain(attributes).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    NodePublishVolumeRequest { staging_target_path: String::new(), volume_context: context, ..publish(f, ID, "target") }
}

/// The buckets of the store.
fn buckets(f: &Fixture) -> Vec<objstore::store::Bucket> {
    f.store.buckets(None, 100).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_volume_is_made_with_its_pod_and_gone_with_it() {
    let mut f = fixture().await;
    for _ in 0..3 {
        f.publish(inline(&f, &[("size", "1Mi"), ("mode", "0777")])).await.unwrap();
    }
    let [bucket] = &buckets(&f)[..] else { panic!("one bucket") };
    assert_eq!(bucket.quota_bytes, Some(1 << 20));
    assert_eq!((f.machine.serves(&f.path("target")), f.machine.count()), (Some("rw"), 1));
    assert!(!f.stats(ID, &f.text("target")).await.unwrap().volume_condition.unwrap().abnormal);
    assert_eq!(code(f.publish(inline(&f, &[("size", "2Mi")])).await), Code::AlreadyExists);
    f.machine.die();
    start_again(&mut f).await;
    assert_eq!((f.machine.serves(&f.path("target")), f.machine.count()), (Some("rw"), 1));
    for _ in 0..3 {
        f.unpublish(ID, "target").await.unwrap();
    }
    assert!(buckets(&f).is_empty() && f.machine.count() == 0 && !f.path("target").exists());
    assert_eq!(std::fs::read_dir(f.path("node")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_inline_volume_leaves_nothing_and_one_without_a_record_is_removed() {
    let f = fixture().await;
    for bad in [
        &[][..],
        &[("size", "0")],
        &[("size", "much")],
        &[("size", "1Mi"), ("colour", "red")],
        &[("size", "1Mi"), ("bucket", "b")],
    ] {
        assert_eq!(code(f.publish(inline(&f, bad)).await), Code::InvalidArgument, "{bad:?}");
    }
    assert_eq!(code(f.publish(inline(&f, &[("size", "8Ei")])).await), Code::ResourceExhausted);
    f.machine.mounts_fail.store(true, Ordering::Relaxed);
    assert!(f.publish(inline(&f, &[("size", "1Mi")])).await.is_err());
    assert!(buckets(&f).is_empty() && !f.path("target").exists() && f.machine.count() == 0);
    f.machine.mounts_fail.store(false, Ordering::Relaxed);
    f.publish(inline(&f, &[("size", "1Mi")])).await.unwrap();
    // A reboot: no mount and no record is left.
    Mounter::unmount(&*f.machine, &f.path("target")).unwrap();
    std::fs::remove_dir_all(f.path("node")).unwrap();
    std::fs::create_dir(f.path("node")).unwrap();
    let mut f = f;
    start_again(&mut f).await;
    f.unpublish(ID, "target").await.unwrap();
    assert!(buckets(&f).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_bucket_needs_a_key_and_is_never_deleted() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let secrets = f.foreign_bucket("photos", Some(Mode::Read)).await;
    for bucket in ["photos", "pvc-1"] {
        let without = f.publish(inline(&f, &[("bucket", bucket)])).await;
        assert_eq!(code(without), Code::PermissionDenied, "a pod's author opens no volume without a key");
    }
    let with =
        |bucket: &str| NodePublishVolumeRequest { secrets: secrets.clone(), ..inline(&f, &[("bucket", bucket)]) };
    assert_eq!(code(f.publish(with("pvc-1")).await), Code::PermissionDenied, "the key has no grant of it");
    assert!(!f.path("target").exists());
    f.publish(with("photos")).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("target")), Some("ro"), "as the grant");
    let other =
        NodePublishVolumeRequest { volume_id: "csi-other".into(), target_path: f.text("other"), ..with("photos") };
    f.publish(other).await.unwrap();
    f.unpublish(ID, "target").await.unwrap();
    f.unpublish("csi-other", "other").await.unwrap();
    assert_eq!((buckets(&f).len(), f.machine.count()), (2, 0));
    // What is not an inline volume of this node is not removed by its name.
    f.unpublish("pvc-1", "target").await.unwrap();
    f.unpublish("photos", "target").await.unwrap();
    assert_eq!(buckets(&f).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_store_has_no_inline_volumes_and_says_what_to_use() {
    let f = super::remote::fixture().await;
    let refused = f.publish(inline(&f, &[("size", "1Mi")])).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("generic ephemeral"), "{refused}");
    f.unpublish(ID, "target").await.unwrap();
    assert!(!f.path("target").exists());
}
