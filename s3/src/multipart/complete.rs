//! CompleteMultipartUpload.
//!
//! - The object refers to its parts' content; nothing is copied.
//! - The object's checksum is computed from its parts' checksums, which were verified on upload; a client's claim is
//!   compared with it before the object is created.
//! - A slow completion begins its response early, with 200 and blanks, so that no proxy closes the connection; the
//!   result, or an error, then follows in the body. The work continues if the client disconnects, and a repeated
//!   request gets the same answer.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use objstore::store::{Checksum, CompleteUpload, CompletedUpload, Condition, PART_BYTES_MIN, PartInfo, UploadRef};
use objstore::{Error, Noun, Store};
use s3s::dto::{ChecksumType, CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::checksum::{self, Claims, Plan};
use crate::error::{Detail as _, OrRefuse as _, lost, plain, refuse, says};
use crate::request::Request;
use crate::response::{etag, version_made};
use crate::service::{Call, Service};
use crate::{conditions, lifecycle, names};

/// Number of parts read from the store at a time.
const STEP: usize = 1_000;
/// How long the response waits for the result, so as to carry its status.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most completions at a time. The work continues when its client disconnects, so the request limit does not bound
/// it.
static PLACES: Semaphore = Semaphore::const_new(64);
/// How long a completion waits for a permit.
const TURN: Duration = Duration::from_secs(10);

/// The arguments of a completion.
struct Wanted {
    upload: UploadRef,
    parts: Vec<Named>,
    claims: Claims,
    kind: Option<ChecksumType>,
    size: Option<i64>,
    condition: Condition,
}

/// Turns an upload into an object (S3 API, CompleteMultipartUpload).
pub(crate) async fn complete(
    call: &Call,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let claims = Claims::from_headers(&request.headers)?;
    // The other checksums are claims about the object, not the body.
    call.request.prove_claims(&claims.md5_alone())?;
    let input = request.input;
    let condition = conditions::writing(&request.headers)?;
    let wanted = Wanted {
        upload: names::upload(&input.bucket, &input.key, input.upload_id)?,
        claims,
        parts: named(input.multipart_upload.and_then(|parts| parts.parts).unwrap_or_default())?,
        kind: input.checksum_type,
        size: input.mpu_object_size,
        condition,
    };
    let location = call.request.url(&request.headers, &input.bucket, &input.key);
    let (service, bucket, key) = (Arc::clone(&call.service), input.bucket, input.key);
    let place = tokio::time::timeout(TURN, PLACES.acquire()).await.ok().and_then(Result::ok);
    let busy = || refuse(S3ErrorCode::SlowDown, "Many uploads are being completed; try again in a moment.");
    let place = place.ok_or_else(busy)?;
    let work = tokio::spawn(async move {
        let _place = place;
        let (name, at) = (wanted.upload.bucket.clone(), wanted.upload.key.clone());
        let done = finish(&service, wanted).await?;
        // The object exists already; a response without this header is better than an error.
        let expiration = service.blocking(move |store| store.expiration(&name, &at).or_refuse()).await.ok().flatten();
        let mut output = CompleteMultipartUploadOutput {
            location: Some(location),
            bucket: Some(bucket),
            key: Some(key),
            e_tag: Some(etag(&done.etag)),
            expiration: expiration.as_ref().and_then(lifecycle::header),
            version_id: version_made(done.version),
            ..CompleteMultipartUploadOutput::default()
        };
        checksum::fill!(output, &done.checksums, typed);
        Ok(output)
    });
    answer(work, PATIENCE, Arc::clone(&call.request)).await.map(S3Response::new)
}

/// Waits for the result; after `patience`, the rest of the wait happens inside the response's body, and `request` records
/// the error.
async fn answer(
    mut work: JoinHandle<S3Result<CompleteMultipartUploadOutput>>,
    patience: Duration,
    request: Arc<Request>,
) -> S3Result<CompleteMultipartUploadOutput> {
    if let Ok(done) = tokio::time::timeout(patience, &mut work).await {
        return done.map_err(|error| lost(&error))?;
    }
    let rest = async move {
        let done = work.await.map_err(|error| lost(&error)).flatten();
        // `s3s` writes only the code and message of an error; `layer::late` adds the recorded particulars.
        request.noted(done)
    };
    Ok(CompleteMultipartUploadOutput { future: Some(Box::pin(rest)), ..CompleteMultipartUploadOutput::default() })
}

async fn finish(service: &Service, wanted: Wanted) -> S3Result<CompletedUpload> {
    match service.blocking(move |store| prepare(store, wanted)).await? {
        Prepared::Before(completed) => Ok(completed),
        Prepared::Now(request) => service.store.complete_upload(request).await.or_refuse(),
    }
}

/// A part that the client names.
struct Named {
    number: u32,
    etag: String,
    checksums: Vec<(&'static str, String)>,
}

fn named(parts: Vec<CompletedPart>) -> S3Result<Vec<Named>> {
    if parts.is_empty() {
        return Err(refuse(S3ErrorCode::MalformedXML, "Name at least one part."));
    }
    let mut named: Vec<Named> = Vec::with_capacity(parts.len());
    for part in parts {
        let part = parse(part)?;
        match named.last().map(|last| last.number.cmp(&part.number)) {
            Some(Ordering::Greater) => {
                return Err(plain(S3ErrorCode::InvalidPartOrder));
            }
            // A client that sent a part twice may name both; the later one replaced the earlier.
            Some(Ordering::Equal) => drop(named.pop()),
            Some(Ordering::Less) | None => {}
        }
        named.push(part);
    }
    Ok(named)
}

fn parse(part: CompletedPart) -> S3Result<Named> {
    let missing = || refuse(S3ErrorCode::MalformedXML, "A part lacks its PartNumber or ETag.");
    let checksums = [
        ("CRC32", part.checksum_crc32),
        ("CRC32C", part.checksum_crc32c),
        ("CRC64NVME", part.checksum_crc64nvme),
        ("SHA1", part.checksum_sha1),
        ("SHA256", part.checksum_sha256),
        ("SHA512", part.checksum_sha512),
        ("MD5", part.checksum_md5),
        ("XXHASH64", part.checksum_xxhash64),
        ("XXHASH3", part.checksum_xxhash3),
        ("XXHASH128", part.checksum_xxhash128),
    ];
    Ok(Named {
        number: names::part_number(part.part_number.ok_or_else(missing)?)?,
        etag: part.e_tag.ok_or_else(missing)?.into_value(),
        checksums: checksums.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
    })
}

/// Whether the object still has to be created.
enum Prepared {
    Before(CompletedUpload),
    Now(CompleteUpload),
}

/// Compares the claims with the stored parts, and computes the object's checksum. Blocking.
fn prepare(store: &Store, wanted: Wanted) -> S3Result<Prepared> {
    let Wanted { upload, parts: named, claims, kind, size, condition } = wanted;
    let (plan, stored) = match stored(store, &upload) {
        Err(gone @ Error::NotFound { noun: Noun::Upload, .. }) => {
            let parts: Vec<(u32, String)> = named.into_iter().map(|part| (part.number, part.etag)).collect();
            let before = store.completed_upload(&upload, &parts).or_refuse()?;
            return before.map(Prepared::Before).ok_or(gone).or_refuse();
        }
        found => found.or_refuse()?,
    };
    check_kind(plan, kind.as_ref())?;
    let chosen: Vec<PartInfo> = named.iter().map(|part| find(&stored, part)).collect::<S3Result<_>>()?;
    check_size(&chosen, size)?;
    check_small(&chosen)?;
    let plan = plan.or_else(|| Plan::implied(&chosen));
    let joined = plan.and_then(|plan| plan.join(&chosen));
    check_claim(&claims, joined.as_ref())?;
    Ok(Prepared::Now(CompleteUpload {
        upload,
        parts: chosen.into_iter().map(|part| (part.number, part.etag)).collect(),
        condition,
        checksums: joined.into_iter().collect(),
    }))
}

fn stored(store: &Store, upload: &UploadRef) -> objstore::Result<(Option<Plan>, Vec<PartInfo>)> {
    let (mut parts, mut after) = (Vec::new(), 0);
    loop {
        let page = store.parts(upload, after, STEP)?;
        parts.extend(page.parts);
        match page.next {
            Some(next) => after = next,
            None => return Ok((Plan::from_record(page.upload.checksum_algorithm.as_deref()), parts)),
        }
    }
}

/// `x-amz-checksum-type` has to be the one that the upload was created with.
fn check_kind(plan: Option<Plan>, claimed: Option<&ChecksumType>) -> S3Result<()> {
    let kept = plan.map_or(ChecksumType::from_static(ChecksumType::FULL_OBJECT), Plan::kind);
    if claimed.is_none_or(|claimed| claimed.as_str() == kept.as_str()) {
        return Ok(());
    }
    let words = format!(
        "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
        kept.as_str()
    );
    Err(says(S3ErrorCode::InvalidRequest, words))
}

fn find(stored: &[PartInfo], named: &Named) -> S3Result<PartInfo> {
    let found = stored.binary_search_by_key(&named.number, |part| part.number).ok().map(|index| &stored[index]);
    let Some(part) = found.filter(|part| part.etag == named.etag) else { return Err(other_part(named)) };
    for (name, value) in &named.checksums {
        match part.checksums.iter().find(|kept| kept.algorithm == *name) {
            Some(kept) if kept.value == *value => {}
            Some(_) => return Err(other_part(named)),
            None => {
                let words = format!("Part {} was not sent with {name}, so it cannot be checked.", named.number);
                return Err(refuse(S3ErrorCode::InvalidRequest, words));
            }
        }
    }
    Ok(part.clone())
}

fn other_part(named: &Named) -> s3s::S3Error {
    plain(S3ErrorCode::InvalidPart).with("PartNumber", named.number).with("ETag", &named.etag)
}

/// Only the last part may be small. The store refuses it too, without naming the part.
fn check_small(parts: &[PartInfo]) -> S3Result<()> {
    let (_, before) = parts.split_last().unzip();
    match before.unwrap_or_default().iter().find(|part| part.size < PART_BYTES_MIN) {
        None => Ok(()),
        Some(part) => Err(plain(S3ErrorCode::EntityTooSmall)
            .with("ETag", &part.etag)
            .with("MinSizeAllowed", PART_BYTES_MIN)
            .with("ProposedSize", part.size)
            .with("PartNumber", part.number)),
    }
}

fn check_size(parts: &[PartInfo], claimed: Option<i64>) -> S3Result<()> {
    let size: u64 = parts.iter().map(|part| part.size).sum();
    match claimed {
        Some(claimed) if u64::try_from(claimed) != Ok(size) => {
            let words = format!(
                "The provided 'x-amz-mp-object-size' header value {claimed} does not match what was computed: {size}"
            );
            Err(says(S3ErrorCode::InvalidRequest, words))
        }
        _ => Ok(()),
    }
}

fn check_claim(claims: &Claims, joined: Option<&Checksum>) -> S3Result<()> {
    let Some((algorithm, value)) = claims.known() else { return Ok(()) };
    match joined.filter(|joined| joined.algorithm == algorithm.name()) {
        Some(joined) if joined.value == value || digest(joined) == value => Ok(()),
        Some(_) => Err(checksum::mismatch(algorithm)),
        None => {
            let words = format!("The upload was not begun with {}, so it cannot be checked.", algorithm.name());
            Err(refuse(S3ErrorCode::InvalidRequest, words))
        }
    }
}

/// A composite checksum without its number of parts: some clients omit it (minio-go).
fn digest(joined: &Checksum) -> &str {
    joined.value.split_once('-').map_or(&joined.value, |(digest, _)| digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Domains};
    use s3s::dto::ETag;

    fn part(number: Option<i32>, etag: Option<&str>) -> CompletedPart {
        let e_tag = etag.map(|etag| ETag::Strong(etag.into()));
        CompletedPart { part_number: number, e_tag, ..CompletedPart::default() }
    }

    fn code(parts: Vec<CompletedPart>) -> String {
        named(parts).err().map(|error| error.code().as_str().to_owned()).unwrap_or_default()
    }

    #[test]
    fn parts_are_named_in_order() {
        assert_eq!(code(vec![part(Some(1), Some("a")), part(Some(3), Some("b"))]), "");
        assert_eq!(code(vec![part(Some(3), Some("a")), part(Some(1), Some("b"))]), "InvalidPartOrder");
        let twice = named(vec![part(Some(1), Some("a")), part(Some(1), Some("b"))]).unwrap_or_default();
        assert_eq!(twice.iter().map(|part| part.etag.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(code(vec![part(Some(1), None)]), "MalformedXML");
        assert_eq!(code(vec![part(None, Some("a"))]), "MalformedXML");
        assert_eq!(code(vec![]), "MalformedXML");
        assert_eq!(code(vec![part(Some(0), Some("a"))]), "InvalidArgument");
    }

    #[test]
    fn a_named_part_has_to_be_the_stored_one() {
        let kept = Checksum { algorithm: "CRC32".into(), value: "AAAAAA==".into() };
        let modified = objstore::clock::Timestamp::default();
        let stored = [PartInfo { number: 2, size: 5, etag: "a".into(), modified, checksums: vec![kept] }];
        let named = |number, etag: &str, crc: &str| Named {
            number,
            etag: etag.into(),
            checksums: vec![("CRC32", crc.to_owned())],
        };
        assert!(find(&stored, &named(2, "a", "AAAAAA==")).is_ok());
        for wrong in [named(1, "a", "AAAAAA=="), named(2, "b", "AAAAAA=="), named(2, "a", "AAAAAQ==")] {
            assert_eq!(find(&stored, &wrong).err().unwrap().code().as_str(), "InvalidPart");
        }
        let unchecked = Named { checksums: vec![("SHA1", "x".into())], ..named(2, "a", "AAAAAA==") };
        assert_eq!(find(&stored, &unchecked).err().unwrap().code().as_str(), "InvalidRequest");
        assert!(check_size(&stored, Some(5)).is_ok());
        assert!(check_size(&stored, Some(6)).is_err());
    }

    #[test]
    fn a_checksum_of_checksums_may_be_claimed_without_its_number_of_parts() {
        let claimed = |value: &'static str| {
            let value = http::HeaderValue::from_static(value);
            let headers = http::HeaderMap::from_iter([(http::HeaderName::from_static("x-amz-checksum-crc32"), value)]);
            let joined = Checksum { algorithm: "CRC32".into(), value: "AAAAAA==-2".into() };
            check_claim(&Claims::from_headers(&headers).unwrap(), Some(&joined)).is_ok()
        };
        assert!(claimed("AAAAAA==-2") && claimed("AAAAAA=="));
        assert!(!claimed("AAAAAA==-3") && !claimed("AAAAAQ=="));
    }

    #[test]
    fn the_type_is_the_one_the_upload_was_begun_with() {
        let kind = |name| ChecksumType::from_static(name);
        let composite = Plan::new(Some("SHA256"), None).unwrap();
        assert!(check_kind(composite, Some(&kind(ChecksumType::COMPOSITE))).is_ok());
        assert!(check_kind(composite, Some(&kind(ChecksumType::FULL_OBJECT))).is_err());
        assert!(check_kind(None, Some(&kind(ChecksumType::FULL_OBJECT))).is_ok());
        assert!(check_kind(None, Some(&kind(ChecksumType::COMPOSITE))).is_err());
        assert!(check_kind(None, None).is_ok());
    }

    #[tokio::test]
    async fn a_quick_result_is_the_answer_and_a_slow_one_its_body() {
        let refused = || Err(refuse(S3ErrorCode::InvalidPart, "no"));
        let (head, ()) = http::Request::post("/b/k?uploadId=u").body(()).unwrap().into_parts();
        let address = Address::new(&Domains::default(), "", "/b/k");
        let request = Arc::new(Request::new("id".into(), &head, address, None));
        let quick = answer(tokio::spawn(async move { refused() }), Duration::from_secs(60), Arc::clone(&request)).await;
        assert_eq!(quick.unwrap_err().code().as_str(), "InvalidPart");
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let work = tokio::spawn(async move {
            let _ = held.await;
            refused()
        });
        let slow = answer(work, Duration::from_millis(1), Arc::clone(&request)).await.unwrap();
        release.send(()).unwrap();
        assert_eq!(slow.future.unwrap().await.unwrap_err().code().as_str(), "InvalidPart");
        assert!(request.failure().is_some(), "the error document needs its particulars");
    }
}
