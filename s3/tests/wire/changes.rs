//! The audit trail receives every requested change of a bucket and its settings, successful or refused.

use std::sync::{Arc, Mutex};

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::Key;

/// The compared fields of a change: operation, account, key, status, code.
type Seen = (String, Option<String>, Option<String>, u16, Option<String>);

/// An endpoint, and the changes it reports.
fn listening() -> (Endpoint, Arc<Mutex<Vec<Seen>>>) {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let listener = Arc::clone(&seen);
    let endpoint = Endpoint::start_with(|config| {
        config.auditor = s3::Auditor::new(move |change| {
            assert!(change.bucket == "wire" || change.bucket == "second", "{change:?}");
            assert!(!change.request_id.is_empty() && change.peer.is_some(), "{change:?}");
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let (account, key) = (owned(change.account), owned(change.key_id));
            listener.lock().unwrap().push((
                change.operation.to_owned(),
                account,
                key,
                change.status,
                owned(change.code),
            ));
        });
    });
    (endpoint, seen)
}

/// The next reported change.
fn next(seen: &Mutex<Vec<Seen>>) -> Seen {
    for _ in 0..2_000 {
        let mut all = seen.lock().unwrap();
        if !all.is_empty() {
            assert_eq!(all.len(), 1, "{all:?}");
            return all.remove(0);
        }
        drop(all);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("nothing was reported");
}

/// Each operation that changes a bucket: method, query, body.
const CHANGES: [(&str, &str, &str, &str); 31] = [
    (
        "PutBucketVersioning",
        "PUT",
        "versioning=",
        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    ),
    ("PutBucketTagging", "PUT", "tagging=", "<Tagging><TagSet/></Tagging>"),
    ("DeleteBucketTagging", "DELETE", "tagging=", ""),
    ("PutBucketCors", "PUT", "cors=", "<CORSConfiguration/>"),
    ("DeleteBucketCors", "DELETE", "cors=", ""),
    ("PutBucketLifecycleConfiguration", "PUT", "lifecycle=", "<LifecycleConfiguration/>"),
    ("DeleteBucketLifecycle", "DELETE", "lifecycle=", ""),
    ("PutObjectLockConfiguration", "PUT", "object-lock=", "<ObjectLockConfiguration/>"),
    ("PutBucketPolicy", "PUT", "policy=", "{}"),
    ("DeleteBucketPolicy", "DELETE", "policy=", ""),
    ("PutPublicAccessBlock", "PUT", "publicAccessBlock=", "<PublicAccessBlockConfiguration/>"),
    ("DeletePublicAccessBlock", "DELETE", "publicAccessBlock=", ""),
    ("PutBucketOwnershipControls", "PUT", "ownershipControls=", "<OwnershipControls/>"),
    ("DeleteBucketOwnershipControls", "DELETE", "ownershipControls=", ""),
    ("PutBucketAcl", "PUT", "acl=", ""),
    ("PutBucketAbac", "PUT", "abac=", "<AbacStatus/>"),
    ("PutBucketAccelerateConfiguration", "PUT", "accelerate=", "<AccelerateConfiguration/>"),
    ("PutBucketLogging", "PUT", "logging=", "<BucketLoggingStatus/>"),
    ("PutBucketNotificationConfiguration", "PUT", "notification=", "<NotificationConfiguration/>"),
    ("PutBucketRequestPayment", "PUT", "requestPayment=", "<RequestPaymentConfiguration/>"),
    ("DeleteBucketEncryption", "DELETE", "encryption=", ""),
    ("DeleteBucketReplication", "DELETE", "replication=", ""),
    ("PutBucketWebsite", "PUT", "website=", "<WebsiteConfiguration/>"),
    ("DeleteBucketWebsite", "DELETE", "website=", ""),
    ("DeleteBucketMetadataConfiguration", "DELETE", "metadataConfiguration=", ""),
    ("DeleteBucketMetadataTableConfiguration", "DELETE", "metadataTable=", ""),
    ("DeleteBucketAnalyticsConfiguration", "DELETE", "analytics=&id=one", ""),
    ("DeleteBucketIntelligentTieringConfiguration", "DELETE", "id=one&intelligent-tiering=", ""),
    ("DeleteBucketInventoryConfiguration", "DELETE", "id=one&inventory=", ""),
    ("DeleteBucketMetricsConfiguration", "DELETE", "id=one&metrics=", ""),
    ("DeleteBucket", "DELETE", "", ""),
];

/// Requests a change, and compares the report with the answer.
fn change(endpoint: &Endpoint, seen: &Mutex<Vec<Seen>>, key: &Key, name: &str) -> (Answer, Seen) {
    let (_, method, query, body) = CHANGES.iter().find(|row| row.0 == name).expect(name);
    let answer = endpoint.send_as(key, method, "/wire", query, &[], body.as_bytes());
    let change = next(seen);
    assert_eq!((change.0.as_str(), change.3), (name, answer.status), "{answer:?}");
    let code = answer.code();
    assert_eq!(change.4.as_deref().unwrap_or("OK"), code, "{answer:?}");
    (answer, change)
}

#[test]
fn each_change_of_a_bucket_is_reported_whoever_asks_and_whatever_comes_of_it() {
    let (endpoint, seen) = listening();
    assert_eq!(next(&seen).0, "CreateBucket");
    let root = endpoint.root.clone();
    let reader = endpoint.account("reader", Some(Mode::Read));
    let forger = Key { id: reader.id.clone(), secret: "another secret".into() };
    let nobody = Key { id: "NOSUCHKEY".into(), secret: "a secret".into() };
    for operation in s3::operations().filter(|name| *name != "CreateBucket") {
        let Some((name, ..)) = CHANGES.iter().find(|row| row.0 == operation) else { continue };
        let (_, refused) = change(&endpoint, &seen, &reader, name);
        assert_eq!((refused.1.as_deref(), refused.2.as_deref()), (Some("reader"), Some(reader.id.as_str())), "{name}");
        assert_eq!(refused.4.as_deref(), Some("AccessDenied"), "{name}");
        let (_, forged) = change(&endpoint, &seen, &forger, name);
        assert_eq!((forged.1, forged.4.as_deref()), (None, Some("SignatureDoesNotMatch")), "{name}");
        assert_eq!(forged.2.as_deref(), Some(reader.id.as_str()), "{name}");
        let (_, unknown) = change(&endpoint, &seen, &nobody, name);
        assert_eq!((unknown.1, unknown.2, unknown.4.as_deref()), (None, None, Some("InvalidAccessKeyId")), "{name}");
    }
    for (name, ..) in CHANGES {
        let (_, done) = change(&endpoint, &seen, &root, name);
        assert_eq!(done.2.as_deref(), Some(root.id.as_str()), "{name}");
    }
    let changes = s3::operations().filter(|name| {
        let verb = ["Create", "Put", "Delete"].iter().any(|verb| name.starts_with(verb));
        verb && (["Bucket", "PublicAccessBlock", "ObjectLockConfiguration"].iter().any(|noun| name.contains(noun)))
    });
    let tried: Vec<_> = CHANGES.iter().map(|row| row.0).chain(["CreateBucket"]).collect();
    for name in changes {
        assert!(tried.contains(&name), "no test requests {name}: add it to CHANGES");
    }
}

#[test]
fn what_changes_no_bucket_is_not_reported() {
    let (endpoint, seen) = listening();
    next(&seen);
    for (method, path, query) in [
        ("PUT", "/wire/k", ""),
        ("GET", "/wire", "policy="),
        ("GET", "/wire/k", ""),
        ("DELETE", "/wire/k", ""),
        ("HEAD", "/wire", ""),
    ] {
        endpoint.send(method, path, query, &[], b"");
    }
    assert_eq!(endpoint.send("PUT", "/wire", "replication=", &[], b"<a/>").code(), "NotImplemented");
    let refused = next(&seen);
    assert_eq!((refused.0.as_str(), refused.4.as_deref()), ("NotOffered", Some("NotImplemented")));
}
