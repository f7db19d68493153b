//! References to blobs: counted anew over all branches and parts, and compared with what the records say.

use std::collections::HashMap;

use super::{Checked, Report};
use crate::error::Result;
use crate::record::blob::{Blob, Segment};
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, tag};
use crate::record::upload::Part;

/// Checks all references.
pub(super) fn check(store: &Checked, report: &mut Report) -> Result<()> {
    let mut counted = count(store, report)?;
    let mut live: HashMap<u64, u64> = HashMap::new();
    store.each(&[tag::BLOB], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("blob {id:016x}");
        let Some(blob) = report.take(decode::<Blob>(&what, &pair.value)) else { return Ok(()) };
        report.blobs += 1;
        let refs = counted.remove(&id).unwrap_or(0);
        if refs != blob.refs {
            report.problem(format!("{what}: it counts {} references, but {refs} records refer to it", blob.refs));
        }
        if let Some(at) = blob.packed {
            *live.entry(at.segment).or_default() += blob.length;
        }
        Ok(())
    })?;
    for (id, refs) in counted {
        report.problem(format!("blob {id:016x}: {refs} records refer to it, but it has no record"));
    }
    check_segments(store, live, report)
}

fn count(store: &Checked, report: &mut Report) -> Result<HashMap<u64, u32>> {
    let mut counted: HashMap<u64, u32> = HashMap::new();
    let mut refer = |id: u64| *counted.entry(id).or_default() += 1;
    store.each(&[tag::INODE], |pair| {
        if pair.value.is_empty() {
            return Ok(());
        }
        match report.take(decode::<Inode>("an inode", &pair.value)).and_then(|inode| inode.content) {
            Some(Content::Blob(content)) => refer(content.id),
            Some(Content::Extents(content)) => content.home.into_iter().for_each(&mut refer),
            _ => {}
        }
        Ok(())
    })?;
    store.each(&[tag::EXTENT], |pair| {
        if !pair.value.is_empty()
            && let Some(extent) = report.take(decode::<Extent>("an extent", &pair.value))
        {
            refer(extent.blob);
        }
        Ok(())
    })?;
    store.each(&[tag::PART], |pair| {
        if let Some(part) = report.take(decode::<Part>("a part", &pair.value)) {
            part.pieces.iter().filter(|piece| piece.blob != 0).for_each(|piece| refer(piece.blob));
        }
        Ok(())
    })?;
    Ok(counted)
}

fn check_segments(store: &Checked, mut live: HashMap<u64, u64>, report: &mut Report) -> Result<()> {
    store.each(&[tag::SEGMENT], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let Some(segment) = report.take(decode::<Segment>("a segment", &pair.value)) else { return Ok(()) };
        let counted = live.remove(&id).unwrap_or(0);
        if segment.live_bytes != counted {
            report.problem(format!(
                "segment {id:016x}: it counts {} live bytes, but holds {counted}",
                segment.live_bytes
            ));
        }
        Ok(())
    })?;
    for (id, bytes) in live {
        report.problem(format!("segment {id:016x}: {bytes} bytes in it are referred to, but it has no record"));
    }
    Ok(())
}
