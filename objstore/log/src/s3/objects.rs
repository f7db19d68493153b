//! What the engine needs of an S3 store: objects that are created once, replaced by compare-and-swap, read, and removed.

use bytes::Bytes;
use objstore_bucket::{Bucket, Listed, Object, Result};

/// Receives the outcome of a write, on any thread, which it must not block.
pub type Then = Box<dyn FnOnce(Result<String>) + Send>;

/// The objects below one prefix; [`Bucket`] says what the calls promise. All but [`Objects::put_then`] block.
pub trait Objects: Send + Sync {
    /// Creates an object, and returns its entity tag.
    fn put(&self, key: &str, bytes: Bytes) -> Result<String>;

    /// Creates an object like [`Objects::put`], without waiting.
    fn put_then(&self, key: &str, bytes: Bytes, then: Then);

    /// Replaces the object that has the entity tag `etag`, and returns the new tag.
    fn replace(&self, key: &str, bytes: Bytes, etag: &str) -> Result<String>;

    /// Reads an object of at most `most` bytes.
    fn get(&self, key: &str, most: usize) -> Result<Object>;

    /// Reads several objects at the same time.
    fn get_each(&self, keys: &[(String, usize)]) -> Vec<Result<Object>>;

    /// The next objects whose keys begin with `prefix` and come after `after`: a hint, which may be old.
    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>>;

    /// Removes objects; absent ones are no error.
    fn remove(&self, keys: &[String]) -> Result<()>;

    /// Works on writes that are under way, for a store without threads; returns whether there was anything to do.
    fn drive(&self) -> bool {
        false
    }
}

impl Objects for Bucket {
    fn put(&self, key: &str, bytes: Bytes) -> Result<String> {
        Self::put(self, key, bytes)
    }

    fn put_then(&self, key: &str, bytes: Bytes, then: Then) {
        Self::put_then(self, key, bytes, then);
    }

    fn replace(&self, key: &str, bytes: Bytes, etag: &str) -> Result<String> {
        Self::replace(self, key, bytes, etag)
    }

    fn get(&self, key: &str, most: usize) -> Result<Object> {
        Self::get(self, key, most)
    }

    fn get_each(&self, keys: &[(String, usize)]) -> Vec<Result<Object>> {
        Self::get_each(self, keys)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        Self::list(self, prefix, after)
    }

    fn remove(&self, keys: &[String]) -> Result<()> {
        Self::remove(self, keys)
    }
}
