//! Server access logging: the setting, and the delivered lines.

use std::time::{Duration, Instant};

use objstore::store::{CreateBucket, List, Mode, SetBucket, Versioning};
use prometheus_client::registry::Registry;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::Signed;

/// An endpoint that delivers log lines at once.
fn start() -> Endpoint {
    Endpoint::start_with(|config| config.access_log_delay = Duration::ZERO)
}

fn document(target: &str, prefix: &str, format: &str) -> String {
    format!(
        "<BucketLoggingStatus xmlns=\"http://doc.s3.amazonaws.com/2006-03-01\"><LoggingEnabled>\
         <TargetBucket>{target}</TargetBucket><TargetPrefix>{prefix}</TargetPrefix>{format}</LoggingEnabled>\
         </BucketLoggingStatus>"
    )
}

fn set(endpoint: &Endpoint, document: &str) -> Answer {
    endpoint.send("PUT", "/wire", "logging=", &[], document.as_bytes())
}

fn make(endpoint: &Endpoint, name: &str) {
    assert_eq!(endpoint.send("PUT", &format!("/{name}"), "", &[], b"").code(), "OK");
}

fn listing(endpoint: &Endpoint, bucket: &str) -> Vec<String> {
    let list = List { prefix: String::new(), delimiter: None, after: None, limit: 1000 };
    let listing = endpoint.store.list_objects(&bucket.parse().unwrap(), &list).unwrap();
    listing.objects.into_iter().map(|object| object.key).collect()
}

/// All lines delivered to a bucket, once one of them contains this text.
fn lines_with(endpoint: &Endpoint, bucket: &str, text: &str) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let keys = listing(endpoint, bucket);
        let texts = keys.iter().map(|key| endpoint.send("GET", &format!("/{bucket}/{key}"), "", &[], b"").body);
        let all: String = texts.map(|text| String::from_utf8(text).unwrap()).collect();
        if all.contains(text) {
            return all.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < end, "no line with {text}:\n{all}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn line_with(endpoint: &Endpoint, bucket: &str, text: &str) -> String {
    let lines = lines_with(endpoint, bucket, text);
    lines.into_iter().find(|line| line.contains(text)).unwrap()
}

#[test]
fn a_log_comes_back_as_it_was_set() {
    let endpoint = start();
    make(&endpoint, "logs");
    for (format, told) in [
        ("", ""),
        (
            "<TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>",
            "<TargetObjectKeyFormat><SimplePrefix></SimplePrefix></TargetObjectKeyFormat>",
        ),
        (
            "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource>\
             </PartitionedPrefix></TargetObjectKeyFormat>",
            "<PartitionDateSource>EventTime</PartitionDateSource>",
        ),
        (
            "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>DeliveryTime</PartitionDateSource>\
             </PartitionedPrefix></TargetObjectKeyFormat>",
            "<PartitionDateSource>DeliveryTime</PartitionDateSource>",
        ),
    ] {
        assert_eq!(set(&endpoint, &document("logs", "a/", format)).code(), "OK", "{format}");
        let read = String::from_utf8(endpoint.send("GET", "/wire", "logging=", &[], b"").body).unwrap();
        let read = read.replace("<SimplePrefix/>", "<SimplePrefix></SimplePrefix>");
        assert!(read.contains("<TargetBucket>logs</TargetBucket>"), "{read}");
        assert!(read.contains("<TargetPrefix>a/</TargetPrefix>") && read.contains(told), "{format} {read}");
        assert_eq!(read.contains("KeyFormat"), !format.is_empty(), "{read}");
    }
    assert_eq!(set(&endpoint, "<BucketLoggingStatus/>").code(), "OK");
    let read = String::from_utf8(endpoint.send("GET", "/wire", "logging=", &[], b"").body).unwrap();
    assert!(!read.contains("LoggingEnabled"), "{read}");
}

#[test]
fn a_log_that_could_not_be_delivered_is_refused() {
    let endpoint = start();
    make(&endpoint, "logs");
    let other = endpoint.account("other", Some(Mode::Owner));
    endpoint.block_on(async {
        for (name, owner) in [("theirs", "other"), ("kept", "root")] {
            let create = CreateBucket {
                name: name.parse().unwrap(),
                owner: owner.into(),
                quota_bytes: None,
                versioning: Versioning::Enabled,
                source: None,
                attributes: Default::default(),
                root: Default::default(),
            };
            endpoint.store.create_bucket(create).await.unwrap();
        }
    });
    let lock = b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>\
        <Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
    assert_eq!(endpoint.send("PUT", "/kept", "object-lock=", &[], lock).code(), "OK");
    let bad = "InvalidTargetBucketForLogging";
    let partition = |inner: &str| format!("<TargetObjectKeyFormat>{inner}</TargetObjectKeyFormat>");
    for (document, code) in [
        (document("none", "", ""), bad),
        (document("No_Name", "", ""), bad),
        (document("theirs", "", ""), bad),
        (document("kept", "", ""), bad),
        (document("logs", &"x".repeat(1000), ""), "InvalidArgument"),
        (
            document("logs", "", "<TargetGrants><Grant><Permission>READ</Permission></Grant></TargetGrants>"),
            "AccessControlListNotSupported",
        ),
        (document("logs", "", "<Unknown/>"), "MalformedXML"),
        (document("logs", "", &partition("")), "MalformedXML"),
        (document("logs", "", &partition("<PartitionedPrefix/>")), "MalformedXML"),
        (
            document(
                "logs",
                "",
                &partition(
                    "<PartitionedPrefix><PartitionDateSource>Now</PartitionDateSource>\
            </PartitionedPrefix>",
                ),
            ),
            "MalformedXML",
        ),
    ] {
        assert_eq!(set(&endpoint, &document).code(), code, "{document}");
    }
    // A caller that sets logging on the source needs the right to write to the target as well.
    let asked = document("logs", "", "");
    let put = || endpoint.send_as(&other, "PUT", "/wire", "logging=", &[], asked.as_bytes()).code();
    assert_eq!(put(), "AccessDenied");
    endpoint.block_on(endpoint.store.add_grant(&"logs".parse().unwrap(), "other", Mode::Write)).unwrap();
    assert_eq!(put(), "OK");
}

