//! Listing keys: a hint of what may be there.
//!
//! - A listing may be old: an object that was just written may be missing, and a removed one may be there.
//! - Keys outside the prefix, and keys that do not rise, are errors: with them the listing could have no end.

use std::sync::Arc;

use crate::error::{Error, Result, explain};
use crate::stats::Kind;
use crate::{Bucket, Inner};

/// A listed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key, below the location's prefix.
    pub key: String,
    /// Its length, in bytes.
    pub length: u64,
}

impl Bucket {
    /// The next objects whose keys begin with `prefix` and come after `after`, in the order of their keys; an empty page
    /// ends the listing.
    pub fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.wait(|inner| async move { inner.list(&prefix, after.as_deref(), None).await })
    }

    /// All objects whose keys begin with `prefix`, in the order of their keys.
    pub fn list_all(&self, prefix: &str) -> Result<Vec<Listed>> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let page = self.list(prefix, all.last().map(|last| &*last.key))?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }
}

impl Inner {
    pub(crate) async fn list(
        self: Arc<Self>,
        prefix: &str,
        after: Option<&str>,
        most: Option<i32>,
    ) -> Result<Vec<Listed>> {
        let _slot = self.slot().await;
        let request = self
            .client
            .list_objects_v2()
            .bucket(self.location.bucket())
            .prefix(self.location.key(prefix))
            .set_start_after(after.map(|after| self.location.key(after)))
            .set_max_keys(most);
        let name = self.location.name(prefix);
        let send = async { request.send().await.map_err(|error| explain(&error, ("listing", name.clone()))) };
        let answer = self.counters.count(Kind::List, send).await?;
        let mut page: Vec<Listed> = Vec::new();
        for object in answer.contents() {
            let full = object.key().unwrap_or_default();
            let key = self.location.strip(full).filter(|key| key.starts_with(prefix));
            let last = page.last().map(|last| &*last.key).or(after);
            let Some(key) = key.filter(|key| last.is_none_or(|last| *key > last)) else {
                let found = format!("the key {:?}", full.chars().take(200).collect::<String>());
                return Err(Error::Damaged { name, expected: "rising keys below the prefix".into(), found });
            };
            let length = object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
            page.push(Listed { key: key.to_owned(), length });
        }
        Ok(page)
    }
}
