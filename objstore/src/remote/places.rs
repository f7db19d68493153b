//! The records of files that are written in place and whose bytes are in a bucket.

use std::collections::HashSet;

use prost::Message;

use crate::blob::{BlobId, Change, ChunkAt, FileHead, Patch, Places, Saved};
use crate::error::{Error, Result};
use crate::meta::{Durability, Meta, Txn};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::placed::{PlacedChunk, PlacedFile, PlacedPatch};
use crate::scan::all;

/// Records read at a time.
const STEP: usize = 512;

/// The records in the metadata.
pub(crate) struct MetaPlaces(pub Meta);

impl Places for MetaPlaces {
    fn load(&self, blob: BlobId) -> Result<Option<Saved>> {
        let snapshot = self.0.snapshot();
        let Some(value) = snapshot.get(&key::by_id(tag::PLACED, blob.0))? else { return Ok(None) };
        let PlacedFile { length, modified_ns, whole } = decode("a placed file", &value)?;
        let mut saved = Saved { head: FileHead { length, modified_ns, whole }, ..Saved::default() };
        for pair in all(&*snapshot, &key::placed_chunks(blob.0))? {
            let PlacedChunk { object, length, crc } = decode("a chunk of a placed file", &pair.value)?;
            saved.chunks.push((chunk_of(&pair.key)?, ChunkAt { object, length, crc }));
        }
        for pair in all(&*snapshot, &key::placed_patches(blob.0))? {
            let patch: PlacedPatch = decode("a patch of a placed file", &pair.value)?;
            let bytes = u32::try_from(patch.bytes.len()).unwrap_or(u32::MAX);
            saved.patches.push((chunk_of(&pair.key)?, number_at(&pair.key, 14)?, bytes));
        }
        Ok(Some(saved))
    }

    fn patches(&self, blob: BlobId, chunk: u32) -> Result<Vec<Patch>> {
        let snapshot = self.0.snapshot();
        let pairs = all(&*snapshot, &key::placed_patches_of(blob.0, chunk))?;
        let patch = |pair: crate::meta::Pair| {
            let PlacedPatch { offset, bytes } = decode("a patch of a placed file", &pair.value)?;
            Ok(Patch { chunk, number: number_at(&pair.key, 14)?, offset, bytes })
        };
        pairs.into_iter().map(patch).collect()
    }

    fn save(&self, changes: Vec<Change>) -> Result<()> {
        let saved =
            self.0.write(Durability::Synced, move |txn| changes.iter().try_for_each(|change| apply(txn, change)));
        saved.wait()
    }

    fn forget(&self, blob: BlobId) {
        let prefix = key::by_id(tag::PLACED, blob.0);
        let forgotten = self.0.write(Durability::Buffered, move |txn| {
            for pair in all(&*txn, &prefix)? {
                txn.delete(pair.key.to_vec());
            }
            Ok(())
        });
        // A record that stays names a file that nothing refers to; the next start removes both.
        drop(forgotten);
    }

    fn ids(&self) -> Result<Vec<BlobId>> {
        let (snapshot, end) = (self.0.snapshot(), key::after_prefix(&[tag::PLACED]));
        let (mut ids, mut from) = (Vec::new(), vec![tag::PLACED]);
        while let Some(pair) = snapshot.scan(&from, &end, 1)?.first() {
            let Some(id) = key::u64_at(&pair.key, 1) else { break };
            ids.push(BlobId(id));
            let Some(next) = id.checked_add(1) else { break };
            from = key::by_id(tag::PLACED, next);
        }
        Ok(ids)
    }

    fn objects(&self) -> Result<HashSet<u64>> {
        let (snapshot, end) = (self.0.snapshot(), key::after_prefix(&[tag::PLACED]));
        let (mut objects, mut from) = (HashSet::new(), vec![tag::PLACED]);
        loop {
            let pairs = snapshot.scan(&from, &end, STEP)?;
            let Some(last) = pairs.last() else { return Ok(objects) };
            from = [&last.key[..], &[0]].concat();
            for pair in pairs.iter().filter(|pair| pair.key.len() == 14) {
                let chunk: PlacedChunk = decode("a chunk of a placed file", &pair.value)?;
                objects.insert(chunk.object);
            }
        }
    }
}

fn apply(txn: &mut dyn Txn, change: &Change) -> Result<()> {
    let blob = change.blob.0;
    if let Some(first) = change.cut {
        remove(txn, &key::placed_chunk(blob, first), &key::after_prefix(&key::placed_chunks(blob)))?;
        remove(txn, &key::placed_patches_of(blob, first), &key::after_prefix(&key::placed_patches(blob)))?;
    }
    for (chunk, at) in &change.chunks {
        let patches = key::placed_patches_of(blob, *chunk);
        remove(txn, &patches, &key::after_prefix(&patches))?;
        let record = PlacedChunk { object: at.object, length: at.length, crc: at.crc };
        txn.put(key::placed_chunk(blob, *chunk), record.encode_to_vec());
    }
    for patch in &change.patches {
        let record = PlacedPatch { offset: patch.offset, bytes: patch.bytes.clone() };
        txn.put(key::placed_patch(blob, patch.chunk, patch.number), record.encode_to_vec());
    }
    let FileHead { length, modified_ns, whole } = change.head;
    txn.put(key::by_id(tag::PLACED, blob), PlacedFile { length, modified_ns, whole }.encode_to_vec());
    Ok(())
}

fn remove(txn: &mut dyn Txn, from: &[u8], end: &[u8]) -> Result<()> {
    loop {
        let pairs = txn.scan(from, end, STEP)?;
        if pairs.is_empty() {
            return Ok(());
        }
        pairs.into_iter().for_each(|pair| txn.delete(pair.key.to_vec()));
    }
}

fn chunk_of(key: &[u8]) -> Result<u32> {
    number_at(key, 10)
}

fn number_at(key: &[u8], at: usize) -> Result<u32> {
    let bytes = key.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| Error::corrupt("the key of a placed file", "a number", "none"))
}
