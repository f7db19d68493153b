//! Check of noncurrent versions: each agrees with its inode.

use super::fix::Fix;
use super::{Checked, Report, Root};
use crate::error::Result;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::version::Version;
use crate::tree::{Tree, order_of};

/// Checks all of a tree.
pub(super) fn check(store: &Checked<'_>, tree: Tree<'_>, root: &Root, report: &mut Report) -> Result<()> {
    let mut null_of = None;
    for record in tree.ancestry.all(tree.read, tag::VERSION) {
        let record = record?;
        let named = key::text_at(&record.base, key::VERSION_KEY_AT);
        let order = named.and_then(|name| key::u64_at(&record.base, key::VERSION_KEY_AT + name.len() + 1));
        let Some((name, order)) = named.zip(order) else {
            report.problem(format!("{}: a version has no key and order", root.what));
            continue;
        };
        let what = format!("{}: version {order:016x} of \"{}\"", root.what, name.escape_debug());
        let Some(version) = report.take(decode::<Version>(&what, &record.value)) else {
            let key = key::branched(&record.base, record.branch);
            store.fix(Fix::Version { key, tree: root.seat(), name: name.to_owned(), order });
            continue;
        };
        if version.null && null_of.replace(name.to_owned()).as_deref() == Some(name) {
            report.problem(format!("{what}: the key has another null version"));
        }
        if version.null && report.take(current_is_null(tree, name)) == Some(true) {
            report.problem(format!("{what}: the key's object is a null version too"));
        }
        check_one(tree, &what, order, version, report);
    }
    Ok(())
}

fn current_is_null(tree: Tree<'_>, name: &str) -> Result<bool> {
    let current = tree.object(&name.parse()?)?;
    Ok(current.is_some_and(|(_, inode)| order_of(&inode) == 0))
}

/// Compares a version with the order number in its inode. Whether the inode exists is checked with the names.
fn check_one(tree: Tree<'_>, what: &str, order: u64, version: Version, report: &mut Report) {
    if version.ino == 0 {
        return;
    }
    let Some((_, inode)) = report.take(tree.inode(version.ino)).flatten() else { return };
    let said = order_of(&inode);
    if said != if version.null { 0 } else { order } {
        report.problem(format!("{what}: its inode {} has {said:016x} recorded", version.ino));
    }
}
