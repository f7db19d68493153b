//! Hidden keys, which mounts cannot show, and counting the objects of buckets that an earlier version wrote.

use std::sync::Arc;

use prost::Message;

use super::{HiddenPage, Store, usage};
use crate::branch::Ancestry;
use crate::core::{Core, Named};
use crate::damaged::unless_damaged;
use crate::error::Result;
use crate::meta::{Durability, Pair, Read};
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
        let ancestry = self.core.readable(&*snapshot, name)?;
        if usage(&*snapshot, &ancestry)?.keys().is_some_and(|(_, hidden)| hidden == 0) {
            return Ok(HiddenPage::default());
        }
        list_hidden(Tree { read: &*snapshot, ancestry: &ancestry }, prefix, last, limit)
    }
}

/// The branch and the usage of a bucket whose objects are not counted.
fn uncounted(core: &Core, read: &dyn Read, pair: &Pair) -> Result<Option<(Ancestry, Usage)>> {
    let record: bucket::Bucket = decode("a bucket", &pair.value)?;
    let ancestry = core.ancestry_of(read, &Named::Bucket(record))?;
    let used = usage(read, &ancestry)?;
    Ok((!used.counted).then_some((ancestry, used)))
}

/// Counts the objects of buckets whose usage lacks the count. Called before the store is used.
pub(crate) fn count_uncounted(core: &Arc<Core>) -> Result<()> {
    for pair in super::all(&*core.meta.snapshot(), &[tag::BUCKET])? {
        let snapshot = core.meta.snapshot();
        let name = String::from_utf8_lossy(&pair.key[1..]).into_owned();
        let uncounted =
            unless_damaged(format_args!("the bucket {name}"), uncounted(core, &*snapshot, &pair))?.flatten();
        if let Some((ancestry, used)) = uncounted {
            count(core, &*snapshot, &name, &ancestry, used)?;
        }
    }
    Ok(())
}

/// Counts the objects of a snapshot that an earlier version made, so that a clone of it begins with their number. Nothing
/// changes a snapshot, so this is done once, and beside all other work.
pub(super) fn count_snapshot(core: &Core, name: &str) -> Result<()> {
    let read = core.meta.snapshot();
    // The clone itself is refused where there is no such snapshot.
    let Ok(record) = super::snapshot::record(&*read, name) else { return Ok(()) };
    let ancestry = core.ancestry_of(&*read, &Named::Snapshot(record))?;
    let used = usage(&*read, &ancestry)?;
    if used.counted { Ok(()) } else { count(core, &*read, name, &ancestry, used) }
}

/// Counts the objects of one branch, of which `used` tells the rest.
fn count(core: &Core, read: &dyn Read, name: &str, ancestry: &Ancestry, used: Usage) -> Result<()> {
    tracing::info!(bucket = name, "counting the objects of a bucket that an earlier version wrote, once");
    let Tally { objects, hidden } = match tally(Tree { read, ancestry }) {
        Ok(tally) => tally,
        Err(error) => {
            tracing::warn!(bucket = name, %error, "the objects cannot be counted: run `amphora check --repair`");
            return Ok(());
        }
    };
    let counted = Usage { objects, hidden, counted: true, ..used };
    let at = key::of_branch(tag::USAGE, ancestry.clone_group, ancestry.branch());
    let put = core.meta.write(Durability::Buffered, move |txn| {
        // A snapshot may have been deleted meanwhile.
        if txn.get(&at)?.is_some() {
            txn.put(at, counted.encode_to_vec());
        }
        Ok(())
    });
    put.wait()
}
