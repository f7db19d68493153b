//! Unsupported bucket settings: they read as unset, can be removed, and can be set only where that changes nothing.

use crate::endpoint::Endpoint;

#[test]
fn what_is_not_set_is_told_as_aws_tells_it() {
    let endpoint = Endpoint::start();
    for (query, code) in [
        ("encryption=", "ServerSideEncryptionConfigurationNotFoundError"),
        ("replication=", "ReplicationConfigurationNotFoundError"),
        ("metadataConfiguration=", "MetadataConfigurationNotFound"),
        ("metadataTable=", "MetadataConfigurationNotFound"),
        ("analytics=&id=one", "NoSuchConfiguration"),
        ("id=one&intelligent-tiering=", "NoSuchConfiguration"),
        ("id=one&inventory=", "NoSuchConfiguration"),
        ("id=one&metrics=", "NoSuchConfiguration"),
    ] {
        let answer = endpoint.send("GET", "/wire", query, &[], b"");
        assert_eq!((answer.status, answer.code().as_str()), (404, code), "{query}");
    }
    let space = r#" xmlns="http://s3.amazonaws.com/doc/2006-03-01/""#;
    for (query, root, inner) in [
        ("notification=", "NotificationConfiguration", ""),
        ("logging=", "BucketLoggingStatus", ""),
        ("accelerate=", "AccelerateConfiguration", ""),
        ("abac=", "AbacStatus", "<Status>Disabled</Status>"),
        ("requestPayment=", "RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>"),
        ("analytics=", "ListBucketAnalyticsConfigurationResult", "<IsTruncated>false</IsTruncated>"),
        (
            "intelligent-tiering=",
            "ListBucketIntelligentTieringConfigurationsOutput",
            "<IsTruncated>false</IsTruncated>",
        ),
        ("inventory=", "ListInventoryConfigurationsResult", "<IsTruncated>false</IsTruncated>"),
        ("metrics=", "ListMetricsConfigurationsResult", "<IsTruncated>false</IsTruncated>"),
    ] {
        let answer = endpoint.send("GET", "/wire", query, &[], b"");
        let text = String::from_utf8(answer.body).unwrap();
        let body = text.rsplit_once("?>").map_or(text.as_str(), |(_, body)| body).trim().replace(space, "");
        assert_eq!((answer.status, body), (200, format!("<{root}>{inner}</{root}>")), "{query}");
    }
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"x").code(), "OK");
    assert_eq!(endpoint.send("GET", "/wire/k", "torrent=", &[], b"").code(), "NoSuchKey");
}

#[test]
fn an_object_that_is_not_archived_cannot_be_restored() {
    let endpoint = Endpoint::start();
    let class = [("x-amz-storage-class", "GLACIER_IR")];
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &class, b"x").code(), "OK");
    let restore = |path: &str, query: &str, body: &str| {
        let answer = endpoint.send("POST", path, query, &[], body.as_bytes());
        (answer.status, answer.code(), String::from_utf8(answer.body).unwrap())
    };
    let asked = "<RestoreRequest><Days>1</Days><GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters>\
                 </RestoreRequest>";
    for body in [asked, ""] {
        let (status, code, text) = restore("/wire/k", "restore=", body);
        assert_eq!((status, code.as_str()), (403, "InvalidObjectState"), "{text}");
        assert!(text.contains("<Message>Restore is not allowed for the object's current storage class</Message>"));
    }
    for (path, query, body, expected) in [
        ("/wire/none", "restore=", asked, (404, "NoSuchKey")),
        ("/none/k", "restore=", asked, (404, "NoSuchBucket")),
        ("/wire/k", "restore=&versionId=null", asked, (403, "InvalidObjectState")),
        ("/wire/k", "restore=&versionId=none", asked, (400, "InvalidArgument")),
        ("/wire/k", "restore=", "<RestoreRequest><Day>1</Day></RestoreRequest>", (400, "MalformedXML")),
    ] {
        let (status, code, text) = restore(path, query, body);
        assert_eq!((status, code.as_str()), expected, "{path} {query} {body}: {text}");
    }
}

