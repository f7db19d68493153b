//! Values stored with the content of an object: its checksums and its parts.

/// A stored checksum (S3 User Guide, "Checking object integrity").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1`, `SHA256`, `SHA512`, `MD5`, `XXHASH64`, `XXHASH3` or `XXHASH128`.
    pub algorithm: String,
    /// The value in base64, followed by `-N` if it covers N parts' checksums.
    pub value: String,
}

/// One of the parts of a multipart object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPart {
    /// Its number at upload.
    pub number: u32,
    /// Its first byte in the object.
    pub offset: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
}
