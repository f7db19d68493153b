//! Live files: whether each record that says a file is written in place agrees with the file's inode.
//!
//! - A server that dies leaves such records, and the next opening settles them: that is no damage.

use super::{Checked, Report};
use crate::error::Result;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::live::Live;
use crate::tree::Tree;

/// Checks all.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::LIVE], |pair| {
        let ids = key::u64_at(&pair.key, 1).zip(key::u64_at(&pair.key, key::LIVE_INODE_AT));
        let Some((bucket, ino)) = ids else {
            report.problem("a live file: its key has no bucket and inode");
            return Ok(());
        };
        let what = format!("live file {ino} of bucket {bucket}");
        if let Some(live) = report.take(decode::<Live>(&what, &pair.value)) {
            report.live_files += 1;
            check_one(store, &what, (bucket, ino), live, report)?;
        }
        Ok(())
    })
}

fn check_one(
    store: &Checked<'_>,
    what: &str,
    (bucket, ino): (u64, u64),
    live: Live,
    report: &mut Report,
) -> Result<()> {
    let name = store.read().get(&key::by_id(tag::BUCKET_ID, bucket))?;
    let record = match name {
        Some(name) => store.read().get(&[&[tag::BUCKET], &name[..]].concat())?,
        None => None,
    };
    let Some(record) = record.and_then(|value| report.take(decode::<Bucket>(what, &value))) else {
        report.problem(format!("{what}: there is no such bucket"));
        return Ok(());
    };
    let line = store.lines.line(store.read(), record.family, record.branch)?;
    let found = report.take(Tree { read: store.read(), line: &line }.inode(ino)).flatten();
    let home = found.filter(|(branch, _)| *branch == record.branch).and_then(|(_, inode)| inode.home());
    if home != Some(live.blob) {
        report.problem(format!("{what}: {:016x} is not its home", live.blob));
    }
    Ok(())
}
