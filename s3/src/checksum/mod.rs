//! Checksums of content (S3 User Guide, "Checking object integrity").
//!
//! - A body is hashed while it is stored, never in a separate pass.
//! - The client's claims are verified before the write is acknowledged; the checksum that it named is stored with the
//!   object.

mod claim;
mod copied;
mod md5;
mod parts;

pub(crate) use claim::{Claims, mismatch};
pub(crate) use copied::{Copied, of_copy};
pub(crate) use parts::Plan;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use objstore::store::{Checksum, PartHash};
use s3s::crypto::{
    Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5 as Md5Sum, Sha1, Sha256, Sha512, XxHash3, XxHash64, XxHash128,
};
use s3s::dto::ChecksumType;
use s3s::{S3ErrorCode, S3Result};

use crate::error::{lost, says};
use md5::Md5;

/// A supported checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
    Sha512,
    Md5,
    XxHash64,
    XxHash3,
    XxHash128,
}

impl Algorithm {
    /// All supported algorithms.
    pub(crate) const ALL: [Self; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
    ];

    /// The algorithm used if the client names none (S3 User Guide, "Checking object integrity").
    pub(crate) const DEFAULT: Self = Self::Crc64Nvme;

    /// The name in XML, headers and records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
            Self::Md5 => "MD5",
            Self::XxHash64 => "XXHASH64",
            Self::XxHash3 => "XXHASH3",
            Self::XxHash128 => "XXHASH128",
        }
    }

    /// The header or trailer that carries the value.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha512 => "x-amz-checksum-sha512",
            Self::Md5 => "x-amz-checksum-md5",
            Self::XxHash64 => "x-amz-checksum-xxhash64",
            Self::XxHash3 => "x-amz-checksum-xxhash3",
            Self::XxHash128 => "x-amz-checksum-xxhash128",
        }
    }

    /// Finds an algorithm by name, ignoring case.
    pub(crate) fn from_name(name: &str) -> S3Result<Self> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            let words = "Checksum algorithm provided is unsupported. Please try again with any of the valid types:";
            says(S3ErrorCode::InvalidRequest, format!("{words} [{known}]"))
        })
    }

    /// Whether the checksum of a whole can be computed from those of its pieces: true for the CRCs.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Self::Crc32 | Self::Crc32c | Self::Crc64Nvme)
    }

    /// Whether hashing a block takes less time than waking another thread for it.
    fn is_quick(self) -> bool {
        self.joins() || matches!(self, Self::XxHash64 | Self::XxHash3 | Self::XxHash128)
    }

    /// Length of the value in bytes.
    fn len(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 8,
            Self::Md5 | Self::XxHash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// A running MD5, and a running checksum if one is needed.
pub(crate) struct Digest {
    size: u64,
    md5: Md5,
    checksum: Option<(Algorithm, Hasher)>,
}

enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
    Md5(Md5Sum),
    XxHash64(XxHash64),
    // These two have a state of half a kilobyte.
    XxHash3(Box<XxHash3>),
    XxHash128(Box<XxHash128>),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32 => Self::Crc32(Crc32::new()),
            Algorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            Algorithm::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
            Algorithm::Md5 => Self::Md5(Md5Sum::new()),
            Algorithm::XxHash64 => Self::XxHash64(XxHash64::new()),
            Algorithm::XxHash3 => Self::XxHash3(Box::new(XxHash3::new())),
            Algorithm::XxHash128 => Self::XxHash128(Box::new(XxHash128::new())),
        }
    }

    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Crc32(hasher) => hasher.update(data),
            Self::Crc32c(hasher) => hasher.update(data),
            Self::Crc64Nvme(hasher) => hasher.update(data),
            Self::Sha1(hasher) => hasher.update(data),
            Self::Sha256(hasher) => hasher.update(data),
            Self::Sha512(hasher) => hasher.update(data),
            Self::Md5(hasher) => hasher.update(data),
            Self::XxHash64(hasher) => hasher.update(data),
            Self::XxHash3(hasher) => hasher.update(data),
            Self::XxHash128(hasher) => hasher.update(data),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Crc32(hasher) => BASE64.encode(hasher.finalize()),
            Self::Crc32c(hasher) => BASE64.encode(hasher.finalize()),
            Self::Crc64Nvme(hasher) => BASE64.encode(hasher.finalize()),
            Self::Sha1(hasher) => BASE64.encode(hasher.finalize()),
            Self::Sha256(hasher) => BASE64.encode(hasher.finalize()),
            Self::Sha512(hasher) => BASE64.encode(hasher.finalize()),
            Self::Md5(hasher) => BASE64.encode(hasher.finalize()),
            Self::XxHash64(hasher) => BASE64.encode(hasher.finalize()),
            Self::XxHash3(hasher) => BASE64.encode(hasher.finalize()),
            Self::XxHash128(hasher) => BASE64.encode(hasher.finalize()),
        }
    }
}

impl Digest {
    /// Starts with no bytes.
    pub(crate) fn new(algorithm: Option<Algorithm>) -> Self {
        let checksum = algorithm.map(|algorithm| (algorithm, Hasher::new(algorithm)));
        Self { size: 0, md5: Md5::new(), checksum }
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.size += data.len() as u64;
        self.md5.update(data);
        if let Some((_, hasher)) = &mut self.checksum {
            hasher.update(data);
        }
    }

    /// Adds bytes on another thread: their MD5 together with other contents', and the checksum at the same time.
    pub(crate) async fn update_beside(self, data: Bytes) -> S3Result<Self> {
        let Self { size, md5, checksum } = self;
        let size = size + data.len() as u64;
        let (md5, checksum) = tokio::join!(md5.update_beside(data.clone()), update_checksum(checksum, data));
        Ok(Self { size, md5: md5.map_err(|error| lost(&error))?, checksum: checksum? })
    }

