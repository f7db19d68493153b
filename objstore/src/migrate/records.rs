//! Making the records of one store those of another.
//!
//! - Both are read in the order of their keys, and only what differs is written: so a run that follows one that was killed
//!   continues, and what the source has lost meanwhile is removed.
//! - The header, and what says where content is, belongs to each store.
//!
//! A crash leaves a part of the records.

use std::collections::VecDeque;

use super::{Phase, Progress};
use crate::error::Result;
use crate::meta::{Durability, Meta, Pair, Read, Value};
use crate::record::key::{self, tag};

/// Records read at a time.
const PAGE: usize = 1024;
/// The most bytes and records of a transaction.
const BYTES_MAX: usize = 1 << 20;
const CHANGES_MAX: usize = 4096;

/// Whether the records of this kind belong to each store.
fn is_own(kind: u8) -> bool {
    matches!(kind, tag::HEADER | tag::CONTENT | tag::PLACED)
}

/// The records of a store that are copied.
struct Records<'a> {
    read: &'a dyn Read,
    page: VecDeque<Pair>,
    from: Option<Vec<u8>>,
}

impl<'a> Records<'a> {
    fn new(read: &'a dyn Read) -> Self {
        Self { read, page: VecDeque::new(), from: Some(vec![tag::HEADER]) }
    }

    fn peek(&mut self) -> Result<Option<&Pair>> {
        while self.page.is_empty() {
            let Some(from) = self.from.take() else { return Ok(None) };
            // Whole kinds are passed over at once: a store may have many chunks.
            if let Some(kind) = from.first().copied().filter(|kind| is_own(*kind)) {
                self.from = Some(vec![kind + 1]);
                continue;
            }
            let end = (from[0]..u8::MAX).find(|kind| is_own(*kind)).unwrap_or(u8::MAX);
            self.page = self.read.scan(&from, &[end], PAGE)?.into();
            self.from = match self.page.back().filter(|_| self.page.len() == PAGE) {
                Some(last) => Some([&last.key[..], &[0]].concat()),
                None => Some(vec![end]).filter(|_| end < u8::MAX),
            };
        }
        Ok(self.page.front())
    }

    fn take(&mut self) -> Option<Pair> {
        self.page.pop_front()
    }
}

/// Makes the records of `target` those of `source`. Returns how many were written or removed.
pub(super) fn copy(source: &Meta, target: &Meta, progress: &(dyn Fn(Progress) + Sync)) -> Result<u64> {
    let (wanted, there) = (source.snapshot(), target.snapshot());
    let (mut wanted, mut there) = (Records::new(&*wanted), Records::new(&*there));
    let (mut changes, mut bytes, mut done, mut read) = (Vec::new(), 0, 0, 0);
    loop {
        let (want, have) = (wanted.peek()?, there.peek()?);
        let (put, remove) = match (want, have) {
            (None, None) => break,
            (Some(want), Some(have)) if want.key == have.key => (want.value != have.value, false),
            (Some(want), have) if have.is_none_or(|have| want.key < have.key) => (true, false),
            _ => (false, true),
        };
        let same = matches!((want, have), (Some(want), Some(have)) if want.key == have.key);
        if remove {
            changes.extend(there.take().map(|pair| (pair.key.to_vec(), None)));
        } else if let Some(pair) = wanted.take() {
            read += 1;
            bytes += pair.key.len() + pair.value.len();
            if put {
                changes.push((pair.key.to_vec(), Some(pair.value)));
            }
            if same {
                there.take();
            }
        }
        if bytes >= BYTES_MAX || changes.len() >= CHANGES_MAX {
            done += write(target, std::mem::take(&mut changes))?;
            bytes = 0;
            progress(Progress { phase: Phase::Records, done: read, total: 0, bytes: 0 });
        }
    }
    Ok(done + write(target, changes)?)
}

/// Writes or removes records, durably.
fn write(target: &Meta, changes: Vec<(Vec<u8>, Option<Value>)>) -> Result<u64> {
    let count = changes.len() as u64;
    if count == 0 {
        return Ok(0);
    }
    let written = target.write(Durability::Synced, move |txn| {
        for (key, value) in changes {
            match value {
                Some(value) => txn.put(key, value.to_vec()),
                None => txn.delete(key),
            }
        }
        Ok(())
    });
    written.wait().map(|()| count)
}

/// Removes all records whose keys begin with the byte `kind`.
pub(super) fn remove_all(target: &Meta, kind: u8) -> Result<()> {
    loop {
        let pairs = target.snapshot().scan(&[kind], &key::after_prefix(&[kind]), CHANGES_MAX)?;
        if pairs.is_empty() {
            return Ok(());
        }
        write(target, pairs.into_iter().map(|pair| (pair.key.to_vec(), None)).collect())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::memory;

    #[test]
    fn copied_records_equal_the_source_and_what_each_store_owns_stays() {
        let stores = [(); 2].map(|()| Meta::new(memory::open().unwrap()));
        let [source, target] = &stores;
        let put = |meta: &Meta, kind: u8, numbers: &[u64], value: u8| {
            let changes = numbers.iter().map(|number| {
                let key = key::by_id(kind, *number);
                (key, Some(Value::from(vec![value; 700])))
            });
            write(meta, changes.collect()).unwrap();
        };
        let many: Vec<u64> = (0..3000).collect();
        for kind in [tag::BUCKET, tag::INODE, tag::ENDED] {
            put(source, kind, &many, 1);
        }
        put(target, tag::INODE, &many[100..200], 2);
        put(target, tag::BLOB, &many[..50], 2);
        for kind in [tag::HEADER, tag::CONTENT, tag::PLACED] {
            put(target, kind, &[7], 9);
            put(source, kind, &[8], 8);
        }
        let copied = || copy(source, target, &|_| {}).unwrap();
        assert_eq!(copied(), 9050);
        assert_eq!(copied(), 0, "nothing differs any more");
        let all = |meta: &Meta, kind: u8| crate::scan::all(&*meta.snapshot(), &[kind]).unwrap();
        for kind in [tag::BUCKET, tag::INODE, tag::ENDED, tag::BLOB] {
            assert_eq!(all(source, kind), all(target, kind));
        }
        for kind in [tag::HEADER, tag::CONTENT, tag::PLACED] {
            assert_eq!(all(target, kind).len(), 1);
        }
        remove_all(target, tag::INODE).unwrap();
        assert_eq!((all(target, tag::INODE).len(), all(target, tag::BUCKET).len()), (0, 3000));
    }
}
