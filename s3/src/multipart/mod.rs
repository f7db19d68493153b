//! Multipart uploads (S3 User Guide, "Uploading and copying objects using multipart upload").

pub(crate) mod complete;
pub(crate) mod part;
pub(crate) mod upload;
