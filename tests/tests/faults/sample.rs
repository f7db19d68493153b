//! Objects with known content: intact, refused, or absent, but never wrong.

use std::collections::BTreeMap;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::support::load::Content;

pub const BUCKET: &str = "sample";

/// The acknowledged content of each key.
#[derive(Clone, Default)]
pub struct Sample {
    held: BTreeMap<String, Content>,
}

/// Why a request was refused.
#[derive(Debug)]
pub struct Refusal {
    /// The S3 error code; empty if the connection ended.
    pub code: String,
    /// The HTTP status; 0 if the connection ended.
    pub status: u16,
}

impl Refusal {
    pub fn of<E: ProvideErrorMetadata + std::fmt::Debug>(error: &SdkError<E>) -> Self {
        let status = error.raw_response().map_or(0, |raw| raw.status().as_u16());
        Self { code: error.code().unwrap_or_default().to_owned(), status }
    }
}

impl Sample {
    /// Puts an object with new content, and records it once it is acknowledged.
    pub async fn put(&mut self, client: &Client, key: &str, len: usize) -> Result<(), Refusal> {
        let content = Content { len, seed: self.held.len() as u64 * 7_919 + len as u64 };
        let put = client.put_object().bucket(BUCKET).key(key).body(content.bytes().into());
        put.send().await.map_err(|error| Refusal::of(&error))?;
        self.held.insert(key.to_owned(), content);
        Ok(())
    }

    /// Copies an object by reference.
    pub async fn copy(&mut self, client: &Client, from: &str, to: &str) -> Result<(), Refusal> {
        let copy = client.copy_object().bucket(BUCKET).key(to).copy_source(format!("{BUCKET}/{from}"));
        copy.send().await.map_err(|error| Refusal::of(&error))?;
        let content = self.held[from];
        self.held.insert(to.to_owned(), content);
        Ok(())
    }

    /// Deletes an object, and removes it from the record once that is acknowledged.
    pub async fn delete(&mut self, client: &Client, key: &str) -> Result<(), Refusal> {
        client.delete_object().bucket(BUCKET).key(key).send().await.map_err(|error| Refusal::of(&error))?;
        self.held.remove(key);
        Ok(())
    }

    /// The keys, in order.
    pub fn keys(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    /// Reads all objects; returns the keys of those that are refused. No object may be absent or wrong.
    pub async fn refused(&self, client: &Client) -> Vec<String> {
        let mut refused = Vec::new();
        for (key, content) in &self.held {
            match get(client, key).await {
                Ok(seen) => assert!(seen == content.bytes(), "{key}: {} bytes of a wrong content", seen.len()),
                Err(refusal) => {
                    assert!(refusal.status == 0 || refusal.status >= 500, "{key} is lost: {refusal:?}");
                    refused.push(key.clone());
                }
            }
        }
        refused
    }

    /// Reads all objects; each must be there.
    pub async fn whole(&self, client: &Client) {
        assert_eq!(self.refused(client).await, Vec::<String>::new());
    }
}

async fn get(client: &Client, key: &str) -> Result<Vec<u8>, Refusal> {
    let object = client.get_object().bucket(BUCKET).key(key).send().await.map_err(|error| Refusal::of(&error))?;
    // An answer that ends early is not wrong data, since the client notices.
    let body = object.body.collect().await.map_err(|_| Refusal { code: String::new(), status: 0 })?;
    Ok(body.to_vec())
}
