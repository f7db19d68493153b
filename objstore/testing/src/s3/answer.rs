//! What the server does with a request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::http::{Answer, Request, failure, named_failure};
use super::{Content, Shared, Stored, Upload};

const PAGE: usize = 1000;

/// Does a request.
pub(super) fn answer(shared: &Arc<Shared>, request: &Request) -> Answer {
    let mut content = shared.content.lock();
    let has = |name: &str| request.query.contains_key(name);
    match request.method.as_str() {
        "PUT" if has("uploadId") => part(&mut content, request),
        "PUT" => put(&mut content, request),
        "HEAD" => head(&content, request),
        "GET" if has("list-type") => list(&content, request),
        "GET" if has("uploads") => uploads(&content, request),
        "GET" => get(&content, request),
        "DELETE" if has("uploadId") => {
            content.uploads.remove(&request.query["uploadId"]);
            empty(204)
        }
        "DELETE" => {
            content.objects.remove(&request.key);
            empty(204)
        }
        "POST" if has("delete") => remove(&mut content, request),
        "POST" if has("uploads") => begin(&mut content, request),
        "POST" if has("uploadId") => complete(&mut content, request),
        _ => failure(501),
    }
}

fn empty(status: u16) -> Answer {
    Answer { status, ..Answer::default() }
}

fn xml(body: String) -> Answer {
    Answer {
        status: 200,
        headers: vec![("content-type".into(), "application/xml".into())],
        body: body.into(),
        length: None,
    }
}

fn metadata(request: &Request) -> Vec<(String, String)> {
    let of_object = |name: &&String| name.starts_with("x-amz-meta-");
    request.headers.keys().filter(of_object).map(|name| (name.clone(), request.headers[name].clone())).collect()
}

/// The answer to a write whose condition does not hold.
fn refused(content: &Content, request: &Request) -> Option<Answer> {
    let there = content.objects.get(&request.key);
    let none = request.headers.contains_key("if-none-match") && there.is_some();
    let other = request.headers.get("if-match").is_some_and(|etag| there.is_none_or(|stored| stored.etag != *etag));
    ((none || other) && !content.ignores_conditions).then(|| failure(412))
}

fn put(content: &mut Content, request: &Request) -> Answer {
    if let Some(refused) = refused(content, request) {
        return refused;
    }
    let etag = content.etag();
    let stored = Stored { bytes: request.body.clone(), etag: etag.clone(), metadata: metadata(request) };
    content.objects.insert(request.key.clone(), stored);
    Answer { status: 200, headers: vec![("etag".into(), etag)], ..Answer::default() }
}

fn headers(stored: &Stored) -> Vec<(String, String)> {
    let mut headers = vec![("etag".into(), stored.etag.clone())];
    headers.extend(stored.metadata.iter().cloned());
    headers
}

fn head(content: &Content, request: &Request) -> Answer {
    let Some(stored) = content.objects.get(&request.key) else { return empty(404) };
    Answer { status: 200, headers: headers(stored), body: Bytes::new(), length: Some(stored.bytes.len()) }
}

fn get(content: &Content, request: &Request) -> Answer {
    let Some(stored) = content.objects.get(&request.key) else { return failure(404) };
    let mut headers = headers(stored);
    let Some(range) = request.headers.get("range") else {
        return Answer { status: 200, headers, body: stored.bytes.clone(), length: None };
    };
    let parsed = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let parsed = parsed.and_then(|(from, to)| Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()?)));
    let Some((from, to)) = parsed.filter(|(from, _)| *from < stored.bytes.len()) else {
        return named_failure(416, "InvalidRange");
    };
    let to = to.min(stored.bytes.len() - 1);
    headers.push(("content-range".into(), format!("bytes {from}-{to}/{}", stored.bytes.len())));
    Answer { status: 206, headers, body: stored.bytes.slice(from..=to), length: None }
}

fn list(content: &Content, request: &Request) -> Answer {
    let prefix = request.query.get("prefix").cloned().unwrap_or_default();
    let after = request.query.get("start-after").cloned().unwrap_or_default();
    let most = request.query.get("max-keys").and_then(|most| most.parse().ok()).unwrap_or(PAGE);
    let objects: &BTreeMap<String, Stored> = content.old_listing.as_ref().unwrap_or(&content.objects);
    let mut body = String::from("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>");
    let of_page = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after).take(most);
    for (key, stored) in of_page {
        let _ = write!(body, "<Contents><Key>{key}</Key><Size>{}</Size></Contents>", stored.bytes.len());
    }
    xml(body + "</ListBucketResult>")
}

fn uploads(content: &Content, request: &Request) -> Answer {
    let prefix = request.query.get("prefix").cloned().unwrap_or_default();
    let mut body = String::from("<?xml version=\"1.0\"?><ListMultipartUploadsResult><IsTruncated>false</IsTruncated>");
    for (id, upload) in content.uploads.iter().filter(|(_, upload)| upload.key.starts_with(&prefix)) {
        let _ = write!(body, "<Upload><Key>{}</Key><UploadId>{id}</UploadId></Upload>", upload.key);
    }
    xml(body + "</ListMultipartUploadsResult>")
}

fn remove(content: &mut Content, request: &Request) -> Answer {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    for rest in text.split("<Key>").skip(1) {
        content.objects.remove(rest.split("</Key>").next().unwrap_or_default());
    }
    xml("<?xml version=\"1.0\"?><DeleteResult></DeleteResult>".into())
}

fn begin(content: &mut Content, request: &Request) -> Answer {
    content.numbers += 1;
    let id = format!("upload-{}", content.numbers);
    let upload = Upload { key: request.key.clone(), metadata: metadata(request), parts: BTreeMap::new() };
    content.uploads.insert(id.clone(), upload);
    xml(format!(
        "<?xml version=\"1.0\"?><InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
    ))
}

fn part(content: &mut Content, request: &Request) -> Answer {
    let number = request.query.get("partNumber").and_then(|number| number.parse().ok()).unwrap_or(0);
    let etag = content.etag();
    let Some(upload) = content.uploads.get_mut(&request.query["uploadId"]) else {
        return named_failure(404, "NoSuchUpload");
    };
    upload.parts.insert(number, request.body.clone());
    Answer { status: 200, headers: vec![("etag".into(), etag)], ..Answer::default() }
}

fn complete(content: &mut Content, request: &Request) -> Answer {
    let id = &request.query["uploadId"];
    if !content.uploads.contains_key(id) {
        return named_failure(404, "NoSuchUpload");
    }
    if let Some(refused) = refused(content, request) {
        return refused;
    }
    let Some(upload) = content.uploads.remove(id) else { return failure(500) };
    let mut bytes = BytesMut::new();
    upload.parts.values().for_each(|part| bytes.extend_from_slice(part));
    let etag = content.etag();
    let stored = Stored { bytes: bytes.freeze(), etag: etag.clone(), metadata: upload.metadata };
    content.objects.insert(upload.key, stored);
    xml(format!(
        "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
        etag.replace('"', "&quot;")
    ))
}
