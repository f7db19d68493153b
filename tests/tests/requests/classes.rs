//! Storage classes: every operation that reports a class reports the one accepted when the object was written.

use super::*;

const CLASS: &str = "x-amz-storage-class";

/// The storage class of an object as each operation reports it: HEAD, GET, attributes, both listings and versions.
fn shown_classes(world: &World, key: &str) -> Vec<String> {
    let header_or_standard = |answer: Answer| match header(&answer, CLASS) {
        none if none.is_empty() => "STANDARD".to_owned(),
        class => class,
    };
    let attributes = request("GET", key, &[("x-amz-object-attributes", "StorageClass")]).query("attributes=");
    let mut shown = vec![
        header_or_standard(world.send(&request("HEAD", key, &[]))),
        header_or_standard(world.get(key, &[])),
        element(&world.send(&attributes).text, "StorageClass"),
    ];
    for query in [format!("list-type=2&prefix={key}"), format!("prefix={key}"), format!("prefix={key}&versions=")] {
        let listed = world.send(&Request::new("GET", format!("/{BUCKET}")).query(&query));
        shown.push(element(&listed.text, "StorageClass"));
    }
    shown
}

#[tokio::test]
async fn an_accepted_class_is_shown_by_every_operation() {
    let world = World::new().await;
    for class in ["STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "REDUCED_REDUNDANCY", "GLACIER_IR", "STANDARD"] {
        let put = world.send(&request("PUT", "k", &[(CLASS, class)]).body("x"));
        assert_eq!(put.status, 200, "{class}: {put}");
        assert_eq!(shown_classes(&world, "k"), vec![class; 6], "put");

        let source = ("x-amz-copy-source", "/requests/k");
        assert_eq!(world.send(&request("PUT", "copy", &[source])).status, 200);
        assert_eq!(shown_classes(&world, "copy"), vec!["STANDARD"; 6], "a copy has the requested class");
        assert_eq!(world.send(&request("PUT", "copy", &[source, (CLASS, class)])).status, 200);
        assert_eq!(shown_classes(&world, "copy"), vec![class; 6], "copied");

        let begun = world.send(&request("POST", "parts", &[(CLASS, class)]).query("uploads="));
        let id = element(&begun.text, "UploadId");
        let uploads = world.send(&Request::new("GET", format!("/{BUCKET}")).query("uploads="));
        assert_eq!(element(&uploads.text, "StorageClass"), class, "of the upload");
        let part = world.send(&request("PUT", "parts", &[]).query(&format!("partNumber=1&uploadId={id}")).body("x"));
        let parts = world.send(&request("GET", "parts", &[]).query(&format!("uploadId={id}")));
        assert_eq!(element(&parts.text, "StorageClass"), class, "of the upload's parts");
        let etag = header(&part, "etag");
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let done = world.send(&request("POST", "parts", &[]).query(&format!("uploadId={id}")).body(document));
        assert_eq!(done.status, 200, "{done}");
        assert_eq!(shown_classes(&world, "parts"), vec![class; 6], "completed");
    }
    // A copy of an object onto itself is allowed if it changes the storage class.
    let itself = ("x-amz-copy-source", "/requests/parts");
    assert_eq!(world.send(&request("PUT", "parts", &[itself, (CLASS, "STANDARD_IA")])).status, 200);
    assert_eq!(shown_classes(&world, "parts"), vec!["STANDARD_IA"; 6]);
    assert_eq!(world.send(&request("PUT", "parts", &[itself])).status, 400);
}

#[tokio::test]
async fn a_class_that_needs_more_than_a_name_is_refused() {
    let world = World::new().await;
    world.put("k", "x");
    let source = ("x-amz-copy-source", "/requests/k");
    for class in ["GLACIER", "DEEP_ARCHIVE", "OUTPOSTS", "SNOW", "EXPRESS_ONEZONE", "FSX_ONTAP", "standard_ia", ""] {
        for (what, request) in [
            ("put", request("PUT", "other", &[(CLASS, class)]).body("x")),
            ("copy", request("PUT", "other", &[source, (CLASS, class)])),
            ("begin", request("POST", "other", &[(CLASS, class)]).query("uploads=")),
        ] {
            let answer = world.send(&request);
            assert_eq!((answer.status, answer.code.as_str()), (400, "InvalidStorageClass"), "{what} {class}: {answer}");
        }
    }
    assert_eq!(world.get("other", &[]).status, 404);
}
