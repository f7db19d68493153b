//! The rights of a key to a bucket, determined by trying.

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use tests::prelude::*;

use super::s3client;

/// The rights of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// No access to this bucket.
    None,
    /// List and get.
    Read,
    /// Put and delete.
    Write,
    /// Both of these.
    Both,
    /// The key does not exist.
    UnknownKey,
}

/// An S3 client with a key.
pub fn client_of(server: &Server, key: &Credentials) -> aws_sdk_s3::Client {
    s3client(server.s3(), &key.access_key_id, &key.secret_access_key)
}

/// An S3 client with the root key.
pub fn root_client(server: &Server) -> aws_sdk_s3::Client {
    client_of(server, &server.credentials())
}

/// Determines the rights: lists, and puts and deletes an object `probe`.
pub async fn rights(server: &Server, key: &Credentials, bucket: &str) -> Rights {
    let client = client_of(server, key);
    let read = client.list_objects_v2().bucket(bucket).send().await.map(drop);
    let body = aws_sdk_s3::primitives::ByteStream::from_static(b"probe");
    let put = client.put_object().bucket(bucket).key("probe").body(body).send().await.map(drop);
    if put.is_ok() {
        client
            .delete_object()
            .bucket(bucket)
            .key("probe")
            .send()
            .await
            .expect("the right to put includes the right to delete");
    }
    let (read, write) = (code(read), code(put));
    match (read.as_str(), write.as_str()) {
        ("", "") => Rights::Both,
        ("", "AccessDenied") => Rights::Read,
        ("AccessDenied", "") => Rights::Write,
        ("AccessDenied", "AccessDenied") => Rights::None,
        ("InvalidAccessKeyId", "InvalidAccessKeyId") => Rights::UnknownKey,
        _ => panic!("bucket {bucket}: reading answered {read:?}, writing {write:?}"),
    }
}

/// The S3 error code of a response; empty if it succeeded.
pub fn code<T, E: ProvideErrorMetadata + std::fmt::Debug>(answer: Result<T, SdkError<E>>) -> String {
    match answer {
        Ok(_) => String::new(),
        Err(error) => {
            error.code().map(str::to_owned).unwrap_or_else(|| panic!("an answer without an S3 code: {error:?}"))
        }
    }
}

/// The content of an object.
pub async fn read(client: &aws_sdk_s3::Client, bucket: &str, key: &str) -> Vec<u8> {
    let object = client.get_object().bucket(bucket).key(key).send().await.expect("the object is there");
    object.body.collect().await.expect("its content").to_vec()
}

/// Puts an object.
pub async fn write(client: &aws_sdk_s3::Client, bucket: &str, key: &str, content: &[u8]) {
    client.put_object().bucket(bucket).key(key).body(content.to_vec().into()).send().await.expect("the object is put");
}
