//! The checksum of an object made of parts.
//!
//! - `COMPOSITE` is the checksum of the parts' checksums, followed by `-N`. `FULL_OBJECT` covers the whole content; for
//!   the CRCs it is computed from the parts' CRCs and lengths without reading the content again.
//! - The plan is stored with the upload as `ALGORITHM` or `ALGORITHM/FULL_OBJECT`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::CrcAlgorithm;
use objstore::store::{Checksum, ObjectPart, PartInfo};
use s3s::dto::ChecksumType;
use s3s::{S3ErrorCode, S3Result};

use super::{Algorithm, Digest};
use crate::error::says;

const FULL_OBJECT: &str = "FULL_OBJECT";
const COMPOSITE: &str = "COMPOSITE";

/// How the checksum of an upload's object is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The algorithm, also for the parts.
    pub(crate) algorithm: Algorithm,
    full_object: bool,
}

impl Plan {
    /// The plan that a client requests (S3 API, CreateMultipartUpload).
    pub(crate) fn new(algorithm: Option<&str>, kind: Option<&str>) -> S3Result<Option<Self>> {
        let Some(name) = algorithm else {
            return match kind {
                None => Ok(None),
                Some(_) => Err(says(
                    S3ErrorCode::InvalidRequest,
                    "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
                )),
            };
        };
        let algorithm = Algorithm::from_name(name)?;
        let full_object = match (kind, algorithm) {
            (None, _) => algorithm == Algorithm::Crc64Nvme,
            (Some(COMPOSITE), algorithm) if algorithm != Algorithm::Crc64Nvme => false,
            (Some(FULL_OBJECT), algorithm) if algorithm.joins() => true,
            (Some(kind @ (COMPOSITE | FULL_OBJECT)), _) => {
                let name = name.to_ascii_lowercase();
                let words = format!("The {kind} checksum type cannot be used with the {name} checksum algorithm.");
                return Err(says(S3ErrorCode::InvalidRequest, words));
            }
            (Some(_), _) => {
                return Err(says(S3ErrorCode::InvalidRequest, "Value for x-amz-checksum-type header is invalid."));
            }
        };
        Ok(Some(Self { algorithm, full_object }))
    }

    /// The form stored with the upload.
    pub(crate) fn to_record(self) -> String {
        let name = self.algorithm.name();
        if self.full_object { format!("{name}/{FULL_OBJECT}") } else { name.to_owned() }
    }

    /// Parses the stored form; `None` if it names no known algorithm.
    pub(crate) fn from_record(record: Option<&str>) -> Option<Self> {
        let record = record?;
        let (name, full_object) = match record.split_once('/') {
            Some((name, kind)) => (name, kind == FULL_OBJECT),
            None => (record, false),
        };
        Some(Self { algorithm: Algorithm::from_name(name).ok()?, full_object })
    }

    /// The plan for an upload without one, from its parts: if all have the same CRC, the object gets it too.
    pub(crate) fn implied(parts: &[PartInfo]) -> Option<Self> {
        let first = parts.first()?.checksums.first()?;
        let algorithm = Algorithm::from_name(&first.algorithm).ok().filter(|algorithm| algorithm.joins())?;
        Some(Self { algorithm, full_object: true })
    }

    /// The checksum type for responses.
    pub(crate) fn kind(self) -> ChecksumType {
        ChecksumType::from_static(if self.full_object { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE })
    }

    /// The checksum of the object made of `parts`; `None` if a part has none, such as a copied one.
    pub(crate) fn join(self, parts: &[PartInfo]) -> Option<Checksum> {
        let sums: Option<Vec<Vec<u8>>> = parts.iter().map(|part| self.value_of(part)).collect();
        let sums = sums?;
        let value = if self.full_object { self.whole(parts, &sums)? } else { self.composite(&sums)? };
        Some(Checksum { algorithm: self.algorithm.name().into(), value })
    }

    fn value_of(self, part: &PartInfo) -> Option<Vec<u8>> {
        let kept = part.checksums.iter().find(|checksum| checksum.algorithm == self.algorithm.name())?;
        BASE64.decode(&kept.value).ok()
    }

    fn composite(self, sums: &[Vec<u8>]) -> Option<String> {
        let mut digest = Digest::new(Some(self.algorithm));
        for sum in sums {
            digest.update(sum);
        }
        let checksum = digest.finish().checksum?;
        Some(format!("{}-{}", checksum.value, sums.len()))
    }

