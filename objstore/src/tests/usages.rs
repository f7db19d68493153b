//! The usage of all buckets as metrics read it, and the latencies of commits and syncs.

use super::test_store::{TestStore, bucket_request, by_root, name};
use crate::store::*;

#[test]
fn metrics_see_what_each_bucket_holds() {
    let test = TestStore::in_memory();
    // More than a page of records.
    for number in 0..1_003 {
        test.bucket(&format!("bucket-{number}"));
    }
    let limited = CreateBucket { quota_bytes: Some(1 << 20), ..bucket_request("bucket-x") };
    test.run(test.store.create_bucket(limited)).unwrap();
    let bucket = name("bucket-x");
    test.put(&bucket, "a/b", &[7; 5_000]).unwrap();
    test.snapshot(&bucket, "frozen");
    test.put(&bucket, "c", &[7; 3]).unwrap();
    test.delete(&bucket, "a/b").unwrap();
    // A file that is open, and has grown since the records counted it.
    let volume = test.mount(&bucket);
    let ino = volume.create(volume.root(), "open", by_root(0o644)).unwrap().ino;
    volume.append(ino, &[1; 9_000]).unwrap();
    volume.append(ino, &[1; 9_000]).unwrap();

    let usages = test.store.usages().unwrap();
    assert_eq!(usages.len(), 1_004, "snapshots are no buckets");
    assert!(usages.is_sorted_by_key(|usage| usage.name.as_str()));
    let found = usages.iter().find(|usage| usage.name == bucket).unwrap();
    assert_eq!(found.usage, test.store.usage(&bucket).unwrap());
    assert_eq!((found.usage.bytes, found.usage.limit_bytes), (18_003, Some(1 << 20)));
    assert_eq!(found.id, test.store.bucket(&bucket).unwrap().id);
}

#[test]
fn commits_and_syncs_are_timed() {
    let test = TestStore::on_disk();
    let before = test.store.stats();
    test.bucket("timed");
    let after = test.store.stats();
    assert!(after.commit_latency.count() > before.commit_latency.count());
    assert!(after.metadata_sync_latency.count() > before.metadata_sync_latency.count());
    assert_eq!(after.metadata_sync_latency.count(), after.syncs);
}