    /// Finishes and returns the digests.
    pub(crate) fn finish(self) -> Sums {
        let checksum = self
            .checksum
            .map(|(algorithm, hasher)| Checksum { algorithm: algorithm.name().into(), value: hasher.finish() });
        Sums { size: self.size, md5: self.md5.finish(), checksum }
    }
}

impl PartHash for Digest {
    fn update(&mut self, data: &[u8]) {
        Digest::update(self, data);
    }

    fn finish(self: Box<Self>) -> (String, Vec<Checksum>) {
        let sums = Digest::finish(*self);
        (sums.etag(), sums.checksum.into_iter().collect())
    }
}

async fn update_checksum(checksum: Option<(Algorithm, Hasher)>, data: Bytes) -> S3Result<Option<(Algorithm, Hasher)>> {
    let Some((algorithm, mut hasher)) = checksum else { return Ok(None) };
    if algorithm.is_quick() {
        hasher.update(&data);
        return Ok(Some((algorithm, hasher)));
    }
    let hashing = tokio::task::spawn_blocking(move || {
        hasher.update(&data);
        hasher
    });
    Ok(Some((algorithm, hashing.await.map_err(|error| lost(&error))?)))
}

/// The digests of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Length of the content in bytes.
    pub(crate) size: u64,
    /// Its MD5.
    pub(crate) md5: [u8; 16],
    /// The checksum, if one was needed.
    pub(crate) checksum: Option<Checksum>,
}

impl Sums {
    /// The entity tag of an object uploaded in one piece.
    pub(crate) fn etag(&self) -> String {
        hex_simd::encode_to_string(self.md5, hex_simd::AsciiCase::Lower)
    }
}

/// Whether this header claims the checksum of empty content.
pub(crate) fn is_of_nothing(header: &str, value: &str) -> bool {
    let named = Algorithm::ALL.into_iter().find(|algorithm| algorithm.header().eq_ignore_ascii_case(header));
    named.is_some_and(|algorithm| Hasher::new(algorithm).finish() == value)
}

/// Whether a stored checksum covers the whole object or its parts' checksums.
pub(crate) fn kind(checksum: &Checksum) -> ChecksumType {
    // Base64 holds no "-": only the number of parts follows one.
    let name = if checksum.value.contains('-') { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
    ChecksumType::from_static(name)
}

/// Fills stored checksums into the fields of a response; with `typed`, their type too.
macro_rules! fill {
    ($output:expr, $checksums:expr) => {
        for checksum in $checksums {
            let value = Some(checksum.value.clone());
            match checksum.algorithm.as_str() {
                "CRC32" => $output.checksum_crc32 = value,
                "CRC32C" => $output.checksum_crc32c = value,
                "CRC64NVME" => $output.checksum_crc64nvme = value,
                "SHA1" => $output.checksum_sha1 = value,
                "SHA256" => $output.checksum_sha256 = value,
                "SHA512" => $output.checksum_sha512 = value,
                "MD5" => $output.checksum_md5 = value,
                "XXHASH64" => $output.checksum_xxhash64 = value,
                "XXHASH3" => $output.checksum_xxhash3 = value,
                "XXHASH128" => $output.checksum_xxhash128 = value,
                _ => {}
            }
        }
    };
    ($output:expr, $checksums:expr, typed) => {
        $crate::checksum::fill!($output, $checksums);
        $output.checksum_type = $checksums.first().map($crate::checksum::kind);
    };
}
pub(crate) use fill;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_the_published_ones() {
        // The check values of the CRC catalogue, of "123456789".
        let table = [
            (Algorithm::Crc32, "y/Q5Jg=="),
            (Algorithm::Crc32c, "4waSgw=="),
            (Algorithm::Crc64Nvme, "rosUhgp5mIg="),
            (Algorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
            (Algorithm::Sha256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
            (
                Algorithm::Sha512,
                "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==",
            ),
            (Algorithm::Md5, "JfnnlDI7RTiF9RgfG2JNCw=="),
            (Algorithm::XxHash64, "jLhB20DmroM="),
        ];
        for (algorithm, value) in table {
            let mut digest = Digest::new(Some(algorithm));
            digest.update(b"1234");
            digest.update(b"56789");
            let sums = digest.finish();
            assert_eq!(sums.checksum.map(|checksum| checksum.value).as_deref(), Some(value), "{algorithm:?}");
            assert_eq!(sums.size, 9);
        }
        assert_eq!(Digest::new(None).finish().etag(), "d41d8cd98f00b204e9800998ecf8427e");
        // As published with xxHash 0.8, of nothing.
        assert!(is_of_nothing("x-amz-checksum-xxhash64", "70bbN1HY6Zk="));
        assert!(is_of_nothing("x-amz-checksum-xxhash3", "LQaABTjTlMI="));
        assert!(is_of_nothing("x-amz-checksum-xxhash128", "maoG0wFHmNhgAcMkRo1Jfw=="));
        for algorithm in Algorithm::ALL {
            let nothing = Hasher::new(algorithm).finish();
            assert_eq!(BASE64.decode(nothing).map(|bytes| bytes.len()), Ok(algorithm.len()), "{algorithm:?}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_unknown_ones_are_refused() {
        assert_eq!(Algorithm::from_name("crc64nvme").unwrap(), Algorithm::Crc64Nvme);
        assert_eq!(Algorithm::from_name("ROT13").unwrap_err().code().as_str(), "InvalidRequest");
    }
}
