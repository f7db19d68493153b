//! A part of the bucket that keeps the content, as the place of what else has to outlive the data folder: checkpoints of
//! the metadata, and the master key.
//!
//! A crash leaves whole objects.

use std::sync::Arc;

use bytes::Bytes;

use crate::bucket::{self, Bucket, SINGLE_BYTES_MAX, Source};
use crate::error::{Error, Result};
use crate::meta::vault::{Replaced, Tag, Vault};

/// The objects below one folder of a bucket.
pub struct BucketVault {
    bucket: Bucket,
    /// What their keys begin with; ends with a slash.
    folder: &'static str,
}

impl BucketVault {
    /// The checkpoints of the metadata in the bucket of the content.
    ///
    /// # Errors
    /// Those of [`Bucket::open`].
    pub fn of_checkpoints(content: &super::ContentBucket) -> Result<Self> {
        let bucket = Bucket::open(content.bucket.clone()).map_err(|error| failed(&error))?;
        Ok(Self { bucket, folder: "metadata/" })
    }

    /// The master key in a bucket that this store has claimed.
    pub(crate) fn of_keys(bucket: Bucket) -> Self {
        Self { bucket, folder: "keys/" }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }
}

impl Vault for BucketVault {
    fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let key = self.key(name);
        let done = if content.len() > SINGLE_BYTES_MAX {
            self.bucket.put_large(&key, content.len() as u64, Arc::new(Whole(content)))
        } else {
            self.bucket.put(&key, content).map(drop)
        };
        match done {
            Ok(()) | Err(bucket::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<(Bytes, Tag)>> {
        match self.bucket.get(&self.key(name), most) {
            Ok(object) => Ok(Some((object.bytes, Tag(object.etag)))),
            Err(bucket::Error::Missing { .. }) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    fn replace(&self, name: &str, content: Bytes, before: Option<&Tag>) -> Result<Replaced> {
        let key = self.key(name);
        let done = match before {
            None => self.bucket.put(&key, content),
            Some(Tag(etag)) => self.bucket.replace(&key, content, etag),
        };
        match done {
            Ok(etag) => Ok(Replaced::Done(Tag(etag))),
            Err(bucket::Error::Conflict { .. }) => Ok(Replaced::Conflict),
            Err(error) => Err(failed(&error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let listed = self.bucket.list_all(&self.key(prefix)).map_err(|error| failed(&error))?;
        let name = |key: String| key.strip_prefix(self.folder).map(str::to_owned);
        Ok(listed.into_iter().filter_map(|object| name(object.key)).collect())
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
        self.bucket.remove(&keys).map_err(|error| failed(&error))
    }
}

/// An object that is in memory as a whole.
struct Whole(Bytes);

impl Source for Whole {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes, String> {
        let from =
            usize::try_from(offset).ok().filter(|from| from.checked_add(len).is_some_and(|end| end <= self.0.len()));
        from.map(|from| self.0.slice(from..from + len)).ok_or_else(|| format!("it has {} bytes alone", self.0.len()))
    }
}

/// The error of the store for one of the bucket.
pub(crate) fn failed(error: &bucket::Error) -> Error {
    match error {
        bucket::Error::Missing { name } => Error::corrupt(name, "an object", "none"),
        bucket::Error::Damaged { name, expected, found } => Error::corrupt(name, expected, found),
        error if error.is_temporary() => Error::Busy { what: format!("the S3 store of the content ({error})") },
        error => Error::Unusable { why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use objstore_testing::s3::{BUCKET, FakeS3};

    use super::*;
    use crate::bucket::{Keys, Location, Options};

    #[test]
    fn a_part_of_a_bucket_keeps_the_guarantees_of_a_vault() {
        let server = FakeS3::start();
        let location = Location::parse(&format!("s3://{BUCKET}/store")).unwrap();
        let keys = Some(Keys { id: "id".into(), secret: "secret".into() });
        let options = Options { endpoint: Some(server.endpoint()), keys, ..Options::new(location) };
        let content = super::super::ContentBucket { bucket: options, cache_bytes: 0 };
        crate::meta::vault::conformance::keeps_its_guarantees(&BucketVault::of_checkpoints(&content).unwrap());
        assert!(server.objects().keys().all(|key| key.starts_with("store/metadata/")));
    }
}