#[test]
fn requests_are_delivered_in_the_format_of_aws() {
    let endpoint = start();
    make(&endpoint, "logs");
    assert_eq!(set(&endpoint, &document("logs", "a/", "")).code(), "OK");
    assert_eq!(endpoint.send("PUT", "/wire/dir/k%20%C3%BC", "", &[], b"content").code(), "OK");
    let put = line_with(&endpoint, "logs", "REST.PUT.OBJECT");
    let fields: Vec<&str> = put.split(' ').collect();
    assert_eq!((fields[0], fields[1], fields[4], fields[5]), ("root", "wire", "127.0.0.1", "root"), "{put}");
    assert_eq!((fields[7], fields[8]), ("REST.PUT.OBJECT", "dir/k%20%C3%BC"), "{put}");
    assert!(put.contains(" \"PUT /wire/dir/k%20%C3%BC HTTP/1.1\" 200 - - 7 "), "{put}");
    assert!(put.contains(" SigV4 - AuthHeader ") && put.ends_with(" - - -"), "{put}");

    let agent = [("host", "localhost"), ("user-agent", "evil\" 200 -"), ("referer", "a\"b")];
    endpoint.send_signed("GET", "/wire/none", "X-Amz-Security-Token=5ecre7", &Signed::bare(&agent), b"");
    let denied = line_with(&endpoint, "logs", "REST.GET.OBJECT none");
    assert!(denied.contains(" 403 AccessDenied ") || denied.contains(" 400 "), "{denied}");
    assert!(denied.contains(" \"a%22b\" \"evil%22 200 -\" ") && !denied.contains("5ecre7"), "{denied}");
    assert!(denied.split(' ').nth(5) == Some("-"), "{denied}");

    endpoint.send("GET", "/wire/dir/k%20%C3%BC", "", &[("range", "bytes=0-2")], b"");
    let ranged = line_with(&endpoint, "logs", " 206 ");
    assert!(ranged.contains(" 206 - 3 7 "), "{ranged}");
    assert!(listing(&endpoint, "logs").iter().all(|key| key.starts_with("a/20")), "named by prefix and time");
}

#[test]
fn a_bucket_that_is_its_own_target_does_not_log_its_log() {
    let endpoint = start();
    assert_eq!(set(&endpoint, &document("wire", "log/", "")).code(), "OK");
    assert_eq!(endpoint.send("HEAD", "/wire", "", &[], b"").status, 200);
    let end = Instant::now() + Duration::from_secs(10);
    while listing(&endpoint, "wire").is_empty() {
        assert!(Instant::now() < end, "nothing is delivered");
        std::thread::sleep(Duration::from_millis(50));
    }
    // From here on no request uses the bucket, so no further line may be delivered.
    std::thread::sleep(Duration::from_millis(500));
    let before = listing(&endpoint, "wire").len();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(listing(&endpoint, "wire").len(), before);
}

#[test]
fn an_orderly_end_delivers_what_is_buffered() {
    let mut endpoint = Endpoint::start();
    make(&endpoint, "logs");
    assert_eq!(set(&endpoint, &document("logs", "", "")).code(), "OK");
    assert_eq!(endpoint.send("PUT", "/wire/last", "", &[], b"x").code(), "OK");
    assert!(listing(&endpoint, "logs").is_empty(), "a line is delivered only once it is old enough");
    endpoint.stop();
    endpoint.stopped();
    assert_eq!(listing(&endpoint, "logs").len(), 1);
}

#[test]
fn lines_that_cannot_be_delivered_are_dropped_and_counted() {
    let mut registry = Registry::default();
    let metrics = s3::Metrics::new(&mut registry);
    let endpoint = Endpoint::start_with(|config| {
        config.access_log_delay = Duration::ZERO;
        config.metrics = metrics;
    });
    let count = |outcome: &str| -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let name = format!("s3_access_log_lines_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    };
    let counts = |outcome: &str| {
        let end = Instant::now() + Duration::from_secs(10);
        while count(outcome) == 0 {
            assert!(Instant::now() < end, "{outcome}");
            endpoint.send("HEAD", "/wire", "", &[], b"");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    make(&endpoint, "logs");
    assert_eq!(set(&endpoint, &document("logs", "", "")).code(), "OK");
    let full = SetBucket { quota_bytes: Some(Some(1)), ..SetBucket::default() };
    endpoint.block_on(endpoint.store.set_bucket(&"logs".parse().unwrap(), full)).unwrap();
    counts("quota");
    assert!(listing(&endpoint, "logs").is_empty());
    assert_eq!(endpoint.send("DELETE", "/logs", "", &[], b"").status, 204);
    counts("target");
    assert_eq!(count("delivered"), 0);
}
