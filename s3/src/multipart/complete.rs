//! CompleteMultipartUpload.
//!
//! - The object refers to its parts' content; nothing is copied.
//! - The parts' checksums, which were proved when the parts came, give the object's; a claim of the client is compared
//!   with it before the object is made.

use objstore::Store;
use objstore::store::{Checksum, CompleteUpload, Condition, PartInfo, UploadRef};
use s3s::dto::{CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::part::number;
use crate::bucket::host;
use crate::checksum::{self, Claims, Plan};
use crate::error::{OrRefuse as _, refuse};
use crate::object::etag;
use crate::service::Service;
use crate::{conditions, names};

/// Parts read from the store in one step.
const STEP: usize = 1_000;

/// Turns an upload into its object (S3 API, CompleteMultipartUpload).
pub(crate) async fn complete(
    service: &Service,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let mut input = request.input;
    let condition = conditions::writing(input.if_match.take(), input.if_none_match.take())?;
    let upload = names::upload(&input.bucket, &input.key, input.upload_id)?;
    let claims = Claims::from_headers(&request.headers)?;
    let named = named(input.multipart_upload.and_then(|parts| parts.parts).unwrap_or_default())?;
    let size = input.mpu_object_size;
    let prepared = service.blocking(move |store| prepare(store, upload, &named, &claims, size, condition)).await?;
    let object = service.store.complete_upload(prepared).await.or_refuse()?;

    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("http://{}/{}/{}", host(&request.headers), input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: Some(etag(&object.etag)),
        version_id: object.version,
        ..CompleteMultipartUploadOutput::default()
    };
    checksum::fill!(output, &object.checksums, typed);
    Ok(S3Response::new(output))
}

/// A part the client names.
struct Named {
    number: u32,
    etag: String,
    checksums: Vec<(&'static str, String)>,
}

fn named(parts: Vec<CompletedPart>) -> S3Result<Vec<Named>> {
    if parts.is_empty() {
        return Err(refuse(S3ErrorCode::MalformedXML, "Name at least one part."));
    }
    let named: Vec<Named> = parts.into_iter().map(parse).collect::<S3Result<_>>()?;
    if named.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(refuse(S3ErrorCode::InvalidPartOrder, "Name the parts by rising number."));
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
    ];
    Ok(Named {
        number: number(part.part_number.ok_or_else(missing)?)?,
        etag: part.e_tag.ok_or_else(missing)?.into_value(),
        checksums: checksums.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
    })
}

/// Compares what is claimed with the parts stored, and derives the object's checksum. Blocking.
fn prepare(
    store: &Store,
    upload: UploadRef,
    named: &[Named],
    claims: &Claims,
    size: Option<i64>,
    condition: Condition,
) -> S3Result<CompleteUpload> {
    let (plan, stored) = stored(store, &upload)?;
    let chosen: Vec<PartInfo> = named.iter().map(|part| find(&stored, part)).collect::<S3Result<_>>()?;
    check_size(&chosen, size)?;
    let joined = plan.and_then(|plan| plan.join(&chosen));
    check_claim(claims, joined.as_ref())?;
    Ok(CompleteUpload {
        upload,
        parts: chosen.into_iter().map(|part| (part.number, part.etag)).collect(),
        condition,
        checksums: joined.into_iter().collect(),
    })
}

fn stored(store: &Store, upload: &UploadRef) -> S3Result<(Option<Plan>, Vec<PartInfo>)> {
    let (mut parts, mut after) = (Vec::new(), 0);
    loop {
        let page = store.parts(upload, after, STEP).or_refuse()?;
        parts.extend(page.parts);
        match page.next {
            Some(next) => after = next,
            None => return Ok((Plan::from_record(page.upload.checksum_algorithm.as_deref()), parts)),
        }
    }
}

fn find(stored: &[PartInfo], named: &Named) -> S3Result<PartInfo> {
    let found = stored.binary_search_by_key(&named.number, |part| part.number).ok().map(|index| &stored[index]);
    let fits = |part: &&PartInfo| {
        part.etag == named.etag
            && named
                .checksums
                .iter()
                .all(|(name, value)| part.checksums.iter().all(|kept| kept.algorithm != *name || kept.value == *value))
    };
    found.filter(fits).cloned().ok_or_else(|| {
        let words = format!("Part {} is not there, or has another ETag or checksum than named.", named.number);
        refuse(S3ErrorCode::InvalidPart, words)
    })
}

fn check_size(parts: &[PartInfo], claimed: Option<i64>) -> S3Result<()> {
    let size: u64 = parts.iter().map(|part| part.size).sum();
    match claimed {
        Some(claimed) if u64::try_from(claimed) != Ok(size) => {
            let words = format!("The parts make {size} bytes, x-amz-mp-object-size says {claimed}.");
            Err(refuse(S3ErrorCode::InvalidRequest, words))
        }
        _ => Ok(()),
    }
}

fn check_claim(claims: &Claims, joined: Option<&Checksum>) -> S3Result<()> {
    let Some((algorithm, value)) = claims.known() else { return Ok(()) };
    match joined.filter(|joined| joined.algorithm == algorithm.name()) {
        Some(joined) if joined.value == value => Ok(()),
        Some(_) => Err(refuse(
            S3ErrorCode::BadDigest,
            format!("The {} you specified did not match the object.", algorithm.name()),
        )),
        None => Err(refuse(
            S3ErrorCode::InvalidRequest,
            format!("The upload was not begun with {}, so it cannot be checked.", algorithm.name()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(code(vec![part(Some(1), Some("a")), part(Some(1), Some("a"))]), "InvalidPartOrder");
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
        assert!(check_size(&stored, Some(5)).is_ok());
        assert!(check_size(&stored, Some(6)).is_err());
    }
}
