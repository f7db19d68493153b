//! Hidden keys, which mounts cannot show, and counting the objects of buckets that an earlier version wrote.

use std::sync::Arc;

use prost::Message;

use super::{HiddenPage, Store, usage};
use crate::core::{Core, Named};
use crate::error::Result;
use crate::meta::Durability;
use crate::name::BucketName;
use crate::record::bucket::{self, Usage};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::tree::{Tally, Tree, list_hidden, tally};

impl Store {
    /// A page of the hidden keys of this bucket or snapshot that begin with `prefix`: at most `limit` after the key
    /// `last`. A page ends early after a bounded search; [`HiddenPage::next`] says where to continue.
    pub fn hidden_keys(&self, name: &BucketName, prefix: &str, last: Option<&str>, limit: usize) -> Result<HiddenPage> {
        let snapshot = self.core.meta.snapshot();
        let line = self.core.readable(&*snapshot, name)?;
        if usage(&*snapshot, &line)?.keys().is_some_and(|(_, hidden)| hidden == 0) {
            return Ok(HiddenPage::default());
        }
        list_hidden(Tree { read: &*snapshot, line: &line }, prefix, last, limit)
    }
}

/// Counts the objects of buckets whose usage lacks the count. Called before the store is used.
pub(crate) fn count_uncounted(core: &Arc<Core>) -> Result<()> {
    for pair in super::all(&*core.meta.snapshot(), &[tag::BUCKET])? {
        let snapshot = core.meta.snapshot();
        let record: bucket::Bucket = decode("a bucket", &pair.value)?;
        let line = core.line_of(&*snapshot, &Named::Bucket(record))?;
        let used = usage(&*snapshot, &line)?;
        if used.counted {
            continue;
        }
        let name = String::from_utf8_lossy(&pair.key[1..]).into_owned();
        tracing::info!(bucket = name, "counting the objects of a bucket from an earlier version, once");
        let Tally { objects, hidden } = match tally(Tree { read: &*snapshot, line: &line }) {
            Ok(tally) => tally,
            Err(error) => {
                tracing::warn!(bucket = name, %error, "the objects cannot be counted: run `amphora check --repair`");
                continue;
            }
        };
        let counted = Usage { objects, hidden, counted: true, ..used };
        let at = key::of_branch(tag::USAGE, line.family, line.branch());
        let put = core.meta.write(Durability::Buffered, move |txn| {
            txn.put(at, counted.encode_to_vec());
            Ok(())
        });
        put.wait()?;
    }
    Ok(())
}
