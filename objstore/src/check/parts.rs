//! Check of the parts in which objects were uploaded: each record belongs to an object, and its sizes add up to the
//! object's.

use super::{Checked, Report, Root};
use crate::error::Result;
use crate::meta::Pair;
use crate::record::inode::Inode;
use crate::record::key::{self, tag};
use crate::record::upload::ObjectParts;
use crate::tree::Tree;

/// Checks all of a tree.
pub(super) fn check(store: &Checked<'_>, tree: Tree<'_>, root: &Root, report: &mut Report) -> Result<()> {
    for record in tree.ancestry.all(tree.read, tag::OBJECT_PARTS) {
        let record = record?;
        let Some(ino) = key::u64_at(&record.base, key::INODE_AT) else { continue };
        let what = format!("{}: the parts of inode {ino}", root.what);
        let pair = Pair { key: key::branched(&record.base, record.branch).into(), value: record.value.clone() };
        let Some(parts) = store.take_or_quarantine::<ObjectParts>(&what, &pair, report) else { continue };
        let inode = report.take(tree.inode(ino)).flatten();
        check_one(&what, inode.map(|(_, inode)| inode), &parts, report);
    }
    Ok(())
}

fn check_one(what: &str, inode: Option<Inode>, parts: &ObjectParts, report: &mut Report) {
    let Some((size, object)) = inode.and_then(|inode| Some((inode.size, inode.object?))) else {
        return report.problem(format!("{what}: there is no such object"));
    };
    if !object.part_table {
        report.problem(format!("{what}: the object's record does not mention them"));
    }
    // They have no meaning once a mount changed the content.
    if object.parts == 0 {
        return;
    }
    let sum: u64 = parts.parts.iter().map(|part| part.size).sum();
    if (parts.parts.len(), sum) != (object.parts as usize, size) {
        report.problem(format!(
            "{what}: there are {} of {sum} bytes, the object's record says {} of {size} bytes",
            parts.parts.len(),
            object.parts
        ));
    }
}
