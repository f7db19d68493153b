//! Pages of uploads, by key and then by time of creation (S3 API, ListMultipartUploads).
//!
//! - The cost of a page is proportional to what it shows: it begins at its marker, and skips a common prefix by
//!   seeking.

use std::collections::VecDeque;

use super::{names_of, shown_upload};
use crate::error::{Error, Noun, Result};
use crate::meta::{Pair, Read};
use crate::name::BucketName;
use crate::record::decode;
use crate::record::key;
use crate::store::Store;
use crate::store::types::{List, UploadListing};
use crate::tree::common_prefix;

/// Records read at a time.
const CHUNK: usize = 128;

impl Store {
    /// A page of uploads. `list.after` is the key marker, `after_id` the upload id marker beside it.
    pub fn uploads(&self, bucket: &BucketName, list: &List, after_id: Option<&str>) -> Result<UploadListing> {
        let snapshot = self.core.meta.snapshot();
        let record = self.core.bucket_record(&*snapshot, bucket)?;
        let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?.id;
        let mut walk = Walk::new(&*snapshot, id, list, after_id);
        let mut page = UploadListing::default();
        let mut last = None;
        while let Some(pair) = walk.next()? {
            let Some((name, upload)) = names_of(&pair.key) else { continue };
            if !name.starts_with(&list.prefix) {
                continue;
            }
            if page.uploads.len() + page.prefixes.len() >= list.limit {
                page.next = last;
                break;
            }
            if let Some(prefix) = common_prefix(name, list) {
                walk.seek(key::after_prefix(&key::uploads(id, &prefix)));
                last = Some((prefix.clone(), String::new()));
                page.prefixes.push(prefix);
            } else {
                last = Some((name.to_owned(), upload.to_owned()));
                page.uploads.push(shown_upload(upload, name, decode("an upload", &pair.value)?));
            }
        }
        Ok(page)
    }
}

/// A cursor over the records of uploads.
struct Walk<'a> {
    read: &'a dyn Read,
    pending: VecDeque<Pair>,
    /// The key to read from; `None` at the end.
    from: Option<Vec<u8>>,
    end: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(read: &'a dyn Read, bucket: u64, list: &List, after_id: Option<&str>) -> Self {
        let prefix = key::uploads(bucket, &list.prefix);
        let end = key::after_prefix(&prefix);
        let from = start(bucket, list, after_id).max(prefix);
        Self { read, pending: VecDeque::new(), from: Some(from), end }
    }

    fn seek(&mut self, from: Vec<u8>) {
        self.pending.clear();
        self.from = Some(from);
    }

    fn next(&mut self) -> Result<Option<Pair>> {
        if self.pending.is_empty()
            && let Some(from) = self.from.take()
        {
            let pairs = self.read.scan(&from, &self.end, CHUNK)?;
            if let Some(last) = pairs.last().filter(|_| pairs.len() == CHUNK) {
                self.from = Some([&last.key[..], &[0]].concat());
            }
            self.pending = pairs.into();
        }
        Ok(self.pending.pop_front())
    }
}

/// The first key that can be on the page, ignoring the prefix.
fn start(bucket: u64, list: &List, after_id: Option<&str>) -> Vec<u8> {
    let Some(marker) = &list.after else { return Vec::new() };
    if common_prefix(marker, list).is_some_and(|prefix| prefix == *marker) {
        return key::after_prefix(&key::uploads(bucket, marker));
    }
    match after_id {
        Some(id) if !id.is_empty() => [&key::upload(bucket, marker, id)[..], &[0]].concat(),
        _ => key::after_prefix(&key::upload(bucket, marker, "")),
    }
}