#[test]
fn what_is_not_set_is_removed_already() {
    let endpoint = Endpoint::start();
    for setting in ["encryption", "replication", "metadataConfiguration", "metadataTable"] {
        assert_eq!(endpoint.send("DELETE", "/wire", &format!("{setting}="), &[], b"").status, 204, "{setting}");
    }
    for setting in ["analytics=&id=one", "id=one&intelligent-tiering=", "id=one&inventory=", "id=one&metrics="] {
        assert_eq!(endpoint.send("DELETE", "/wire", setting, &[], b"").status, 204, "{setting}");
    }
    assert_eq!(endpoint.send("DELETE", "/absent", "encryption=", &[], b"").code(), "NoSuchBucket");
}

#[test]
fn what_changes_nothing_can_be_put_and_nothing_else() {
    let endpoint = Endpoint::start();
    let (off, malformed) = ("NotImplemented", "MalformedXML");
    for (query, document, code) in [
        (
            "requestPayment=",
            "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
            "OK",
        ),
        ("requestPayment=", "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>", off),
        ("requestPayment=", "<RequestPaymentConfiguration><Payer>Me</Payer></RequestPaymentConfiguration>", malformed),
        ("accelerate=", "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>", "OK"),
        ("accelerate=", "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>", off),
        ("accelerate=", "<AccelerateConfiguration></AccelerateConfiguration>", malformed),
        ("abac=", "<AbacStatus><Status>Disabled</Status></AbacStatus>", "OK"),
        ("abac=", "<AbacStatus><Status>Enabled</Status></AbacStatus>", off),
        ("notification=", "<NotificationConfiguration/>", "OK"),
        ("notification=", "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>", off),
        ("notification=", "<NotificationConfiguration><Unknown/></NotificationConfiguration>", malformed),
        ("logging=", "<BucketLoggingStatus></BucketLoggingStatus>", "OK"),
        ("encryption=", "<ServerSideEncryptionConfiguration/>", off),
        ("replication=", "<ReplicationConfiguration/>", off),
    ] {
        let answer = endpoint.send("PUT", "/wire", query, &[], document.as_bytes());
        assert_eq!(answer.code(), code, "{query} {document}");
    }
    let wrong = [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")];
    assert_eq!(endpoint.send("PUT", "/wire", "logging=", &wrong, b"<BucketLoggingStatus/>").code(), "BadDigest");
}

#[test]
fn each_is_asked_of_a_policy_by_its_own_action() {
    let endpoint = Endpoint::start();
    let bob = endpoint.account("bob", None);
    for (query, action) in [
        ("encryption=", "GetEncryptionConfiguration"),
        ("notification=", "GetBucketNotification"),
        ("logging=", "GetBucketLogging"),
        ("replication=", "GetReplicationConfiguration"),
        ("website=", "GetBucketWebsite"),
        ("accelerate=", "GetAccelerateConfiguration"),
        ("inventory=", "GetInventoryConfiguration"),
        ("abac=", "GetBucketAbac"),
    ] {
        assert_eq!(endpoint.send_as(&bob, "GET", "/wire", query, &[], b"").code(), "AccessDenied", "{query}");
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": {{"AWS": "bob"}},
                "Action": "s3:{action}", "Resource": "arn:aws:s3:::wire"}}}}"#
        );
        assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], policy.as_bytes()).code(), "OK", "{action}");
        assert_ne!(endpoint.send_as(&bob, "GET", "/wire", query, &[], b"").code(), "AccessDenied", "{query}");
        let deny = policy.replace("Allow", "Deny").replace("bob", "root");
        assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], deny.as_bytes()).code(), "OK", "{action}");
        assert_eq!(endpoint.send("GET", "/wire", query, &[], b"").code(), "AccessDenied", "{query}");
    }
}
