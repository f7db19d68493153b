//! Removing objects, many with one request.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use crate::Bucket;
use crate::error::{Error, Result, explain};
use crate::stats::Kind;

/// The most keys of one request (S3 API, DeleteObjects).
const KEYS_MAX: usize = 1000;

impl Bucket {
    /// Removes objects; absent ones are no error.
    pub fn remove(&self, keys: &[String]) -> Result<()> {
        keys.chunks(KEYS_MAX).try_for_each(|some| self.remove_some(some.to_vec()))
    }

    fn remove_some(&self, keys: Vec<String>) -> Result<()> {
        self.wait(|inner| async move {
            let _slot = inner.slot().await;
            let name = inner.location.to_string();
            let call = ("removing objects of", name.clone());
            let refused = |why: String| Error::Refused { operation: call.0, name: name.clone(), why };
            let ids = keys.iter().map(|key| ObjectIdentifier::builder().key(inner.location.key(key)).build());
            let ids = ids.collect::<Result<Vec<_>, _>>().map_err(|error| refused(error.to_string()))?;
            let delete = Delete::builder().set_objects(Some(ids)).quiet(true).build();
            let delete = delete.map_err(|error| refused(error.to_string()))?;
            let request = inner.client.delete_objects().bucket(inner.location.bucket()).delete(delete);
            let send = async { request.send().await.map_err(|error| explain(&error, call.clone())) };
            let answer = inner.counters.count(Kind::Delete, send).await?;
            match answer.errors().iter().find(|error| error.code() != Some("NoSuchKey")) {
                None => Ok(()),
                Some(error) => Err(refused(format!(
                    "{}: {}",
                    error.code().unwrap_or("no code"),
                    error.message().unwrap_or_default().chars().take(200).collect::<String>()
                ))),
            }
        })
    }
}
