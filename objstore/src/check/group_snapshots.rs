//! Check of group snapshots: the record of each group lists exactly the snapshots that name it.
//!
//! - The snapshots decide: a record that is missing, unreadable or different is derived from them again.

use std::collections::BTreeMap;

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report};
use crate::error::Result;
use crate::record::bucket::{GroupSnapshot, Snapshot};
use crate::record::decode;
use crate::record::key::{self, tag};

/// Checks all.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let mut named = named(store)?;
    store.each(&[tag::GROUP_SNAPSHOT], |pair| {
        let name = String::from_utf8_lossy(&pair.key[1..]).into_owned();
        let what = format!("group snapshot \"{name}\"");
        let snapshots = named.remove(&name).unwrap_or_default();
        let value = (!snapshots.is_empty()).then(|| GroupSnapshot { snapshots: snapshots.clone() }.encode_to_vec());
        let done = format!("{what}: repaired, its record lists the snapshots that belong to it");
        match report.take(decode::<GroupSnapshot>(&what, &pair.value)) {
            None => store.fix(Fix::quarantine_record(pair, value, done)),
            Some(record) if record.snapshots != snapshots || snapshots.is_empty() => {
                report.problem(format!("{what}: its record lists other snapshots than those that belong to it"));
                let key = pair.key.to_vec();
                store.fix(match value {
                    Some(value) => Fix::put(key, value, done),
                    None => Fix::remove(key, done),
                });
            }
            Some(_) => {}
        }
        Ok(())
    })?;
    for (name, snapshots) in named {
        let what = format!("group snapshot \"{name}\"");
        report.problem(format!("{what}: its record is missing"));
        let value = GroupSnapshot { snapshots }.encode_to_vec();
        let done = format!("{what}: repaired, it has a record again");
        store.fix(Fix::put(key::by_name(tag::GROUP_SNAPSHOT, &name), value, done));
    }
    Ok(())
}

/// The snapshots of each group, by the group's name. Unreadable snapshots are reported elsewhere.
fn named(store: &Checked<'_>) -> Result<BTreeMap<String, Vec<String>>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    store.each(&[tag::SNAPSHOT], |pair| {
        if let Ok(record) = decode::<Snapshot>("a snapshot", &pair.value)
            && !record.group.is_empty()
        {
            named.entry(record.group).or_default().push(String::from_utf8_lossy(&pair.key[1..]).into_owned());
        }
        Ok(())
    })?;
    Ok(named)
}