    fn whole(self, parts: &[PartInfo], sums: &[Vec<u8>]) -> Option<String> {
        combine(self.algorithm, parts.iter().map(|part| part.size).zip(sums.iter().map(Vec::as_slice)))
    }
}

/// The CRC of concatenated content from the sizes and CRCs of its pieces; `None` if the algorithm is not a CRC.
fn combine<'a>(algorithm: Algorithm, pieces: impl Iterator<Item = (u64, &'a [u8])>) -> Option<String> {
    let crc = match algorithm {
        Algorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        Algorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
        Algorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
        _ => return None,
    };
    let mut joined: Option<u64> = None;
    for (size, sum) in pieces {
        let value = sum.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        joined = Some(match joined {
            None => value,
            Some(before) => crc_fast::checksum_combine(crc, before, value, size),
        });
    }
    joined.map(|value| BASE64.encode(&value.to_be_bytes()[8 - algorithm.len()..]))
}

/// The checksum of a whole object from those of its parts, without reading it; `None` if they are not sufficient.
pub(crate) fn whole(algorithm: Algorithm, parts: &[ObjectPart]) -> Option<Checksum> {
    let sum = |part: &ObjectPart| {
        let kept = part.checksums.iter().find(|checksum| checksum.algorithm == algorithm.name())?;
        Some((part.size, BASE64.decode(&kept.value).ok()?))
    };
    let sums = parts.iter().map(sum).collect::<Option<Vec<_>>>()?;
    let value = combine(algorithm, sums.iter().map(|(size, sum)| (*size, sum.as_slice())))?;
    Some(Checksum { algorithm: algorithm.name().into(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, content: &[u8], algorithm: Algorithm) -> PartInfo {
        let mut digest = Digest::new(Some(algorithm));
        digest.update(content);
        let sums = digest.finish();
        PartInfo {
            number,
            size: sums.size,
            etag: sums.etag(),
            modified: objstore::clock::Timestamp::default(),
            checksums: sums.checksum.into_iter().collect(),
        }
    }

    #[test]
    fn the_joined_crc_is_that_of_the_whole_content() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let plan = Plan::new(Some(algorithm.name()), Some(FULL_OBJECT)).unwrap().unwrap();
            let parts = [b"1234".as_slice(), b"", b"567", b"89"].map(|content| part(1, content, algorithm));
            let mut whole = Digest::new(Some(algorithm));
            whole.update(b"123456789");
            let expected = whole.finish().checksum;
            assert_eq!(plan.join(&parts), expected, "{algorithm:?}");
            assert_eq!(Plan::implied(&parts), Some(plan));
            let kept = parts.map(|part| ObjectPart {
                number: part.number,
                offset: 0,
                size: part.size,
                checksums: part.checksums,
            });
            assert_eq!(super::whole(algorithm, &kept), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn the_composite_counts_its_parts() {
        let plan = Plan::new(Some("SHA256"), None).unwrap().unwrap();
        let parts = [part(1, b"a", Algorithm::Sha256), part(2, b"b", Algorithm::Sha256)];
        let joined = plan.join(&parts).unwrap();
        assert!(joined.value.ends_with("-2"), "{}", joined.value);
        assert_eq!(super::super::kind(&joined).as_str(), COMPOSITE);
    }

    #[test]
    fn a_part_without_checksum_gives_none() {
        let plan = Plan::new(Some("CRC32"), None).unwrap().unwrap();
        assert_eq!(plan.join(&[part(1, b"a", Algorithm::Sha1)]), None);
        assert_eq!(Plan::implied(&[part(1, b"a", Algorithm::Sha1)]), None);
        let mixed = [part(1, b"a", Algorithm::Crc32), part(2, b"b", Algorithm::Crc32c)];
        assert_eq!(Plan::implied(&mixed).and_then(|plan| plan.join(&mixed)), None);
    }

    #[test]
    fn plans_survive_their_record_and_impossible_ones_are_refused() {
        for (algorithm, kind) in
            [("CRC32", None), ("CRC32", Some(FULL_OBJECT)), ("CRC64NVME", None), ("SHA1", None), ("XXHASH128", None)]
        {
            let plan = Plan::new(Some(algorithm), kind).unwrap();
            assert_eq!(Plan::from_record(plan.map(Plan::to_record).as_deref()), plan);
        }
        for (algorithm, kind) in
            [("SHA1", FULL_OBJECT), ("CRC64NVME", COMPOSITE), ("CRC32", "HALF"), ("XXHASH3", FULL_OBJECT)]
        {
            assert!(Plan::new(Some(algorithm), Some(kind)).is_err(), "{algorithm} {kind}");
        }
    }
}
