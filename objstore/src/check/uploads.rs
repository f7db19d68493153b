//! Check of multipart uploads: each belongs to a bucket, each part to an upload, and their bytes are counted.

use std::collections::HashMap;

use super::fix::Fix;
use super::{Checked, Report, Root, accounts};
use crate::error::Result;
use crate::record::bucket::Usage;
use crate::record::key::{self, tag};
use crate::record::upload::{Completed, Part, Upload};

/// Checks all.
pub(super) fn check(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    let mut bucket_of: HashMap<String, u64> = HashMap::new();
    store.each(&[tag::UPLOAD], |pair| {
        let named = key::u64_at(&pair.key, 1).zip(key::text_at(&pair.key, key::UPLOAD_KEY_AT));
        let id = named.and_then(|(_, name)| pair.key.get(key::UPLOAD_KEY_AT + name.len() + 1..));
        let Some(((bucket, name), id)) = named.zip(id.and_then(|id| std::str::from_utf8(id).ok())) else {
            report.problem("an upload: its key has no bucket, key and id");
            return Ok(());
        };
        let what = format!("upload {id} to \"{}\"", name.escape_debug());
        bucket_of.insert(id.to_owned(), bucket);
        if store.take_or_quarantine::<Upload>(&what, pair, report).is_some() {
            report.uploads += 1;
            if !accounts::is_bucket(store, bucket)? {
                report.problem(format!("{what}: there is no bucket {bucket}"));
                store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, there was no such bucket")));
            }
        }
        Ok(())
    })?;
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    store.each(&[tag::PART], |pair| {
        let id = key::text_at(&pair.key, 1).unwrap_or_default();
        let what = format!("a part of upload {id}");
        let Some(part) = store.take_or_quarantine::<Part>(&what, pair, report) else { return Ok(()) };
        match bucket_of.get(id) {
            Some(bucket) => *bytes.entry(*bucket).or_default() += part.size,
            None => {
                report.problem(format!("{what}: there is no such upload"));
                store.fix(Fix::remove(pair.key.to_vec(), format!("{what}: removed, it cannot be completed")));
            }
        }
        Ok(())
    })?;
    store.each(&[tag::COMPLETED], |pair| {
        store.take_or_quarantine::<Completed>("a completed upload", pair, report);
        Ok(())
    })?;
    check_usage(store, roots, &bytes, report)
}

fn check_usage(store: &Checked<'_>, roots: &[Root], bytes: &HashMap<u64, u64>, report: &mut Report) -> Result<()> {
    for root in roots {
        let value = store.read().get(&key::of_branch(tag::USAGE, root.clone_group, root.branch))?;
        let Ok(kept) = Usage::recorded(value) else { continue };
        let counted = root.bucket.and_then(|bucket| bytes.get(&bucket)).copied().unwrap_or_default();
        if kept.upload_bytes != counted {
            let what = &root.what;
            report
                .problem(format!("{what}: usage says {} bytes of uploads, but there are {counted}", kept.upload_bytes));
            store.fix(Fix::Usage { tree: root.seat(), held: None, uploads: Some(counted) });
        }
    }
    Ok(())
}
